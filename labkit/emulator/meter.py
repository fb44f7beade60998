"""Counting while the machine runs: plain integers for each instruction, summed up by line at the end."""

from __future__ import annotations

import itertools
from itertools import accumulate

import numpy as np

from labkit.emulator.banks import NEIGHBOURS
from labkit.emulator.counters import ADDED, Access, Counts, LineCounts
from labkit.emulator.program import Program
from labkit.emulator.ptx import Instr
from labkit.emulator.types import Array

FLOAT = {"f16": 1, "bf16": 1, "f32": 1, "f64": 1, "f16x2": 2, "bf16x2": 2, "f32x2": 2}
ARITHMETIC = {
    "add": 1,
    "sub": 1,
    "mul": 1,
    "fma": 2,
    "mad": 2,
    "div": 1,
    "sqrt": 1,
    "rcp": 1,
    "rsqrt": 1,
    "sin": 1,
    "cos": 1,
    "ex2": 1,
    "lg2": 1,
    "tanh": 1,
}


def flops(i: Instr) -> float:
    """Floating-point operations of one thread executing `i`; a fused multiply-add is two."""
    if i.op in ("mma", "wmma") and (i.op == "mma" or "mma" in i.mods):
        shape = next((m for m in i.mods if m[0] == "m" and m[1:2].isdigit()), "m0n0k0")
        m, n, k = (int(x) for x in shape[1:].replace("n", " ").replace("k", " ").split())
        return 2 * m * n * k / 32
    kind = i.types[0] if i.types else ""
    return ARITHMETIC.get(i.op, 0) * FLOAT.get(kind, 0)


Ranked = tuple[tuple[int, int], Access | None]  # conflicts of a shared access and the rows it spans


class Meter:
    """One list of integers for each counter, one place for each instruction.

    Threads and warps are kept as differences: a straight run from `a` to `b` adds at a and subtracts at b.
    """

    def __init__(self, p: Program) -> None:
        size = len(p.code) + 1
        self.program = p
        self.threads, self.warps = [0] * size, [0] * size
        self.memory: dict[str, list[int]] = {n: [0] * size for n in ADDED[:8]}
        self.divergent = [0] * size
        self.stored = 0
        self.banks: Ranked = ((-1, 0), None)
        self.total = self.steps = 0

    def ran(self, start: int, end: int, threads: int, warps: int) -> None:
        self.threads[start] += threads
        self.threads[end] -= threads
        self.warps[start] += warps
        self.warps[end] -= warps
        self.total += threads * (end - start)
        self.steps += end - start

    def taken(self, start: int, end: int) -> Array:
        """All counters of the instructions `start` … `end` - 1, one after the other, and the sums."""
        parts = [counts[start:end] for counts in (self.threads, self.warps, self.divergent, *self.memory.values())]
        return np.array([*itertools.chain.from_iterable(parts), self.stored, self.total])

    def add(self, start: int, more: Array) -> None:
        """Add to the counters, from instruction `start` on, by how much `taken` has grown."""
        lists = (self.threads, self.warps, self.divergent, *self.memory.values())
        *rest, stored, total = more.tolist()
        size = len(rest) // len(lists)
        for n, counts in enumerate(lists):
            for k, grown in enumerate(rest[n * size : (n + 1) * size], start):
                counts[k] += grown
        self.stored += stored
        self.total += total

    def lines(self) -> list[LineCounts]:
        threads, warps = list(accumulate(self.threads)), list(accumulate(self.warps))
        rows: dict[int, dict[str, float]] = {}
        for pc, i in enumerate(self.program.code):
            if not warps[pc]:
                continue
            row = rows.setdefault(i.line, dict.fromkeys(ADDED, 0))
            for name, counts in self.memory.items():
                row[name] += counts[pc]
            row["warp_instructions"] += warps[pc]
            row["thread_instructions"] += threads[pc]
            row["divergent_branches"] += self.divergent[pc]
            row["flops"] += flops(i) * threads[pc]
        return [LineCounts(line, self.program.line_text(line), **{k: round(v) for k, v in row.items()})
                for line, row in sorted(rows.items())]  # fmt: skip

    def counts(self, scale: float = 1.0) -> Counts:
        """The sums, scaled by `scale` (all blocks ÷ blocks that ran)."""
        lines = self.lines()
        if scale != 1.0:
            lines = [LineCounts(x.line, x.text, **{n: round(getattr(x, n) * scale) for n in ADDED}) for x in lines]
        sums = {n: sum(getattr(x, n) for x in lines) for n in ADDED}
        whole = {
            "load_waits": round(self.load_waits() * scale),
            "global_store_bytes": round(self.stored * scale),
        }
        return Counts(**{**sums, **whole, "by_line": tuple(lines), "banks": self.banks[1]})

    def sum(self, name: str) -> int:
        """One of the memory counters over all instructions."""
        return sum(self.memory[name])

    def load_waits(self) -> int:
        """Waits of warps for global memory so far."""
        return sum(n * warps for n, warps in zip(self.program.waits, accumulate(self.warps), strict=True))


def by_warp(a: Array, fill: int | bool) -> Array:
    """(B, T) -> (B, W, 32): the threads of a block in warps of 32, the last one padded with `fill`."""
    rows, t = a.shape
    if t % 32:
        a = np.concatenate([a, np.full((rows, -t % 32), fill, a.dtype)], axis=1)
    return a.reshape(rows, -1, 32)


def distinct(keys: Array) -> Array:
    """How many different values each row of (N, 32) holds; negative ones are lanes that are off."""
    step = np.diff(keys, axis=1)
    if (step < 0).any():
        keys = np.sort(keys, axis=1)
        step = np.diff(keys, axis=1)
    result: Array = np.count_nonzero((step != 0) & (keys[:, 1:] >= 0), axis=1) + (keys[:, 0] >= 0)
    return result


def turns(words: Array, groups: int) -> tuple[Array, Array]:
    """Turns that shared memory needs for each row of (N, 32) word numbers, and the least it could need.

    words: a lane's first word; negative for lanes that are off. groups: 1 for accesses of up to 4 bytes, 2 for 8
    (served by half warps), 4 for 16: quarter warps, or halves where neighbours ask for the same (see `banks.parts`).
    """
    needed, least = _turns(words, groups)
    if groups == 4:
        halves = words.reshape(-1, 16)
        together = np.zeros(len(halves), bool)
        for step in NEIGHBOURS:
            together |= (halves == halves[:, np.arange(16) ^ step]).all(axis=1)
        if together.any():
            joined, once = _turns(words, 2)
            pairs = needed.reshape(-1, 2, 2).sum(axis=2), least.reshape(-1, 2, 2).sum(axis=2)
            mask = together.reshape(-1, 2)
            needed, least = np.where(mask, joined, pairs[0]), np.where(mask, once, pairs[1])
    return needed.sum(axis=1), least.sum(axis=1)


def _turns(words: Array, groups: int) -> tuple[Array, Array]:
    """For each row and each of its groups of lanes: the turns, and 1 where any lane is on."""
    rows = words.reshape(-1, 32 // groups)
    ordered = np.sort(rows, axis=1)
    fresh = ordered >= 0
    fresh[:, 1:] &= ordered[:, 1:] != ordered[:, :-1]
    row = np.broadcast_to(np.arange(len(rows))[:, None], rows.shape)
    per_bank = np.bincount((row * 32 + (ordered & 31))[fresh], minlength=32 * len(rows)).reshape(-1, 32)
    needed = per_bank.max(axis=1).reshape(-1, groups)
    return needed, np.minimum(needed, 1)
