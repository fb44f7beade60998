"""One GPU, or one MIG instance of it: its facts, and a reading of all its meters."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import LabError
from ..nvml import LOST, NEVER, Nvml
from .gpm import Gpm
from .meters import METERS, PCIE, Meter
from .quantities import GPM

# PCIe bytes/s of a lane one way, by generation, after its encoding.
LANE = {1: 0.25e9, 2: 0.5e9, 3: 0.985e9, 4: 1.969e9, 5: 3.938e9, 6: 7.563e9}


@dataclass(frozen=True)
class Facts:
    """What does not change while we sample. Base units; None where NVML does not say.

    slowdown: temperature in °C at which the GPU slows itself down. pcie: bytes/s of the link one way.
    """

    label: str
    name: str
    memory: float | None = None
    power_limit: float | None = None
    slowdown: float | None = None
    sm_clock: float | None = None
    pcie: float | None = None
    driver: str = ""


class Gpu:
    """Reads one GPU. What it refuses is in `missing`: series → why; a lost GPU is not asked again.

    parent: of a MIG instance, the GPU that holds it; power, clocks and temperature are the parent's.
    """

    def __init__(self, nvml: Nvml, label: str, handle: Any, parent: Any = None) -> None:
        self._nvml, self.label, self._handle = nvml, label, handle
        self._whole = handle if parent is None else parent
        self.missing: dict[str, str] = {}
        self.lost = ""
        instance = None if parent is None else nvml.ask("nvmlDeviceGetGpuInstanceId", handle)
        self._gpm = Gpm(nvml, self._whole, instance)
        self._calls: dict[Meter, list[Any]] = {}
        self._add(METERS)
        self._gpm_missing = False
        self._due: dict[Meter, float] = {}
        self._energy: float | None = None
        self.facts = self._facts()

    def _add(self, meters: Sequence[Meter]) -> None:
        for meter in meters:
            whose = self._handle if meter.own else self._whole
            self._calls[meter] = [meter.function, whose, *meter.arguments(self._nvml)]

    def _facts(self) -> Facts:
        memory = self._memory(self._handle)
        limit = self._ask("nvmlDeviceGetEnforcedPowerLimit") or self._ask("nvmlDeviceGetPowerManagementLimit")
        clock = self._ask("nvmlDeviceGetMaxClockInfo", self._nvml.number("NVML_CLOCK_SM"))
        generation = self._ask("nvmlDeviceGetMaxPcieLinkGeneration")
        width = self._ask("nvmlDeviceGetMaxPcieLinkWidth")
        return Facts(
            label=self.label,
            name=_text(self._nvml.ask("nvmlDeviceGetName", self._handle)) or "a GPU without a name",
            memory=None if memory is None else float(memory.total),
            power_limit=None if not limit else limit / 1e3,
            slowdown=self._slowdown(),
            sm_clock=None if not clock else clock * 1e6,
            pcie=LANE[generation] * width if generation in LANE and width else None,
            driver=_text(self._nvml.ask("nvmlSystemGetDriverVersion")),
        )

    def _slowdown(self) -> float | None:
        """The slowdown temperature: a threshold, or (Hopper and newer) what is left until there."""
        limit = self._ask("nvmlDeviceGetTemperatureThreshold", 1)
        if limit:
            return float(limit)
        left, now = self._ask("nvmlDeviceGetMarginTemperature"), self._ask("nvmlDeviceGetTemperature", 0)
        return None if left is None or now is None else float(now + left)

    def _ask(self, name: str, *args: Any) -> Any:
        return self._nvml.ask(name, self._whole, *args)

    def _memory(self, handle: Any) -> Any:
        version = self._nvml.number("nvmlMemory_v2")
        newer = self._nvml.ask("nvmlDeviceGetMemoryInfo", handle, version)
        return newer or self._nvml.ask("nvmlDeviceGetMemoryInfo", handle)

    def read(self, everything: bool = False) -> dict[str, Any]:
        """One reading: series → value, without those that are missing; `limited_by` is text.

        everything: ask for what is not due yet, too.
        """
        row: dict[str, Any] = {}
        now = time.monotonic()
        for meter, call in list(self._calls.items()):
            if now < self._due.get(meter, 0.0) and not everything:
                continue
            self._due[meter] = now + meter.every
            answer = self._nvml.answer(*call)
            if answer.refusal in LOST:
                self.lost = LOST[answer.refusal]
                return {}
            if not answer.refusal:
                row.update(zip(meter.names, meter.take(answer.value), strict=True))
            if answer.refusal in NEVER or (not answer.refusal and row[meter.names[0]] is None):
                self._drop(meter, NEVER.get(answer.refusal, NEVER["NotSupported"]))
        row.update(self._gpm.read())
        row = {name: value for name, value in row.items() if value is not None}
        if self._gpm.missing and not self._gpm_missing:
            self._without_gpm()
        return row

    def _drop(self, meter: Meter, why: str) -> None:
        """Ask no more for what is refused for good."""
        del self._calls[meter]
        self.missing.update(dict.fromkeys(meter.names, why))

    def _without_gpm(self) -> None:
        """Say what is missing then, and take the PCIe traffic from where older GPUs have it."""
        self._gpm_missing = True
        names = [name for name, _ in GPM.values() if not name.startswith("pcie")]
        self.missing.update(dict.fromkeys(names, self._gpm.missing))
        self._add(PCIE)

    @property
    def without(self) -> dict[str, str]:
        """What is missing and why, GPM's own refusals included."""
        return {**self.missing, **self._gpm.refused}

    def since_start(self, row: dict[str, Any]) -> dict[str, Any]:
        """The same row with the energy counted from the first reading on."""
        if "energy" in row:
            self._energy = row["energy"] if self._energy is None else self._energy
            row["energy"] -= self._energy
        return row

    def processes(self) -> list[tuple[int, float | None]]:
        """(process id, bytes) of what computes or draws on this GPU; bytes None where it is not told."""
        found: dict[int, float | None] = {}
        for kind in ("Compute", "Graphics"):
            answer = self._nvml.answer(f"nvmlDeviceGet{kind}RunningProcesses", self._handle)
            if answer.refusal:
                self.missing["processes"] = NEVER.get(answer.refusal, answer.refusal)
            for process in answer.value or ():
                found[process.pid] = process.usedGpuMemory
        return sorted(found.items())

    def close(self) -> None:
        """Give NVML its buffers back."""
        self._gpm.close()


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value or "")


def gpus(nvml: Nvml, wanted: Sequence[int | str] | None = None, absent: dict[str, str] | None = None) -> list[Gpu]:
    """All GPUs of the machine, a GPU's MIG instances in its place; or those `wanted`.

    wanted: NVML indices, or PCI bus ids as CUDA gives them. Raises LabError for one that is not there.
    absent: receives label → why, for those of all GPUs that cannot be opened.
    """
    if nvml.silent:
        if wanted:
            raise LabError(f"monitor the GPUs {list(wanted)}", nvml.silent, "Monitor(): the host")
        return []
    count = nvml.ask("nvmlDeviceGetCount") or 0
    found: list[Gpu] = []
    for index in range(count) if wanted is None else wanted:
        try:
            found += _at(nvml, index, count)
        except LabError as error:
            if wanted is not None or absent is None:
                raise
            absent[str(index)] = error.found
    return found


def _at(nvml: Nvml, index: int | str, count: int) -> list[Gpu]:
    by_bus = isinstance(index, str)
    name = "nvmlDeviceGetHandleByPciBusId" if by_bus else "nvmlDeviceGetHandleByIndex"
    answer = nvml.answer(name, os.fsencode(index) if isinstance(index, str) else index)
    if answer.refusal:
        found = NEVER.get(answer.refusal) or LOST.get(answer.refusal) or answer.refusal
        raise LabError(f"monitor GPU {index}", f"{found}; NVML sees {count}", "gpus=None, which is all")
    handle = answer.value
    label = str(nvml.ask("nvmlDeviceGetIndex", handle) if by_bus else index)
    mig = nvml.ask("nvmlDeviceGetMigMode", handle)
    if not mig or not mig[0]:
        return [Gpu(nvml, label, handle)]
    slots = range(nvml.ask("nvmlDeviceGetMaxMigDeviceCount", handle) or 0)
    parts = [(slot, nvml.ask("nvmlDeviceGetMigDeviceHandleByIndex", handle, slot)) for slot in slots]
    there = [Gpu(nvml, f"{label}:{slot}", part, handle) for slot, part in parts if part is not None]
    return there or [Gpu(nvml, label, handle)]
