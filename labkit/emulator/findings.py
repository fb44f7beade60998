"""What the sanitizer says: one sentence with block, thread, source line and array."""

from __future__ import annotations

from typing import TYPE_CHECKING

from labkit.errors import LabError

if TYPE_CHECKING:
    from labkit.emulator.lanes import Lanes
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
    name, _ = s.called(address - s.base)
    at, length = address - s.base, len(s.data)
    place = f"{-at} bytes before its start" if at < 0 else f"{at + size - length} bytes past its end"
    element = f"element {at // size} of {length // size}"
    what = f"{verb} {size} bytes of `{name}` {place} (byte {at} of {length}; {element})"
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
    bad: Array = lanes.at % size != 0
    row, column, address = _one(lanes, bad)
    s = None if place else w.memory.near(address)
    where = place or (f"`{s.name}` at byte {address - s.base}" if s else f"address {address:#x}")
    what = f"{verb} {size} bytes of {where}, which is not a multiple of {size}"
    return finding(w, pc, row, column, what, "align the pointer to the width of the access")


def read_only(w: Wave, pc: int, lanes: Lanes, s: Segment) -> LabError:
    row, column = lanes.who(lanes.at == lanes.at)
    return finding(w, pc, row, column, f"writes constant memory `{s.name}`", "use a __device__ variable")


def trapped(w: Wave, pc: int) -> LabError:
    return LabError(
        f"run `{w.program.name}`",
        f"the kernel stopped itself (trap) — {w.program.where(pc)}",
        "see why it gave up",
    )


def endless(w: Wave, pc: int, seconds: float, executed: int) -> LabError:
    where = w.program.where(pc)
    what = f"no thread finished in {seconds:g} s ({executed:,} thread instructions); it spins at {where}"
    return LabError(
        f"run `{w.program.name}`", what, "check the loop's end; for a long kernel give more time (patience=…)"
    )


def deadlock(run: Run) -> LabError:
    w = run.wave
    places = sorted({at for entries in run.waiting.values() for _, at, _, _ in entries})
    where = " and ".join(w.program.where(at) for at in places)
    return LabError(
        f"run `{w.program.name}`",
        f"threads wait at a barrier that the others never reach — {where}",
        "call __syncthreads() where all threads of the block pass, outside of an if",
    )


def uninitialised(w: Wave, pc: int, row: int, column: int, place: str) -> LabError:
    what = f"reads {place}, which nothing wrote"
    return finding(w, pc, row, column, what, "write every element before it is read")


def race(w: Wave, pc: int, row: int, me: int, other: int, byte: int, verb: str, did: str, line: int) -> LabError:
    """Two threads of a block, one cell of shared memory, no barrier between them."""
    tx, ty, _ = w.block
    who = f"({other % tx}, {other // tx % ty}, {other // (tx * ty)})"
    at = f" in line {line}" if line else ""
    what = f"{verb} {w.shared_place(byte)}, which thread {who} {did}{at} with no barrier between: a race"
    return finding(w, pc, row, me, what, "__syncthreads() between the two (or __syncwarp() within a warp)")


def lost_write(w: Wave, pc: int, row: int, me: int, byte: int) -> LabError:
    what = f"writes {w.shared_place(byte)}, and another thread writes another value there at once: a race"
    return finding(w, pc, row, me, what, "let one thread write it, or use an atomic")


def global_race(w: Wave, pc: int, lanes: Lanes, bad: Array, s: Segment, other: int, verb: str, did: str) -> LabError:
    row, column, address = _one(lanes, bad)
    x, y, _ = w.grid
    who = f"({other % x}, {other // x % y}, {other // (x * y)})"
    what = f"{verb} byte {address - s.base} of `{s.name}`, which block {who} {did} in the same launch: a race"
    return finding(w, pc, row, column, what, "an atomic, or a second launch: blocks run in any order")


def divergent_barrier(w: Wave, pc: int, row: int, column: int, why: str) -> LabError:
    what = f"waits at a barrier that a thread {why}"
    return finding(
        w, pc, row, column, what, "call __syncthreads() where all threads of the block pass, outside of an if"
    )


def unmet(w: Wave, pc: int, row: int, column: int) -> LabError:
    what = "takes part in a warp instruction whose mask names lanes that never come"
    return finding(w, pc, row, column, what, "name only the lanes that reach it, or move it out of the if")
