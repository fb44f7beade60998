"""What NVML says of the GPU while something runs: clock, power, and what holds the clock back."""

from __future__ import annotations

import contextlib
import importlib
from dataclasses import dataclass
from typing import Any

# NVML's reasons that mean "slower than it could be"; an idle GPU and a clock that somebody set are not.
REASONS = {
    0x04: "power cap",
    0x08: "hardware slowdown",
    0x20: "temperature (software)",
    0x40: "temperature (hardware)",
    0x80: "power brake",
}


@dataclass(frozen=True)
class Health:
    """One reading: SM clock in hertz, board power in watts (None where NVML is silent), reasons by name."""

    clock_hz: float | None = None
    watts: float | None = None
    reasons: tuple[str, ...] = ()


class Gauge:
    """Reads one GPU through NVML; where NVML or the permission is missing, every reading is empty.

    pci_bus_id: as CUDA gives it, e.g. "0000:19:00.0". It names the GPU whatever CUDA_VISIBLE_DEVICES says.
    """

    def __init__(self, pci_bus_id: str) -> None:
        self._nvml: Any = None
        with contextlib.suppress(ImportError):
            self._nvml = importlib.import_module("pynvml")
        self._try("nvmlInit")
        self._handle = self._try("nvmlDeviceGetHandleByPciBusId", pci_bus_id.encode())

    def _try(self, name: str, *args: Any) -> Any:
        """The answer of an NVML function, or None where this driver, GPU or user may not have it."""
        if self._nvml is None:
            return None
        try:
            return getattr(self._nvml, name)(*args)
        except (self._nvml.NVMLError, AttributeError):
            return None

    def read(self) -> Health:
        """A reading of now; takes some tens of microseconds."""
        if self._handle is None:
            return Health()
        clock = self._try("nvmlDeviceGetClockInfo", self._handle, self._nvml.NVML_CLOCK_SM)
        power = self._try("nvmlDeviceGetPowerUsage", self._handle)
        bits = self._try("nvmlDeviceGetCurrentClocksThrottleReasons", self._handle) or 0
        return Health(
            clock_hz=None if clock is None else clock * 1e6,
            watts=None if power is None else power / 1e3,
            reasons=tuple(name for bit, name in REASONS.items() if bits & bit),
        )
