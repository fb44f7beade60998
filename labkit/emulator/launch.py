"""A launch: arguments checked, blocks run wave by wave or on a sample, counts added up."""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from labkit.emulator.compile import Compiled
from labkit.emulator.counters import Counts
from labkit.emulator.machine import PATIENCE, Machine
from labkit.emulator.meter import Meter
from labkit.emulator.ptx import WIDTH
from labkit.emulator.spaces import Buffer, Memory
from labkit.emulator.types import Array
from labkit.emulator.wave import Triple, Wave, param_offsets
from labkit.errors import LabError

WAVE = 32768
LIMITS = (1024, 1024, 64)
_machines: weakref.WeakKeyDictionary[Compiled, Machine] = weakref.WeakKeyDictionary()
_globals: weakref.WeakKeyDictionary[Compiled, dict[str, Array]] = weakref.WeakKeyDictionary()


def launch(compiled: Compiled, grid: Triple, block: Triple, args: Sequence[Buffer | bytes], shared: int = 0, *,
           blocks: str | Sequence[int] = "all", budget: int | None = None, count: bool = True, keep: bool = True,
           sanitize: bool = True, max_thread_instructions: int | None = None, patience: float = PATIENCE,
           progress: Callable[[float], None] | None = None) -> Counts:  # fmt: skip
    """Run a kernel on the CPU and count what it does.

    grid, block: numbers of blocks and threads in x, y, z.  args: a Buffer for each pointer, little-endian bytes for
    each scalar or struct.  shared: dynamic shared memory in bytes.  Returns Counts.
    Raises LabError for a launch that is impossible and for what the sanitizer finds.
    """
    started = time.perf_counter()
    check(compiled, grid, block, args, shared)
    machine = machine_of(compiled)
    memory = Memory(keep)
    params = place(compiled, memory, args)
    meter = Meter(compiled.program) if count else None
    total = grid[0] * grid[1] * grid[2]
    threads = block[0] * block[1] * block[2]
    chosen: Sequence[int] = range(total) if isinstance(blocks, str) else blocks
    done = 0
    try:
        with np.errstate(all="ignore"):
            for part in waves(chosen, threads):
                wave = Wave(compiled.program, machine.layout, memory, params, grid, block, part, shared, meter)
                machine.run(wave, patience, max_thread_instructions)
                done += len(part)
                if progress is not None:
                    progress(done / len(chosen))
    finally:
        if not keep:
            memory.restore()
    return summary(meter, memory, total, done, threads, time.perf_counter() - started)


def waves(blocks: Sequence[int], threads: int) -> Iterator[Array]:
    """Blocks in groups of about 32,768 threads, so that a wave's registers stay in the cache."""
    size = max(1, WAVE // threads)
    for start in range(0, len(blocks), size):
        part = blocks[start : start + size]
        yield np.arange(part[0], part[-1] + 1) if isinstance(part, range) else np.array(part)


def summary(meter: Meter | None, memory: Memory, total: int, done: int, threads: int, seconds: float) -> Counts:
    scale = total / done if done else 1.0
    c = meter.counts(scale) if meter is not None else Counts()
    unique: dict[str, int] = {}
    for kind in ("loaded", "stored"):
        per = [(32 * int(np.count_nonzero(s)), len(x.data)) for x in memory.segments if (s := getattr(x, kind)) is not None]
        unique[kind] = round(sum(min(n * scale, max(size, n)) for n, size in per))
    data = {k: getattr(c, k) for k in c.__dataclass_fields__}
    data.update(unique_load_bytes=unique["loaded"], unique_store_bytes=unique["stored"], blocks=total,
                threads=total * threads, sampled=done != total, seconds_emulated=seconds)  # fmt: skip
    return Counts(**data)


def machine_of(compiled: Compiled) -> Machine:
    """The kernel's steps, made once."""
    if compiled not in _machines:
        _machines[compiled] = Machine(compiled.program)
    return _machines[compiled]


def check(c: Compiled, grid: Triple, block: Triple, args: Sequence[Buffer | bytes], shared: int) -> None:
    """Refuse what a GPU would refuse."""
    asked = f"launch `{c.name}` with grid {grid}, block {block}"
    threads = block[0] * block[1] * block[2]
    if min(*grid, *block) < 1:
        raise LabError(asked, "every dimension of grid and block must be at least 1", "at least one block of one thread")
    if threads > 1024 or any(b > m for b, m in zip(block, LIMITS, strict=True)):
        raise LabError(asked, f"a block of {threads:,} threads; the limit is 1,024 (z at most 64)", "a smaller block")
    if grid[0] >= 2**31 or max(grid[1:]) > 65535:
        raise LabError(asked, "a grid reaches 2,147,483,647 blocks in x and 65,535 in y and z", "move the long side to x")
    if len(args) != len(c.entry.params):
        raise LabError(asked, f"{len(args)} arguments for {len(c.entry.params)} parameters", "one argument each")
    for p, a in zip(c.entry.params, args, strict=True):
        if isinstance(a, bytes) and len(a) != p.size:
            raise LabError(asked, f"parameter {p.name} has {p.size} bytes, the argument {len(a)}", f"a value of type {p.type}")
        if isinstance(a, Buffer) and p.size != 8:
            raise LabError(asked, f"an array for parameter {p.name}, which is a {p.type}", "a pointer parameter, or a number")
    most = machine_of(c).layout.shared_bytes(shared)
    if most > 232448:
        raise LabError(asked, f"{most:,} bytes of shared memory for a block; the limit is 232,448", "a smaller tile")


def place(compiled: Compiled, memory: Memory, args: Sequence[Buffer | bytes]) -> Array:
    """Arrays into global memory, variables beside them; returns the bytes of parameter memory."""
    offsets = param_offsets(compiled.program)
    size = offsets[-1] + compiled.entry.params[-1].size if offsets else 0
    params = bytearray(size + 8)
    for at, a, p in zip(offsets, args, compiled.entry.params, strict=True):
        if isinstance(a, Buffer):
            address = memory.place(a.root, a.name, a.offset) + a.offset
            params[at : at + 8] = address.to_bytes(8, "little")
        else:
            params[at : at + p.size] = a
    variables(compiled, memory)
    return np.frombuffer(bytes(params), np.uint8)


def variables(compiled: Compiled, memory: Memory) -> None:
    """__device__ and __constant__ variables: they live as long as the kernel does."""
    used = _symbols(compiled)
    store = _globals.setdefault(compiled, {})
    for v in compiled.program.variables.values():
        if v.space in ("global", "const") and v.name in used:
            if v.name not in store:
                store[v.name] = np.zeros(max(v.size, 1), np.uint8)
                store[v.name][: len(v.init)] = np.frombuffer(v.init, np.uint8)
            memory.symbols[v.name] = memory.place(store[v.name], v.name, 0, v.space)
    for v in compiled.program.variables.values():
        for at, other in v.links if v.name in memory.symbols else ():
            address = memory.symbols.get(other, 0)
            store[v.name][at : at + 8] = np.frombuffer(address.to_bytes(8, "little"), np.uint8)


def _symbols(compiled: Compiled) -> set[str]:
    from labkit.emulator.ptx import Addr, Sym

    names: set[str] = set()
    for i in compiled.program.code:
        for a in i.args:
            base: Any = a.base if isinstance(a, Addr) else a
            if isinstance(base, Sym):
                names.add(base.name)
    for v in compiled.program.variables.values():
        if v.name in names:
            names.update(other for _, other in v.links)
    return names


_ = WIDTH
