"""A fake NVML: the real pynvml's constants, structures and errors over GPUs that are not there."""

from __future__ import annotations

import ctypes
import functools
import threading
import time
import types
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pynvml as real


@dataclass
class Card:
    """One GPU: what it answers. refused: function → NVML error code. gpm: metric id → value, or None."""

    name: str = "NVIDIA H200"
    bus: str = "00000000:19:00.0"
    gpm: dict[int, float] | None = field(default_factory=lambda: dict(H200_PRODUCT))
    refused: dict[str, int] = field(default_factory=dict)
    refused_after: dict[str, tuple[int, int]] = field(default_factory=dict)  # → (calls, code)
    parts: int = 0  # MIG instances
    instance: int | None = None
    utilisation: int = 100
    bits: int = 0x4
    processes: tuple[tuple[int, int | None], ...] = ((4242, 3 << 30),)
    calls: dict[str, int] = field(default_factory=dict)


H200_PRODUCT = {
    real.NVML_GPM_METRIC_SM_UTIL: 82.0,
    real.NVML_GPM_METRIC_SM_OCCUPANCY: 12.0,
    real.NVML_GPM_METRIC_ANY_TENSOR_UTIL: 79.0,
    real.NVML_GPM_METRIC_FP64_UTIL: 0.0,
    real.NVML_GPM_METRIC_FP32_UTIL: 1.0,
    real.NVML_GPM_METRIC_FP16_UTIL: 0.0,
    real.NVML_GPM_METRIC_INTEGER_UTIL: 2.0,
    real.NVML_GPM_METRIC_DRAM_BW_UTIL: 15.0,
    real.NVML_GPM_METRIC_PCIE_TX_PER_SEC: 1.0,
    real.NVML_GPM_METRIC_PCIE_RX_PER_SEC: 2048.0,
}


class FakeNvml(types.ModuleType):
    """Stands in for `pynvml` in sys.modules. driver: the error of nvmlInit, if the driver is not there."""

    def __init__(self, *cards: Card, driver: int = 0, lacks: tuple[str, ...] = ()) -> None:
        super().__init__("pynvml")
        self.cards, self.driver, self.lacks = list(cards), driver, lacks
        self.samples = 0  # GPM buffers alive
        self.gpm_seconds = 0.0  # that a GPM call takes
        self.in_gpm = threading.Lock()
        self.metrics: dict[int, list[Any]] = {}
        self.NVMLError = real.NVMLError

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name in self.lacks:
            raise AttributeError(name)
        if name.startswith("nvml") and callable(getattr(real, name, None)):
            value: Any = functools.partial(self._call, name)
        else:
            value = getattr(real, name)
        setattr(self, name, value)  # found at once from now on: the fake's own time counts in the test of cost
        return value

    def _call(self, name: str, *args: Any) -> Any:
        if name == "nvmlInit" and self.driver:
            raise real.NVMLError(self.driver)
        if args and isinstance(args[0], Card):
            self._refuse(args[0], name)
        answer = ANSWERS.get(name)
        assert answer is not None, f"the fake has no {name}"
        if not name.startswith("nvmlGpm"):
            return answer(self, *args)
        assert self.in_gpm.acquire(blocking=False), "two threads in GPM, which may crash the real one"
        try:
            if self.gpm_seconds:
                time.sleep(self.gpm_seconds)
            return answer(self, *args)
        finally:
            self.in_gpm.release()

    def _refuse(self, card: Card, name: str) -> None:
        card.calls[name] = card.calls.get(name, 0) + 1
        calls, code = card.refused_after.get(name, card.refused_after.get("*", (1 << 30, 0)))
        if name in card.refused or card.calls[name] > calls:
            raise real.NVMLError(card.refused.get(name, code))


def _handle(nvml: FakeNvml, index: int) -> Card:
    if index >= len(nvml.cards):
        raise real.NVMLError(real.NVML_ERROR_INVALID_ARGUMENT)
    return nvml.cards[index]


def _by_bus(nvml: FakeNvml, bus: bytes) -> Card:
    for card in nvml.cards:
        if card.bus.endswith(bus.decode()):
            return card
    raise real.NVMLError(real.NVML_ERROR_NOT_FOUND)


def _part(nvml: FakeNvml, card: Card, slot: int) -> Card:
    if slot >= card.parts:
        raise real.NVMLError(real.NVML_ERROR_NOT_FOUND)
    refused = {"nvmlDeviceGetUtilizationRates": real.NVML_ERROR_NOT_SUPPORTED}
    return Card(f"{card.name} MIG 1g.18gb", instance=7 + slot, refused=refused)


def _support(nvml: FakeNvml, card: Card) -> Any:
    found = real.c_nvmlGpmSupport_t()
    found.version, found.isSupportedDevice = real.NVML_GPM_SUPPORT_VERSION, card.gpm is not None
    return found


def _alloc(nvml: FakeNvml) -> Any:
    nvml.samples += 1
    return real.c_nvmlGpmSample_t()


def _free(nvml: FakeNvml, _: Any) -> None:
    nvml.samples -= 1


def _metrics(nvml: FakeNvml, asked: Any) -> Any:
    assert asked.version == 1 and 0 < asked.numMetrics <= real.NVML_GPM_METRIC_MAX
    values = nvml.cards[0].gpm or {}
    at = ctypes.addressof(asked)
    if at not in nvml.metrics:
        nvml.metrics[at] = [asked.metrics[i] for i in range(asked.numMetrics)]
    for metric in nvml.metrics[at]:
        there = metric.metricId in values
        metric.nvmlReturn = real.NVML_SUCCESS if there else real.NVML_ERROR_NOT_SUPPORTED
        metric.value = values.get(metric.metricId, 0.0)
    return asked


def _struct(kind: str, **values: Any) -> Any:
    made = getattr(real, kind)()
    for name, value in values.items():
        setattr(made, name, value)
    return made


def _fields(nvml: FakeNvml, card: Card, ids: list[int]) -> Any:
    values = (real.c_nvmlFieldValue_t * len(ids))()
    for value, number in zip(values, ids, strict=True):
        value.fieldId = number
        value.value.uiVal = 640_000
    return values


def _energy(nvml: FakeNvml, card: Card) -> int:
    return 1_000_000 + 50_000 * card.calls["nvmlDeviceGetTotalEnergyConsumption"]


def _process(pid: int, size: int | None) -> Any:
    return real.nvmlFriendlyObject({"pid": pid, "usedGpuMemory": size})


ANSWERS: dict[str, Callable[..., Any]] = {
    "nvmlInit": lambda nvml: None,
    "nvmlDeviceGetCount": lambda nvml: len(nvml.cards),
    "nvmlDeviceGetHandleByIndex": _handle,
    "nvmlDeviceGetHandleByPciBusId": _by_bus,
    "nvmlDeviceGetIndex": lambda nvml, card: nvml.cards.index(card),
    "nvmlDeviceGetName": lambda nvml, card: card.name,
    "nvmlSystemGetDriverVersion": lambda nvml: "580.95.05",
    "nvmlDeviceGetMigMode": lambda nvml, card: [int(card.parts > 0)] * 2,
    "nvmlDeviceGetMaxMigDeviceCount": lambda nvml, card: 7,
    "nvmlDeviceGetMigDeviceHandleByIndex": _part,
    "nvmlDeviceGetGpuInstanceId": lambda nvml, card: card.instance,
    "nvmlDeviceGetUtilizationRates": lambda nvml, card: _struct("c_nvmlUtilization_t", gpu=card.utilisation, memory=15),
    "nvmlDeviceGetPowerUsage": lambda nvml, card: 650_000,
    "nvmlDeviceGetFieldValues": _fields,
    "nvmlDeviceGetTotalEnergyConsumption": _energy,
    "nvmlDeviceGetClockInfo": lambda nvml, card, which: {1: 1755, 2: 3201}[which],
    "nvmlDeviceGetMaxClockInfo": lambda nvml, card, which: {1: 1980, 2: 3201}[which],
    "nvmlDeviceGetTemperature": lambda nvml, card, sensor: 57,
    "nvmlDeviceGetTemperatureThreshold": lambda nvml, card, which: 90,
    "nvmlDeviceGetMarginTemperature": lambda nvml, card: 30,
    "nvmlDeviceGetCurrentClocksThrottleReasons": lambda nvml, card: card.bits,
    "nvmlDeviceGetMemoryInfo": lambda nvml, card, version=None: _struct(
        "c_nvmlMemory_v2_t" if version else "c_nvmlMemory_t", total=141 << 30, used=20 << 30
    ),
    "nvmlDeviceGetEnforcedPowerLimit": lambda nvml, card: 700_000,
    "nvmlDeviceGetPowerManagementLimit": lambda nvml, card: 700_000,
    "nvmlDeviceGetMaxPcieLinkGeneration": lambda nvml, card: 5,
    "nvmlDeviceGetMaxPcieLinkWidth": lambda nvml, card: 16,
    "nvmlDeviceGetPcieThroughput": lambda nvml, card, way: 1500 * (1 + way),
    "nvmlDeviceGetComputeRunningProcesses": lambda nvml, card: [_process(*p) for p in card.processes],
    "nvmlDeviceGetGraphicsRunningProcesses": lambda nvml, card: [],
    "nvmlGpmQueryDeviceSupport": _support,
    "nvmlGpmSampleAlloc": _alloc,
    "nvmlGpmSampleFree": _free,
    "nvmlGpmSampleGet": lambda nvml, card, sample: sample,
    "nvmlGpmMigSampleGet": lambda nvml, card, instance, sample: sample,
    "nvmlGpmMetricsGet": _metrics,
}
