"""A launch: arguments checked, blocks run wave by wave or on a sample, counts added up."""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from labkit.emulator.compile import Compiled
from labkit.emulator.counters import Access, Counts
from labkit.emulator.global_races import LIMIT, GlobalShadow
from labkit.emulator.loops import Piece, Skipped
from labkit.emulator.machine import PATIENCE, Machine
from labkit.emulator.meter import Meter
from labkit.emulator.spaces import Buffer, Memory
from labkit.emulator.types import Array
from labkit.emulator.wave import Triple, Wave, param_offsets
from labkit.errors import LabError

WAVE = 32768
MEMORY = 256 << 20
STEP = 1000  # what one step costs however few threads take it, in thread-instructions
LIMITS = (1024, 1024, 64)
_machines: weakref.WeakKeyDictionary[Compiled, Machine] = weakref.WeakKeyDictionary()
_globals: weakref.WeakKeyDictionary[Compiled, dict[str, Array]] = weakref.WeakKeyDictionary()


def launch(
    compiled: Compiled,
    grid: Triple,
    block: Triple,
    args: Sequence[Buffer | bytes],
    shared: int = 0,
    *,
    blocks: str | Sequence[int] = "all",
    budget: int | None = None,
    count: bool = True,
    keep: bool = True,
    sanitize: bool = True,
    max_thread_instructions: int | None = None,
    patience: float = PATIENCE,
    progress: Callable[[float], None] | None = None,
) -> Counts:
    """Run a kernel on the CPU and count what it does.

    grid, block: numbers of blocks and threads in x, y, z.  args: a Buffer for each pointer, little-endian
    bytes for each scalar or struct.  shared: dynamic shared memory in bytes.  budget: thread-instructions to
    stay near, by running a sample of the blocks; where nothing is kept and nothing sanitized, long loops are run
    in part too (see loops.py).  Returns Counts. Raises LabError for a launch that is impossible and for what the
    sanitizer finds.
    """
    started = time.perf_counter()
    check(compiled, grid, block, args, shared)
    job = Job(compiled, grid, block, args, shared, count, keep, patience, max_thread_instructions, progress)
    if sanitize:
        job.sanitize()
    elif budget is not None and not keep:
        job.skipped = Skipped(job.touched)
        job.memory.rough = True
    try:
        with np.errstate(all="ignore"):
            if budget is not None and blocks == "all":
                job.sample(budget)
            else:
                chosen: Sequence[int] = range(job.total) if isinstance(blocks, str) else blocks
                job.run(chosen, job.inner)
    finally:
        if not keep:
            job.memory.restore()
    return job.counts(time.perf_counter() - started)


def writer(
    compiled: Compiled,
    grid: Triple,
    block: Triple,
    args: Sequence[Buffer | bytes],
    shared: int,
    watch: Buffer,
) -> str:
    """Who last wrote the first byte of `watch`: "block (0, 0, 0), thread (3, 0, 0), line 7: …"; "" if nobody.

    Runs the launch once more; the arrays are left as they are.
    """
    check(compiled, grid, block, args, shared)
    job = Job(compiled, grid, block, args, shared, False, False, PATIENCE, None, None)
    job.memory.watched = job.memory.place(watch.root, watch.name, (watch.offset, watch.size)) + watch.offset
    try:
        with np.errstate(all="ignore"):
            job.run(range(job.total), job.inner)
    finally:
        job.memory.restore()
    return job.memory.writer


class Job:
    """One launch under way: memory, meters, and the blocks that have run."""

    def __init__(
        self,
        compiled: Compiled,
        grid: Triple,
        block: Triple,
        args: Sequence[Buffer | bytes],
        shared: int,
        count: bool,
        keep: bool,
        patience: float,
        most: int | None,
        progress: Callable[[float], None] | None,
    ) -> None:
        self.compiled, self.grid, self.block, self.shared = compiled, grid, block, shared
        self.machine, self.memory = machine_of(compiled), Memory(keep)
        self.params = place(compiled, self.memory, args)
        self.total, self.threads = grid[0] * grid[1] * grid[2], block[0] * block[1] * block[2]
        self.count, self.patience, self.most, self.progress = count, patience, most, progress
        self.inner, self.edge = Meter(compiled.program), Meter(compiled.program)
        self.done = {id(self.inner): 0, id(self.edge): 0}
        self.sanitizing = False
        self.skipped: Skipped | None = None
        self.asked: tuple[Piece, ...] = (("loaded", 1), ("loaded", 2), ("stored", 2))
        self.races: GlobalShadow | None = None
        self.lanes: tuple[Access, ...] = ()
        self.own_sectors, self.shared_by = 1.0, 0
        self.unique: dict[str, int] = {}

    def sanitize(self) -> None:
        self.sanitizing = True
        layout = self.machine.layout
        if self.total * self.threads <= LIMIT and self.total > 1 and not layout.fences:
            self.races = GlobalShadow(layout.global_grain)

    def run(self, blocks: Sequence[int], meter: Meter) -> None:
        """Run these blocks, wave by wave."""
        middle = blocks[len(blocks) // 2] if len(blocks) else -1
        layout = self.machine.layout
        size = layout.shared_bytes(self.shared) + layout.size["local"] * self.threads
        for part in waves(blocks, self.threads, size):
            wave = Wave(
                self.compiled.program,
                self.machine.layout,
                self.memory,
                self.params,
                self.grid,
                self.block,
                part,
                self.shared,
                meter if self.count else None,
            )
            here = np.flatnonzero(part == middle)
            wave.watch = int(here[0]) if len(here) and not self.lanes else None
            if self.sanitizing:
                wave.sanitize(self.races)
            self.machine.run(wave, self.patience, self.most, skipped=self.skipped)
            self.lanes = self.lanes or tuple(wave.lanes.values())
            self.done[id(meter)] += len(part)
            if self.progress is not None:
                self.progress(sum(self.done.values()) / self.total)

    def sample(self, budget: int) -> None:
        """The first and last block, which stand for themselves, and as many between as `budget` allows.

        Half of those are neighbours, in the middle of the grid: what they share, a cache spares. The others
        are spread over the grid: what differs from block to block, they catch. Long blocks leave time for
        the neighbours only.
        """
        middle = self.total // 2
        self.run([middle], self.inner)
        self.own_sectors = self.pieces("loaded", 1) / max(self.inner.sum("global_load_sectors"), 1)
        self.asked = self.asked[1:]
        if self.total <= 4:
            return self.run([b for b in range(self.total) if b != middle], self.inner)
        wanted = min(self.total - 3, max(budget // max(self.inner.total, self.threads) - 3, 0))
        whole = wanted == self.total - 3
        long = 4 * STEP * self.inner.steps > budget and not whole  # every further run of blocks is dear
        near = self.total - 2 if whole else 1 + wanted // 2
        first = min(max(middle - near // 2, 1), self.total - 1 - near)
        self.run([b for b in range(first, first + near) if b != middle], self.inner)
        self.shared_by = near
        self.unique = {kind: 64 * self.pieces(kind, 2) for kind in ("loaded", "stored")}
        self.asked = ()
        if long:
            return
        self.run([0, self.total - 1], self.edge)
        taken = range(first, first + near)
        self.run([b for b in _spread(self.total, wanted - near + 1) if b not in taken], self.inner)

    def counts(self, seconds: float) -> Counts:
        """The sums; a sample of the inner blocks is scaled to all of them."""
        inner, edge = self.done[id(self.inner)], self.done[id(self.edge)]
        scale = (self.total - edge) / inner if inner else 1.0
        c = self.inner.counts(scale) + self.edge.counts() if edge else self.inner.counts(scale)
        data = {k: getattr(c, k) for k in c.__dataclass_fields__}
        unique = self.unique or {kind: 64 * self.pieces(kind, 2) for kind in ("loaded", "stored")}
        share = self.total / (self.shared_by or max(inner + edge, 1))
        data.update(
            unique_load_bytes=round(unique["loaded"] * share),
            unique_store_bytes=round(unique["stored"] * share),
            array_bytes=sum(len(s.data) for s in self.memory.segments if s.loaded is not None or s.stored is not None),
            block_load_sectors=round(c.global_load_sectors * self.own_sectors),
            blocks=self.total,
            threads=self.total * self.threads,
            sampled=inner + edge != self.total or bool(self.skipped and self.skipped.rounds),
            seconds_emulated=seconds,
            lanes=self.lanes,
        )
        return Counts(**data)

    def pieces(self, kind: str, sectors: int) -> int:
        """How many different pieces of 1 or 2 sectors the blocks that ran have touched."""
        more = self.skipped.pieces.get((kind, sectors), 0.0) if self.skipped else 0.0
        return self._touched(kind, sectors) + round(more)

    def _touched(self, kind: str, sectors: int) -> int:
        seen = (getattr(s, kind) for s in self.memory.segments)
        each = (x if sectors == 1 else x.view(np.uint16) for x in seen if x is not None)
        return sum(int(np.count_nonzero(x)) for x in each)

    def touched(self) -> dict[Piece, int]:
        """The pieces touched so far, of the kinds that will still be asked for."""
        return {kind: self._touched(*kind) for kind in self.asked}


def _spread(total: int, wanted: int) -> list[int]:
    """`wanted` blocks between the first and the last, evenly spread, the same every time."""
    return sorted({1 + (2 * k + 1) * (total - 2) // (2 * wanted) for k in range(wanted)}) if wanted else []


def waves(blocks: Sequence[int], threads: int, block_bytes: int = 0) -> Iterator[Array]:
    """Blocks in groups of about 32,768 threads: more would push registers out of the cache (and within MEMORY)."""
    size = max(1, min(WAVE // threads, MEMORY // max(block_bytes, 1)))
    for start in range(0, len(blocks), size):
        part = blocks[start : start + size]
        yield np.arange(part[0], part[-1] + 1) if isinstance(part, range) else np.array(part)


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
        raise LabError(
            asked, "every dimension of grid and block must be at least 1", "at least one block of one thread"
        )
    if threads > 1024 or any(b > m for b, m in zip(block, LIMITS, strict=True)):
        raise LabError(asked, f"a block of {threads:,} threads; the limit is 1,024 (z at most 64)", "a smaller block")
    if grid[0] >= 2**31 or max(grid[1:]) > 65535:
        raise LabError(
            asked, "a grid reaches 2,147,483,647 blocks in x and 65,535 in y and z", "move the long side to x"
        )
    if len(args) != len(c.entry.params):
        raise LabError(asked, f"{len(args)} arguments for {len(c.entry.params)} parameters", "one argument each")
    for p, a in zip(c.entry.params, args, strict=True):
        if isinstance(a, bytes) and len(a) != p.size:
            raise LabError(
                asked,
                f"parameter {p.name} has {p.size} bytes, the argument {len(a)}",
                f"a value of type {p.type}",
            )
        if isinstance(a, Buffer) and p.size != 8:
            raise LabError(
                asked,
                f"an array for parameter {p.name}, which is a {p.type}",
                "a pointer parameter, or a number",
            )
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
            address = memory.place(a.root, a.name, (a.offset, a.size)) + a.offset
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
            memory.symbols[v.name] = memory.place(store[v.name], v.name, None, v.space)
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
