"""Questions: exercises answered by a Python function, asked of it with random arguments."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from .device import known
from .errors import LabError
from .occupancy import occupancy

TIMES = 50


@dataclass(frozen=True)
class Question:
    """What a function is asked.

    case: from a random generator, the arguments and the right answer, a tuple of numbers.
    why:  what to look for when the answer is wrong.
    """

    case: Callable[[np.random.Generator], tuple[tuple[Any, ...], tuple[float, ...]]]
    why: str


def ask(name: str, question: Question, answer: Callable[..., Any]) -> tuple[str, ...]:
    """Ask `answer` some fifty times. Returns what was checked; raises LabError with yours and expected."""
    rng = np.random.default_rng()
    for _ in range(TIMES):
        arguments, expected = question.case(rng)
        try:
            came = answer(*arguments)
        except Exception as error:
            raise LabError(f"check {name!r}", f"{type(error).__name__}: {error}", question.why) from error
        _compare(name, question, arguments, came, expected)
    return (f"right for {TIMES} random cases",)


def _compare(name: str, question: Question, arguments: tuple[Any, ...], came: Any, expected: tuple[float, ...]) -> None:
    wanted = ", ".join(f"{value:.6g}" for value in expected)
    try:
        right = np.allclose(np.asarray(came, dtype=float), expected, rtol=1e-6, atol=1e-6)
    except (TypeError, ValueError):
        right = False
    if not right:
        found = f"for {arguments} it should return ({wanted}), it returned {came!r}"
        raise LabError(f"check {name!r}", found, question.why)


def _two_meters(rng: np.random.Generator) -> tuple[tuple[Any, ...], tuple[float, ...]]:
    """A few kernels, some beside each other on SMs of their own; times in whole milliseconds."""
    sms, length = int(rng.integers(8, 160)), int(rng.integers(50, 100))
    count = int(rng.integers(1, 5))
    starts = rng.integers(0, length, count)
    kernels = [(int(s), int(rng.integers(s + 1, length + 1)), int(rng.integers(1, sms // count + 1))) for s in starts]
    busy = np.zeros(length, bool)
    for start, end, _ in kernels:
        busy[start:end] = True
    active = sum((end - start) * used for start, end, used in kernels) / (length * sms)
    return (kernels, length, sms), (100 * float(busy.mean()), 100 * active)


def _occupancy(rng: np.random.Generator) -> tuple[tuple[Any, ...], tuple[float, ...]]:
    """A kernel of which at least one block fits on an SM of compute capability 9.0."""
    while True:
        registers, block = int(rng.integers(16, 256)), int(rng.integers(1, 1025))
        shared = int(rng.integers(2)) * int(rng.integers(100 * 1024))
        try:
            fit = occupancy(known("nvidia-h200"), registers, shared, block)
        except LabError:
            continue
        return (registers, shared, block), (fit.blocks,)


QUESTIONS = {
    "two meters": Question(
        _two_meters,
        "utilisation is the share of the time in which at least one kernel ran: two at once count once; "
        "SM activity weighs each kernel by the SMs it keeps busy",
    ),
    "occupancy": Question(
        _occupancy,
        "take the least of four: places for warps, places for blocks, registers (whole warps in each quarter), "
        "and shared memory (with its extra 1 KiB, rounded up)",
    ),
}
