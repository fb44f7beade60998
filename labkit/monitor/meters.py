"""The NVML functions a monitor asks at each sample, and the series they fill."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..nvml import Nvml, reasons


@dataclass(frozen=True)
class Meter:
    """One NVML function and the series it fills.

    take: its value → one value a series. args: numbers, or names of NVML's constants; a tuple of names
    is passed as a list. own: ask the MIG instance itself, not the whole GPU. every: seconds from one
    question to the next, for what moves slowly or is dear; 0 asks at each sample.
    """

    function: str
    names: tuple[str, ...]
    take: Callable[[Any], tuple[Any, ...]]
    args: tuple[Any, ...] = ()
    own: bool = False
    every: float = 0.0

    def arguments(self, nvml: Nvml) -> list[Any]:
        """The arguments after the handle, constants looked up."""
        return [_looked_up(nvml, argument) for argument in self.args]


def _looked_up(nvml: Nvml, argument: Any) -> Any:
    if isinstance(argument, tuple):
        return [nvml.number(name) for name in argument]
    return nvml.number(argument) if isinstance(argument, str) else argument


def _scaled(factor: float) -> Callable[[Any], tuple[Any, ...]]:
    return lambda value: (value * factor,)


def _field(values: Any) -> tuple[Any, ...]:
    """A field of nvmlDeviceGetFieldValues in mW; NVML says for each field whether it has it."""
    return (None if values[0].nvmlReturn else values[0].value.uiVal / 1e3,)


METERS = (
    Meter(
        "nvmlDeviceGetUtilizationRates",
        ("utilisation", "memory_controller"),
        lambda rates: (float(rates.gpu), float(rates.memory)),
        own=True,
        every=0.15,  # the driver renews it six times a second at most
    ),
    Meter("nvmlDeviceGetPowerUsage", ("power",), _scaled(1e-3)),
    Meter("nvmlDeviceGetFieldValues", ("power_now",), _field, (("NVML_FI_DEV_POWER_INSTANT",),)),
    # The driver takes 3.5 to 7 ms of a core for this one (on an H200): ten times a second would be 3.5 % and more.
    Meter("nvmlDeviceGetTotalEnergyConsumption", ("energy",), _scaled(1e-3), every=5.95),
    Meter("nvmlDeviceGetClockInfo", ("sm_clock",), _scaled(1e6), ("NVML_CLOCK_SM",)),
    Meter("nvmlDeviceGetClockInfo", ("memory_clock",), _scaled(1e6), ("NVML_CLOCK_MEM",), every=0.45),
    Meter("nvmlDeviceGetTemperature", ("temperature",), _scaled(1.0), ("NVML_TEMPERATURE_GPU",), every=0.45),
    Meter(
        "nvmlDeviceGetCurrentClocksThrottleReasons",
        ("limited_by",),
        lambda bits: (", ".join(reasons(bits)),),
    ),
    # Version 2 leaves out what the driver reserves, as nvidia-smi does.
    Meter(
        "nvmlDeviceGetMemoryInfo",
        ("memory_used",),
        lambda memory: (float(memory.used),),
        ("nvmlMemory_v2",),
        own=True,
        every=0.45,
    ),
)

# For GPUs without GPM. KB/s; each call takes the driver 20 ms, in which the sampler waits.
PCIE = (
    Meter("nvmlDeviceGetPcieThroughput", ("pcie_sent",), _scaled(1e3), ("NVML_PCIE_UTIL_TX_BYTES",)),
    Meter("nvmlDeviceGetPcieThroughput", ("pcie_received",), _scaled(1e3), ("NVML_PCIE_UTIL_RX_BYTES",)),
)
