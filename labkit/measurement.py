"""Measurement: what one run of an experiment cost, and where the number comes from."""

from __future__ import annotations

import heapq
import html
import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from .device import Device
from .emulator import Counts
from .errors import LabError
from .roofline import USUAL_ERROR, Ceiling, ceiling
from .timing.results import readable

ACCESSES = 8  # of a warp, that a recorded row keeps: an unrolled kernel has hundreds


@dataclass(frozen=True)
class Measurement:
    """One point of an experiment.

    seconds:  median time of one run. spread: half width of the median's 95 % interval ÷ median.
    bytes, flops: what the work had to move and do. source: "live", "recorded" or "modelled".
    counts:   the traffic of one run from the emulator, where it has kernels.
    arithmetic: whose ceiling the flops run into: "fp32", "tf32" or "bf16".
    library:  what the work was timed in turn with, in the same run; ratio: its time ÷ this one's (1 is as fast
    as the library), with the 99 % interval; nan where it was not compared.
    """

    experiment: str
    settings: dict[str, Any]
    seconds: float
    spread: float
    bytes: float
    flops: float
    source: str
    device: Device
    date: str = ""
    counts: Counts | None = None
    checked: bool = False
    launch_bound: bool = False
    throttled: bool = False
    clock_hz: float | None = None
    arithmetic: str = "fp32"
    library: str = ""
    ratio: float = math.nan
    ratio_ci: tuple[float, float] = (math.nan, math.nan)

    @property
    def bandwidth(self) -> float:
        """Useful bytes per second: what the work had to move ÷ time."""
        return self.bytes / self.seconds

    @property
    def bandwidth_gbs(self) -> float:
        """Useful GB/s (10⁹ bytes)."""
        return self.bandwidth / 1e9

    @property
    def tflops(self) -> float:
        """TFLOP/s."""
        return self.flops / self.seconds / 1e12

    def as_counted(self) -> Measurement:
        """The same with the bytes that its kernels ask of global memory: their sectors of 32 bytes."""
        assert self.counts is not None
        sectors = self.counts.global_load_sectors + self.counts.global_store_sectors
        return replace(self, bytes=32.0 * sectors)

    @property
    def ceiling(self) -> Ceiling:
        """The device's ceiling that this work meets first."""
        return ceiling(self.device, self.bytes, self.flops, self.arithmetic)

    @property
    def share(self) -> float:
        """Achieved ÷ that ceiling."""
        own = self.ceiling
        return own.share(self.bandwidth if own.unit == "GB/s" else self.tflops * 1e12)

    @property
    def origin(self) -> str:
        """Where the number comes from: "recorded, NVIDIA H200, 2026-12-01", "modelled for NVIDIA H200"."""
        if self.source == "modelled":
            return f"modelled for {self.device.name}, usually within {100 * USUAL_ERROR:.0f} %"
        return ", ".join(part for part in (self.source, self.device.name, self.date) if part)

    def facts(self) -> str:
        """One line, always in this order: speed with spread, share of the ceiling, the library, traffic, source."""
        return " · ".join(
            [self._speed(), *self._share(), *self._beside(), *self._traffic(), *self._warnings(), self.origin]
        )

    def _speed(self) -> str:
        if self.bytes and self.ceiling.unit == "GB/s":
            text = f"{self.bandwidth_gbs:,.0f} GB/s"
        elif self.flops:
            text = f"{self.tflops:,.1f} TFLOP/s"
        else:
            text = readable(self.seconds)
        return text if self.source == "modelled" else f"{text} ± {100 * self.spread:.1f} %"

    def _share(self) -> list[str]:
        if not (self.bytes or self.flops) or not self.ceiling.value:
            return []
        return [f"{100 * self.share:.0f} % of {self.ceiling.name}"]

    def _beside(self) -> list[str]:
        if not self.library:
            return []
        low, high = self.ratio_ci
        return [f"{self.ratio:.3f} ± {(high - low) / 2:.3f} of {self.library}"]

    def _traffic(self) -> list[str]:
        if self.counts is None or not self.counts.global_load_requests:
            return []
        return [f"{self.counts.load_sectors_per_request:.1f} sectors per request"]

    def _warnings(self) -> list[str]:
        flags = {"launch-bound": self.launch_bound, "throttled": self.throttled}
        return [name for name, raised in flags.items() if raised]

    def to_row(self) -> dict[str, Any]:
        """The row of a recording; plain JSON types."""
        row = {key: getattr(self, key) for key in _ROW}
        if self.library:
            row |= {key: getattr(self, key) for key in _BESIDE}
        if self.arithmetic != "fp32":
            row["arithmetic"] = self.arithmetic
        row["counts"] = None if self.counts is None else self.counts.to_dict()
        if self.counts is not None:
            del row["counts"]["by_line"]  # the source is at hand where it is read: it can be counted anew
            row["counts"]["lanes"] = heapq.nlargest(ACCESSES, row["counts"]["lanes"], key=_sectors)
        return row

    @classmethod
    def from_row(cls, experiment: str, device: Device, row: dict[str, Any]) -> Measurement:
        """The measurement in a recording's row. Raises LabError if the row is damaged."""
        try:
            counts = Counts.from_dict(row["counts"]) if row.get("counts") else None
            own = {key: row[key] for key in (*_ROW, *_BESIDE, "arithmetic") if key in row or key in _ROW}
            if "ratio_ci" in own:
                own["ratio_ci"] = tuple(own["ratio_ci"])
            return cls(experiment, source="recorded", device=device, counts=counts, **own)
        except (KeyError, TypeError, ValueError) as error:
            raise LabError(
                f"read a recorded row of `{experiment}`", repr(error), "restore or re-record the file"
            ) from error

    def __str__(self) -> str:
        chosen = ", ".join(f"{key}={value}" for key, value in self.settings.items())
        return f"{self.experiment}({chosen}): {self.facts()}"

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return f"<div class='labkit-facts'>{html.escape(str(self))}</div>"


def _sectors(access: dict[str, Any]) -> int:
    return len({address // 32 for address in access["addresses"] if address is not None})


_ROW = (
    "settings",
    "seconds",
    "spread",
    "bytes",
    "flops",
    "date",
    "checked",
    "launch_bound",
    "throttled",
    "clock_hz",
)
_BESIDE = ("library", "ratio", "ratio_ci")


@dataclass(frozen=True)
class Sweep:
    """The measurements of a grid, and the settings that could not be measured with the reason."""

    measurements: tuple[Measurement, ...]
    failed: tuple[tuple[dict[str, Any], LabError], ...] = field(default=())

    def __iter__(self) -> Iterator[Measurement]:
        return iter(self.measurements)

    def __len__(self) -> int:
        return len(self.measurements)

    def __getitem__(self, index: int) -> Measurement:
        return self.measurements[index]

    @property
    def best(self) -> Measurement:
        """The fastest point. Raises LabError if nothing was measured."""
        if not self.measurements:
            raise LabError(
                "the best of a sweep",
                "nothing was measured",
                str(self.failed[0][1]) if self.failed else "sweep",
            )
        return min(self.measurements, key=lambda m: m.seconds)

    def _repr_html_(self) -> str:
        if not self.measurements:
            return "<p>nothing was measured</p>"
        heads = "".join(f"<th>{html.escape(key)}</th>" for key in self.measurements[0].settings)
        rows = "".join(
            "<tr>"
            + "".join(f"<td>{html.escape(str(v))}</td>" for v in m.settings.values())
            + f"<td style='text-align:left'>{html.escape(m.facts())}</td></tr>"
            for m in self.measurements
        )
        left = "".join(f"<li>{html.escape(f'{full}: {error.found}')}</li>" for full, error in self.failed)
        return f"<table><tr>{heads}<th>measured</th></tr>{rows}</table>" + (f"<ul>{left}</ul>" if left else "")
