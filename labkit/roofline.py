"""Roofline: which of a device's ceilings a piece of work runs into, and how far below it stands."""

from __future__ import annotations

from dataclasses import dataclass

from .device import Device

# 90 % of the recorded settings of all labs are predicted within this. benchmarks/model.py prints it lab by lab:
# kernels that wait for memory are nearer, matrix products farther off.
USUAL_ERROR = 0.3


@dataclass(frozen=True)
class Ceiling:
    """The most a device gives to work of one intensity: its name, value in bytes/s or FLOP/s, and unit shown."""

    name: str
    value: float
    unit: str

    def share(self, achieved: float) -> float:
        """achieved ÷ ceiling, 0 where the ceiling is not known."""
        return achieved / self.value if self.value else 0.0


def ridge(device: Device, flops: float | None = None) -> float:
    """The intensity in FLOP per byte above which arithmetic is the limit (Williams et al. 2009)."""
    return (flops or device.fp32_flops) / device.copy_bandwidth


def ceiling(device: Device, bytes_: float, flops: float, arithmetic: str = "fp32") -> Ceiling:
    """The ceiling that work of `bytes_` moved and `flops` done meets first: copy, or that of its arithmetic."""
    rate = device.rate(arithmetic)
    if bytes_ and (not flops or flops / bytes_ < ridge(device, rate)):
        return Ceiling("copy", device.copy_bandwidth, "GB/s")
    return Ceiling(arithmetic.upper(), rate, "TFLOP/s")
