"""What a panel shows for its settings; nothing here knows of widgets."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from labkit.errors import LabError
from labkit.plots import Scene, quantity
from labkit.plots.axis import is_number, level
from labkit.plots.warp import layout

if TYPE_CHECKING:
    from labkit.emulator import Access, Counts
    from labkit.measurement import Measurement

Grid = Mapping[str, Sequence[Any]]


class Experiment(Protocol):
    """What a panel needs of an experiment; `labkit.experiment.Experiment` is one."""

    name: str
    grid: dict[str, tuple[Any, ...]]

    @property
    def defaults(self) -> dict[str, Any]: ...
    def settings(self) -> Iterator[dict[str, Any]]: ...
    def measure(self, settings: dict[str, Any], again: bool = False) -> Measurement: ...
    def known(self) -> list[Measurement]: ...
    def others(self) -> dict[str, list[Measurement]]: ...


def axis(grid: Grid, x: str | None = None) -> str:
    """Return the setting along the axis: `x`, else the first with three or more numbers, else the first.

    Raises LabError if `x` is not a setting.
    """
    if x is not None and x not in grid:
        raise LabError(f"a panel along {x!r}", "it is not a setting of the experiment", f"one of {', '.join(grid)}")
    numeric = (name for name, values in grid.items() if len(values) > 2 and all(map(is_number, values)))
    varied = (name for name, values in grid.items() if len(values) > 1)
    return x or next(numeric, None) or next(varied, next(iter(grid)))


def upright(m: Measurement) -> str:
    """Return what stands on the upright axis: the unit of the ceiling, or time where no work is declared."""
    if not (m.bytes or m.flops):
        return "seconds"
    return "tflops" if m.ceiling.unit == "TFLOP/s" else "bandwidth"


def costliest(counts: Counts | None) -> Access | None:
    """Return the warp's access that moves most sectors; the first of equals."""
    accesses: Iterable[Access] = counts.lanes if counts is not None else ()
    return max(accesses, key=lambda access: len(layout(access).used), default=None)


def conflicted(counts: Counts | None) -> Access | None:
    """Return the warp's access to shared memory that has most bank conflicts."""
    return None if counts is None else counts.banks


ACCESS: dict[str, Callable[[Counts | None], Access | None]] = {"sectors": costliest, "banks": conflicted}


def strip(lanes: bool | str) -> str | None:
    """Return what stands under the curve: "sectors" (also for True), "banks", or None for False.

    Raises LabError for anything else.
    """
    if isinstance(lanes, bool):
        return "sectors" if lanes else None
    if lanes not in ACCESS:
        raise LabError(f"a panel with lanes={lanes!r}", "that cannot be drawn", '"sectors", "banks", True or False')
    return lanes


def scene(
    experiment: Experiment,
    known: Sequence[Measurement],
    others: Mapping[str, Sequence[Measurement]],
    current: Measurement | None,
    x: str,
    guess: float | None = None,
    under: str | None = "sectors",
) -> Scene:
    """Return what to draw; `under` the curve stands what `strip` says.

    known: all measurements there are; others: other GPUs' by name; current: the one the reader stands on.
    guess: the reader's, as a share (0–1) of the ceiling.
    """
    values = experiment.grid[x]
    ordered = tuple(sorted(values)) if all(map(is_number, values)) else tuple(values)
    if current is None:
        return Scene(x, ordered, quantity("bandwidth"), ())
    y = upright(current)
    unit = quantity(y, [*known, current])
    ceiling = current.ceiling if y != "seconds" and current.ceiling.value else None
    heights = [unit.of(m) for m in (*known, current)] + ([level(ceiling)] if ceiling else [])
    return Scene(
        x=x, values=ordered, unit=unit, current=current, ceiling=ceiling,
        track=beside(known, current, x),
        guess=None if guess is None or ceiling is None else guess * level(ceiling),
        access=ACCESS[under](current.counts) if under else None,
        others={name: beside(theirs, current, x) for name, theirs in others.items()},
        top=max(filter(math.isfinite, heights), default=1.0),
        sources=frozenset(m.source for m in (*known, current)),
    )  # fmt: skip


def beside(measurements: Iterable[Measurement], current: Measurement, x: str) -> list[Measurement]:
    """Return those that differ from the current one in setting `x` at most."""
    rest = {name: value for name, value in current.settings.items() if name != x}
    return [m for m in measurements if all(m.settings.get(name) == value for name, value in rest.items())]
