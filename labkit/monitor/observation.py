"""Observation: what the meters said while a workload ran, and what it did meanwhile."""

from __future__ import annotations

import html
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..errors import LabError
from .quantities import ALL
from .samples import Samples

if TYPE_CHECKING:
    from ..plots import Drawing

FACTS = ("utilisation", "sm_active", "dram", "power")


@dataclass(frozen=True)
class Observation:
    """One workload at one setting.

    rate:  steps per second. bytes, flops: of one step, as the workload declares them useful.
    samples: None where it was neither run nor recorded; then every mean is nan and `why` says so.
    """

    workload: str
    settings: dict[str, Any]
    samples: Samples | None
    rate: float = math.nan
    bytes: float = 0.0
    flops: float = 0.0
    source: str = "live"
    why: str = ""

    @property
    def origin(self) -> str:
        """Where the numbers come from: "recorded, NVIDIA H200, 2026-12-01"."""
        return self.why if self.samples is None else self.samples.origin

    @property
    def name(self) -> str:
        """The workload with its settings, as a table shows it."""
        chosen = ", ".join(f"{key.replace('_', ' ')} {value}" for key, value in self.settings.items())
        return f"{self.workload.replace('_', ' ')} ({chosen})" if chosen else self.workload.replace("_", " ")

    def mean(self, name: str) -> float:
        """The mean of a series, see labkit.monitor.quantities for units; nan where it is missing."""
        return math.nan if self.samples is None else self.samples.mean(name)

    def values(self, name: str) -> NDArray[np.float64]:
        """A series at the instants it was read at, oldest first; a single nan where it is missing."""
        series = [] if self.samples is None else self.samples.series(name)
        return np.array([value for value in series if value is not None] or [math.nan])

    def held_back(self) -> str:
        """What held the clock back at any time, by name; empty if nothing did."""
        texts = [] if self.samples is None else self.samples.series("limited_by")
        reasons = dict.fromkeys(reason for text in texts if text for reason in str(text).split(", "))
        return ", ".join(reasons)

    @property
    def watts(self) -> float:
        """Energy over time: by the counter, which misses nothing between two samples."""
        if self.samples is None or not self.samples.seconds:
            return math.nan
        return self.samples.joules() / self.samples.seconds

    @property
    def joules_per_flop(self) -> float:
        """Energy per useful floating-point operation; nan where the workload declares none."""
        return self.watts / (self.rate * self.flops) if self.flops and self.rate > 0 else math.nan

    @property
    def joules_per_byte(self) -> float:
        """Energy per useful byte; nan where the workload declares none."""
        return self.watts / (self.rate * self.bytes) if self.bytes and self.rate > 0 else math.nan

    def energy(self) -> str:
        """Energy per useful operation, or byte where no operation is declared."""
        for joules, unit in ((self.joules_per_flop, "FLOP"), (self.joules_per_byte, "B")):
            if not math.isnan(joules):
                return f"{_readable(joules)}/{unit}"
        return "—"

    def facts(self) -> str:
        """One line: what the meters said on average, energy, source."""
        if self.samples is None:
            return self.why
        meters = [f"{ALL[n].label} {ALL[n].text(self.mean(n))}" for n in FACTS]
        return " · ".join([*meters, *([self.energy()] if self.energy() != "—" else []), self.origin])

    def plot(self, *names: str) -> Drawing | None:
        """Draw series over time; see Samples.plot. None where there is nothing to draw."""
        return None if self.samples is None else self.samples.plot(*names)

    def to_row(self) -> dict[str, Any]:
        """The row of a recording; without process names and single cores, which are the recorder's own."""
        samples = {} if self.samples is None else self.samples.to_dict(host_cores=False)
        samples["processes"] = []
        kept = {name: getattr(self, name) for name in ("settings", "rate", "bytes", "flops")}
        return {**kept, "samples": samples}

    @classmethod
    def from_row(cls, workload: str, row: dict[str, Any]) -> Observation:
        """The observation in a recording's row. Raises LabError if the row is damaged."""
        try:
            samples = Samples.from_dict(row["samples"])
            kept = {name: row[name] for name in ("settings", "rate", "bytes", "flops")}
        except (KeyError, TypeError) as error:
            asked = f"read a recorded row of `{workload}`"
            raise LabError(asked, repr(error), "restore or re-record the file") from error
        return cls(workload, samples=samples, source="recorded", **kept)

    def __str__(self) -> str:
        return f"{self.name}: {self.facts()}"

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return f"<div class='labkit-facts'>{html.escape(str(self))}</div>"


def _readable(joules: float) -> str:
    """Joules with the prefix that leaves one to three digits before the point."""
    prefixes = ((1.0, "J"), (1e-3, "mJ"), (1e-6, "µJ"), (1e-9, "nJ"), (1e-12, "pJ"))
    factor, unit = next((p for p in prefixes if joules >= p[0]), (1e-15, "fJ"))
    return f"{joules / factor:.3g} {unit}"
