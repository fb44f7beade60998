"""What NVML says of the GPU while something runs: clock, power, and what holds the clock back."""

from __future__ import annotations

from dataclasses import dataclass

from ..nvml import Nvml, reasons


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
        self._nvml = Nvml()
        self._handle = self._nvml.ask("nvmlDeviceGetHandleByPciBusId", pci_bus_id.encode())

    def read(self) -> Health:
        """A reading of now; takes some tens of microseconds."""
        if self._handle is None:
            return Health()
        ask, handle = self._nvml.ask, self._handle
        clock = ask("nvmlDeviceGetClockInfo", handle, self._nvml.number("NVML_CLOCK_SM"))
        power = ask("nvmlDeviceGetPowerUsage", handle)
        bits = ask("nvmlDeviceGetCurrentClocksThrottleReasons", handle) or 0
        return Health(
            clock_hz=None if clock is None else clock * 1e6,
            watts=None if power is None else power / 1e3,
            reasons=reasons(bits),
        )
