"""Exercise: is the reader's kernel right, clean and fast? Run first in the emulator, where it can harm nothing."""

from __future__ import annotations

import html
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .device import array_module, is_live
from .errors import LabError
from .kernel import Kernel
from .questions import QUESTIONS, ask

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Case:
    """One launch with a known answer.

    args: host arrays and numbers; `output` is the index of the array that is compared with `expected`
    (|difference| ≤ tolerance · (1 + |expected|)). The output starts out poisoned, so that what is not
    written is seen.
    """

    grid: tuple[int, ...]
    block: tuple[int, ...]
    args: tuple[Any, ...]
    output: int
    expected: Array
    tolerance: float = 1e-5


@dataclass(frozen=True)
class Exercise:
    """What a kernel is asked to do, and the traffic it may cause at most.

    case:   builds a launch from a random generator and a size: "small" (awkward: nothing divides evenly
            where the exercise allows it) or "large" (for counting).
    limits: names of Counts' attributes → the most allowed; least: → the least demanded.
    why:    what to look for when a limit is passed.
    """

    case: Callable[[np.random.Generator, str], Case]
    limits: dict[str, float]
    why: str
    least: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Passed:
    """What was checked and found: one line a check."""

    name: str
    lines: tuple[str, ...] = field(default=())

    def __str__(self) -> str:
        return "\n".join(f"✓ {line}" for line in (f"{self.name}: solved", *self.lines))

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return (
            "<div class='labkit-passed'>" + "<br>".join(html.escape(line) for line in str(self).splitlines()) + "</div>"
        )


def check(name: str, answer: Kernel | Callable[..., Any]) -> Passed:
    """Check a reader's kernel against the exercise of that name.

    Right: compared with NumPy on fresh random data. Clean: no access out of bounds, no race, nothing read
    that was not written. Fast: its memory traffic within the exercise's limits. On a GPU it is then run
    there too. A plain function is asked with random arguments. Raises LabError with what was expected,
    what came, and which thread wrote it.
    """
    if name in QUESTIONS:
        return Passed(name, ask(name, QUESTIONS[name], answer))
    if name not in EXERCISES:
        raise LabError(f"check {name!r}", "no such exercise", "one of " + ", ".join([*EXERCISES, *QUESTIONS]))
    if not isinstance(answer, Kernel):
        raise LabError(f"check {name!r}", f"the answer is a {type(answer).__name__}", "a labkit.kernel(…)")
    exercise = EXERCISES[name]
    rng = np.random.default_rng()
    small = exercise.case(rng, "small")
    _run(name, answer, small, answer.run_emulated)
    lines = [
        "right: equal to NumPy's answer on random data",
        "clean: no stray access, no race, nothing unwritten read",
    ]
    lines += _within_limits(name, answer, exercise, rng)
    if is_live():
        _run(name, answer, exercise.case(rng, "large"), _on_gpu(answer))
        lines.append("right on the GPU too")
    return Passed(name, tuple(lines))


def _run(name: str, answer: Kernel, case: Case, launch: Callable[..., object]) -> None:
    out = case.args[case.output]
    out[...] = np.nan if out.dtype.kind == "f" else -1
    launch(case.grid, case.block, case.args)
    wrong = ~(np.abs(out - case.expected) <= case.tolerance * (1 + np.abs(case.expected)))
    if wrong.any():
        _explain(name, answer, case, out, wrong)


def _explain(name: str, answer: Kernel, case: Case, out: Array, wrong: Array) -> None:
    flat = int(np.flatnonzero(wrong)[0])
    index = tuple(int(i) for i in np.unravel_index(flat, out.shape))
    came, wanted = out.flat[flat], case.expected.flat[flat]
    if np.isnan(came):
        found = f"element {index} should be {wanted:.6g}, and nothing was written there"
    else:
        writer = answer.writer(case.grid, case.block, case.args, case.output, flat)
        found = f"element {index} should be {wanted:.6g}, is {came:.6g}{f', written by {writer}' if writer else ''}"
    share = f"{int(wrong.sum()):,} of {wrong.size:,} elements are wrong"
    raise LabError(f"check {name!r}", f"{found}; {share}", "follow that thread through your kernel by hand")


SHARES = {"lane_efficiency": "{:.0%}"}


def _within_limits(name: str, answer: Kernel, exercise: Exercise, rng: np.random.Generator) -> list[str]:
    case = exercise.case(rng, "large")
    counts = answer.count(case.grid, case.block, case.args)
    lines = []
    for bounds, words, sign in ((exercise.limits, "at most", 1), (exercise.least, "at least", -1)):
        for attribute, bound in bounds.items():
            value, shown = float(getattr(counts, attribute)), SHARES.get(attribute, "{:,.1f}").format
            said, asked = f"{attribute.replace('_', ' ')}: {shown(value)}", f"{words} {shown(bound)}"
            if sign * value > sign * bound:
                raise LabError(f"check {name!r}", f"right, but {said}, {asked} here", exercise.why)
            lines.append(f"{said} ({asked})")
    return lines


def _on_gpu(answer: Kernel) -> Callable[..., object]:
    def launch(grid: tuple[int, ...], block: tuple[int, ...], args: tuple[Any, ...]) -> None:
        xp = array_module()
        placed = [xp.asarray(a) if isinstance(a, np.ndarray) else a for a in args]
        answer(grid, block, placed)
        for host, there in zip(args, placed, strict=True):
            if isinstance(host, np.ndarray):
                host[...] = there.get()

    return launch


def _column_sums(rng: np.random.Generator, size: str) -> Case:
    rows, columns = (37, 200) if size == "small" else (64, 4096)
    a = rng.random((rows, columns), dtype=np.float32)
    out = np.empty(columns, np.float32)
    expected = a.sum(axis=0, dtype=np.float64)
    return Case((-(-columns // 128),), (128,), (a, out, rows, columns), 1, expected, 1e-4)


def _transpose(rng: np.random.Generator, size: str) -> Case:
    n = 64 if size == "small" else 512
    a = rng.random((n, n), dtype=np.float32)
    return Case((n // 32, n // 32), (32, 8), (a, np.empty_like(a), n), 1, a.T, 0.0)


def _scale(rng: np.random.Generator, size: str) -> Case:
    n = 1024 if size == "small" else 1 << 16
    a = rng.random(n, dtype=np.float32)
    return Case((n // 4 // 128,), (128,), (a, np.empty_like(a), n // 4), 1, 3.0 * a)


def _product(rows: int, sizes: tuple[int, int]) -> Callable[[np.random.Generator, str], Case]:
    """C = A·B of square matrices in blocks of 16 × 16 threads that compute `rows` × 16 of C."""

    def case(rng: np.random.Generator, size: str) -> Case:
        n = sizes[size == "large"]
        a, b = (rng.random((n, n), dtype=np.float32) - 0.5 for _ in range(2))
        wanted = a.astype(np.float64) @ b.astype(np.float64)
        return Case((n // 16, n // rows), (16, 16), (a, b, np.empty_like(a), n), 2, wanted)

    return case


def _grid_stride(rng: np.random.Generator, size: str) -> Case:
    """Fewer threads than elements when small, more when large."""
    n, blocks = (int(rng.integers(700, 1000)), int(rng.integers(1, 6))) if size == "small" else (1 << 15, 1024)
    a = rng.random(n, dtype=np.float32)
    return Case((blocks,), (64,), (a, np.empty_like(a), n), 1, 3.0 * a)


def _one_path(rng: np.random.Generator, size: str) -> Case:
    blocks = 3 if size == "small" else 64
    a = rng.random(64 * blocks, dtype=np.float32)
    expected = a.astype(np.float64)
    for _ in range(20):
        expected[0::2] = 0.9 * expected[0::2] + 0.1
        expected[1::2] = 0.9 * expected[1::2] + 0.1 / (1 + expected[1::2])
    return Case((blocks,), (64,), (a, np.empty_like(a)), 1, expected)


EXERCISES = {
    "column sums": Exercise(
        _column_sums,
        {"load_sectors_per_request": 4.0},
        "neighbouring lanes should read neighbouring floats: which index should threadIdx.x be?",
    ),
    "transpose": Exercise(
        _transpose,
        {"load_sectors_per_request": 4.0, "store_sectors_per_request": 4.0, "shared_load_conflicts": 0.0},
        "read and write rows; turn the tile in shared memory; pad its rows by one float",
    ),
    "tiled product": Exercise(
        _product(16, (48, 128)),
        {"global_load_requests": 8192.0},
        "each float of a tile comes from global memory once a block: 16 steps of the sum for one pair of tiles",
    ),
    "four results": Exercise(
        _product(64, (64, 128)),
        {"shared_load_requests": 81_920.0},
        "read one float of bs, use it for four rows: the loop over the rows is inside the loop over the tile",
    ),
    "swizzle": Exercise(
        _transpose,
        {"shared_load_conflicts": 0.0, "shared_store_conflicts": 0.0, "store_sectors_per_request": 4.0},
        "where does element (y, x) of the tile lie if its column is renamed by its row? x ^ y stays below 32",
    ),
    "wide scale": Exercise(
        _scale,
        {"global_load_requests": 512.0, "load_sectors_per_request": 16.0},
        "one 16-byte load per thread: read float4, not four floats",
    ),
    "grid stride": Exercise(
        _grid_stride,
        {"load_sectors_per_request": 4.0},
        "in each round the whole grid reads neighbours: the step is gridDim.x * blockDim.x",
    ),
    "one path": Exercise(
        _one_path,
        {"warp_instructions": 10_000.0},
        "let warp 0 of a block take the even elements and warp 1 the odd ones; compute one formula for each, not both",
        {"lane_efficiency": 0.95},
    ),
}
