"""Random small kernels that are valid CUDA C, with what each must give, computed in Python thread by thread.

Every line is written twice, as CUDA C and as Python.  The Python of a thread is a generator: at a barrier or
a warp exchange it yields its value and is sent the values of all threads of its block, so that no idea of how
a GPU works (masks, warps' program counters, reconvergence) is shared with what is tested.
"""

from __future__ import annotations

import math
import random
import re
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import numpy as np
import operations
from operations import PRELUDE
from writer import ATOMICS, BINS, CELLS, EDGES, INPUTS, SLOTS, STARTS, Writer, number

from labkit.emulator import Compiled, compile_kernel, compiled_from_ptx


@dataclass(frozen=True)
class Kernel:
    """One kernel of a program, how to launch it, and its Python."""

    name: str
    source: str
    python: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    args: tuple[np.ndarray, ...]

    def alone(self) -> str:
        """A source of this kernel only."""
        return PRELUDE + self.source

    def expected(self) -> tuple[np.ndarray, np.ndarray]:
        """`out` and `bins` after the launch, thread by thread."""
        names: dict[str, Any] = {**vars(operations), "tally": tally, "ATOMICS": ATOMICS}
        exec(self.python, names)  # text of this module's own making
        a, b, x, y, out, bins = (array.tolist() for array in self.args)
        threads = math.prod(self.block)
        for block in range(self.grid[0]):
            run_block([names[self.name](t, block, threads, a, b, x, y, out, bins) for t in range(threads)])
        return np.array(out, np.uint64), np.array(bins, np.uint32)


@dataclass(frozen=True)
class Program:
    """Kernels of one source, so that one compilation serves them all."""

    source: str
    kernels: tuple[Kernel, ...]


def compile_program(made: Program) -> list[Compiled]:
    """All kernels for the emulator: compiled together, then each parsed alone, which is quick."""
    together = compile_kernel(made.source, made.kernels[0].name, arch="compute_90", ftz=False).ptx
    head, *entries = re.split(r"(?=^\s*\.visible \.entry )", together, flags=re.M)
    texts = {name[1]: head + e for e in entries if (name := re.search(r"\.entry (\w+)", e))}
    return [compiled_from_ptx(texts[k.name], k.name, made.source) for k in made.kernels]


def differences(want: tuple[np.ndarray, ...], got: tuple[np.ndarray, ...]) -> str:
    """Where `out` and `bins` differ, in a line; empty if nowhere."""
    for name, w, g in zip(("out", "bins"), want, got, strict=True):
        at = np.flatnonzero(w != g)
        if len(at):
            return f"{name}[{at[0]}]: {g[at[0]]:#x} for {w[at[0]]:#x}, and {len(at) - 1} more of {w.size}"
    return ""


def run_block(threads: list[Generator[Any, list[Any], None]]) -> None:
    """Take all threads of a block from one barrier or exchange to the next."""
    values = [next(thread, None) for thread in threads]
    while any(value is not None for value in values):
        values = [_sent(thread, values) for thread in threads]


def _sent(thread: Generator[Any, list[Any], None], values: list[Any]) -> Any:
    try:
        return thread.send(values)
    except StopIteration:
        return None


def tally(kind: str, start: int, given: list[tuple[int, int] | tuple[()]]) -> list[int]:
    """Cells of shared memory after one atomic of each thread that took part."""
    cells = [start] * CELLS
    for cell, value in filter(None, given):
        cells[cell] = ATOMICS[kind][1](cells[cell], value)
    return cells


def program(seed: int, count: int) -> Program:
    """`count` kernels, the same for the same seed."""
    kernels = tuple(_kernel(random.Random(f"{seed}/{n}"), f"k{n}") for n in range(count))
    return Program(PRELUDE + "\n".join(k.source for k in kernels), kernels)


def _kernel(rng: random.Random, name: str) -> Kernel:
    writer, blocks = Writer(rng, name), rng.randint(1, 3)
    source, python = writer.write()
    arrays = inputs(rng, blocks * writer.threads, writer.kind)
    return Kernel(name, source, python, (blocks, 1, 1), writer.block, arrays)


def inputs(rng: random.Random, threads: int, kind: str) -> tuple[np.ndarray, ...]:
    """The arrays a, b, x, y, out and bins."""
    types = {"u32": np.uint32, "u64": np.uint64, "f32": np.float32, "f64": np.float64}
    read = [
        np.array([*EDGES[k], *(number(rng, k) for _ in range(INPUTS - len(EDGES[k])))], dtype)
        for k, dtype in types.items()
    ]
    bins = np.full(BINS, STARTS[ATOMICS[kind][0]], np.uint32)
    return *read, np.zeros(threads * SLOTS, np.uint64), bins
