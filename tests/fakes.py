"""Stand-ins for a device, a measurement and an experiment, so that drawings and panels are tested alone."""

from __future__ import annotations

import itertools
import time
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from labkit.errors import LabError


@dataclass(frozen=True)
class Access:
    line: int
    op: str
    bytes_per_lane: int
    addresses: tuple[int | None, ...]
    array: str = "x"


class Ceiling(NamedTuple):
    name: str
    value: float
    unit: str


@dataclass(frozen=True)
class Device:
    name: str = "NVIDIA H200"
    copy_bandwidth: float = 4270e9
    fp32_flops: float = 51e12
    tf32_flops: float = 410e12
    bf16_flops: float = 785e12
    source: str = "recorded"
    date: str = "2026-12-01"


@dataclass(frozen=True)
class Counts:
    lanes: tuple[Access, ...]
    load_sectors_per_request: float
    banks: Access | None = None


@dataclass(frozen=True)
class Measurement:
    settings: dict[str, Any]
    seconds: float
    bytes: float
    source: str = "recorded"
    flops: float = 0.0
    counts: Counts | None = None
    device: Device = field(default_factory=Device)
    experiment: str = "strided"
    date: str = "2026-12-01"

    @property
    def bandwidth(self) -> float:
        return self.bytes / self.seconds

    @property
    def bandwidth_gbs(self) -> float:
        return self.bandwidth / 1e9

    @property
    def tflops(self) -> float:
        return self.flops / self.seconds / 1e12

    @property
    def ceiling(self) -> Ceiling:
        return Ceiling("copy", self.device.copy_bandwidth, "GB/s")

    @property
    def share(self) -> float:
        return self.bandwidth / self.ceiling.value

    def facts(self) -> str:
        sectors = self.counts.load_sectors_per_request if self.counts else 0
        return (
            f"{self.bandwidth_gbs:,.0f} GB/s ± 0.4 % · {100 * self.share:.0f} % of copy · "
            f"{sectors:.1f} sectors per request · {self.source}, {self.device.name}, {self.date}"
        )


def access(stride: int = 1, width: int = 4, offset: int = 0, op: str = "load") -> Access:
    return Access(7, op, width, tuple(width * (offset + lane * stride) for lane in range(32)))


class Experiment:
    """A read of every `stride`-th number: its speed is a formula, its grid that of the lab."""

    name = "strided"

    def __init__(self, delay: float = 0.0, known: bool = True, impossible: int = 0) -> None:
        self.grid: dict[str, tuple[Any, ...]] = {
            "stride": (1, 2, 4, 8, 16, 32),
            "block": (64, 128, 256, 512),
            "width": ("4 B", "8 B", "16 B"),
            "aligned": (True, False),
        }
        self.defaults = {name: values[0] for name, values in self.grid.items()}
        self.delay, self.calls, self.impossible = delay, 0, impossible
        self.done: dict[tuple[Any, ...], Measurement] = {}
        if known:
            self.done = {tuple(s.values()): self.make(s) for s in self.settings()}

    def settings(self) -> Any:
        for values in itertools.product(*self.grid.values()):
            yield dict(zip(self.grid, values, strict=True))

    def make(self, settings: dict[str, Any]) -> Measurement:
        width = int(str(settings["width"]).split()[0])
        touched = access(settings["stride"], width, 0 if settings["aligned"] else 1)
        sectors = len({a // 32 for a in touched.addresses if a is not None})
        share = min(1.0, width * 32 / (32 * sectors)) ** 0.8 * (0.7 + settings["block"] / 2000)
        counts = Counts((touched,), float(sectors), touched)
        return Measurement(dict(settings), 1e9 / (share * 4.27e12), 1e9, counts=counts)

    def measure(self, settings: dict[str, Any], again: bool = False) -> Measurement:
        key = tuple(settings.values())
        if again or key not in self.done:
            self.calls += 1
            time.sleep(self.delay)
            if settings["block"] == self.impossible:
                raise LabError(f"launch with block={self.impossible}", "too large here", "a smaller block")
            self.done[key] = self.make(settings)
        return self.done[key]

    def known(self) -> list[Measurement]:
        return list(self.done.values())

    def others(self) -> dict[str, list[Measurement]]:
        return {}
