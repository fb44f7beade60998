"""What the sanitizer says: one sentence with block, thread, source line and array."""

from __future__ import annotations

from typing import TYPE_CHECKING

from labkit.errors import LabError

if TYPE_CHECKING:
    import numpy as np

    from labkit.emulator.access import Lanes
    from labkit.emulator.machine import Run
    from labkit.emulator.spaces import Segment
    from labkit.emulator.types import Array
    from labkit.emulator.wave import Wave


def finding(w: Wave, pc: int, row: int, column: int, what: str, try_: str) -> LabError:
    """A LabError that names the thread and the reader's line."""
    who = w.thread(row, column)
    return LabError(f"run `{w.program.name}`", f"{who} {what} — {w.program.where(pc)}", try_)


def _one(lanes: Lanes, bad: Array) -> tuple[int, int, int]:
    row, column = lanes.who(bad)
    return row, column, int(lanes.at[bad].flat[0])


def outside(w: Wave, pc: int, lanes: Lanes, bad: Array, size: int, verb: str) -> LabError:
    row, column, address = _one(lanes, bad)
    s = w.memory.near(address)
    if s is None:
        what = f"{verb} {size} bytes at address {address:#x}, which belongs to no array"
        return finding(w, pc, row, column, what, "check the pointer and the index it is built from")
    at, length = address - s.base, len(s.data)
    place = f"{-at} bytes before its start" if at < 0 else f"{at + size - length} bytes past its end"
    what = f"{verb} {size} bytes of `{s.name}` {place} (byte {at} of {length}; element {at // size} of {length // size})"
    return finding(w, pc, row, column, what, "guard the index, e.g. `if (i < n)`, or make the array larger")


def outside_shared(w: Wave, pc: int, lanes: Lanes, size: int, verb: str) -> LabError:
    bad = (lanes.at < 0) | (lanes.at + size > w.shared_size)
    row, column, address = _one(lanes, bad)
    what = f"{verb} {size} bytes at byte {address} of shared memory, where the block has {w.shared_size}"
    return finding(w, pc, row, column, what, "check the index, the array's size, or the launch's shared=… bytes")


def outside_local(w: Wave, pc: int, lanes: Lanes, size: int, verb: str) -> LabError:
    limit = w.layout.size["local"]
    bad = (lanes.at < 0) | (lanes.at + size > limit)
    row, column, address = _one(lanes, bad)
    what = f"{verb} {size} bytes at byte {address} of the thread's local arrays, which have {limit}"
    return finding(w, pc, row, column, what, "check the index into the local array")


def misaligned(w: Wave, pc: int, lanes: Lanes, size: int, verb: str, place: str = "") -> LabError:
    bad: np.ndarray = lanes.at % size != 0  # type: ignore[type-arg]
    row, column, address = _one(lanes, bad)
    s = None if place else w.memory.near(address)
    where = place or (f"`{s.name}` at byte {address - s.base}" if s else f"address {address:#x}")
    what = f"{verb} {size} bytes of {where}, which is not a multiple of {size}"
    return finding(w, pc, row, column, what, "align the pointer to the width of the access")


def read_only(w: Wave, pc: int, lanes: Lanes, s: Segment) -> LabError:
    row, column = lanes.who(lanes.at == lanes.at)
    return finding(w, pc, row, column, f"writes constant memory `{s.name}`", "use a __device__ variable")


def trapped(w: Wave, pc: int) -> LabError:
    return LabError(f"run `{w.program.name}`", f"the kernel stopped itself (trap) — {w.program.where(pc)}", "see why it gave up")


def endless(w: Wave, pc: int, seconds: float, executed: int) -> LabError:
    what = f"no thread finished in {seconds:g} s ({executed:,} thread instructions); it spins at {w.program.where(pc)}"
    return LabError(f"run `{w.program.name}`", what, "check the loop's end; for a long kernel give more time (patience=…)")


def deadlock(run: Run) -> LabError:
    w = run.wave
    places = sorted({at for entries in run.waiting.values() for _, at, _, _ in entries})
    where = " and ".join(w.program.where(at) for at in places)
    return LabError(f"run `{w.program.name}`", f"threads wait at a barrier that the others never reach — {where}",
                    "call __syncthreads() where all threads of the block pass, outside of an if")  # fmt: skip
