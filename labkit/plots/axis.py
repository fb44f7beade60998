"""What stands along the axes of a curve: quantities with their units, settings with their scale."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from labkit.measurement import Measurement
    from labkit.roofline import Ceiling

Point = tuple[float, float]


@dataclass(frozen=True)
class Quantity:
    """What stands on the upright axis: its label with unit, and how to read it off a measurement."""

    label: str
    of: Callable[[Measurement], float]


def quantity(y: str, measurements: Iterable[Measurement] = ()) -> Quantity:
    """Return the quantity named `y`: "bandwidth", "tflops", "seconds", "share", or a field of the counts."""
    if y == "seconds":
        longest = max((m.seconds for m in measurements), default=1.0)
        unit, factor = next((pair for pair in (("µs", 1e6), ("ms", 1e3)) if longest * pair[1] < 1000), ("s", 1.0))
        return Quantity(unit, lambda m: m.seconds * factor)
    named = {
        "bandwidth": Quantity("GB/s", lambda m: float(m.bandwidth_gbs)),
        "tflops": Quantity("TFLOP/s", lambda m: float(m.tflops)),
        "share": Quantity("% of the ceiling", lambda m: 100 * float(m.share)),
    }
    return named.get(y) or Quantity(y.replace("_", " "), lambda m: float(getattr(m, y, getattr(m.counts, y, math.nan))))


def level(ceiling: Ceiling) -> float:
    """Return a ceiling's value in the unit it is shown in."""
    return ceiling.value / {"GB/s": 1e9, "TFLOP/s": 1e12}[ceiling.unit]


def is_number(value: Any) -> bool:
    """Say whether a setting is a number; a truth value is a name here."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


@dataclass(frozen=True)
class Scale:
    """Where each listed value of a setting stands: powers and even steps evenly, names in a row."""

    places: Mapping[Any, float]
    note: str
    names: bool

    @property
    def limits(self) -> Point:
        """The axis' ends, a little beyond the outer values."""
        ends = min(self.places.values()), max(self.places.values())
        margin = 0.6 if self.names else max(0.04 * (ends[1] - ends[0]), 0.1)
        return ends[0] - margin, ends[1] + margin


def scale(values: Sequence[Any]) -> Scale:
    """Choose the scale for the listed `values` of a setting: base-2 log, linear, or one place for each."""
    if not all(is_number(value) for value in values):
        return Scale({value: float(i) for i, value in enumerate(values)}, "", True)
    steps = {round(after - before, 9) for before, after in itertools.pairwise(sorted(values))}
    if len(steps) <= 1:
        return Scale({value: float(value) for value in values}, "", False)
    if min(values) > 0:
        return Scale({value: math.log2(value) for value in values}, " (log scale)", False)
    return Scale({value: float(i) for i, value in enumerate(sorted(values))}, " (evenly spaced)", False)


def short(value: Any) -> str:
    """Write a setting's value as a tick: 67108864 is "64 Mi"."""
    if is_number(value) and isinstance(value, int) and value >= 100_000:
        for bits, prefix in ((30, "Gi"), (20, "Mi"), (10, "Ki")):
            if value % (1 << bits) == 0:
                return f"{value >> bits} {prefix}"
    return f"{value:g}" if isinstance(value, float) else str(value)
