"""GPM: what SMs, tensor cores and memory do, from two samples of NVML's counters (Hopper and newer)."""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from typing import Any

from ..nvml import NEVER, Nvml
from .quantities import GPM

# nvml.h asks for more than 100 ms between two samples; the sampler's own jitter is allowed for.
APART = 0.095
# One thread at a time in this process: two in NVML's GPM at once have crashed it (driver 580.159).
TURN = threading.Lock()


class Gpm:
    """The GPM counters of one GPU or MIG instance. `missing` says why there are none, if so.

    instance: the GPU instance's id of a MIG device, whose counters its parent `handle` gives.
    """

    def __init__(self, nvml: Nvml, handle: Any, instance: int | None = None) -> None:
        self._nvml, self._handle, self._instance = nvml, handle, instance
        self.missing = self._support()
        self._taken: deque[tuple[float, Any]] = deque()
        self._spare: list[Any] = []
        self.refused: dict[str, str] = {}
        if not self.missing:
            self._request, self._slots = self._prepare()

    def _support(self) -> str:
        with TURN:
            answer = self._nvml.answer("nvmlGpmQueryDeviceSupport", self._handle)
        if answer.refusal:
            return "no GPM: " + NEVER.get(answer.refusal, answer.refusal)
        return "" if answer.value.isSupportedDevice else "this GPU has no GPM (Hopper and newer have)"

    def _prepare(self) -> tuple[Any, list[tuple[Any, str, float]]]:
        """NVML's request, and for each metric where its answer will be, its series and its factor."""
        module = self._nvml.module
        request = module.c_nvmlGpmMetricsGet_t()
        request.version = module.NVML_GPM_METRICS_GET_VERSION
        known = [(self._nvml.number(constant), *series) for constant, series in GPM.items()]
        wanted = [(number, name, factor) for number, name, factor in known if number is not None]
        request.numMetrics = len(wanted)
        for slot, (number, _, _) in enumerate(wanted):
            request.metrics[slot].metricId = number
        return request, [(request.metrics[i], *wanted[i][1:]) for i in range(len(wanted))]

    def read(self) -> dict[str, float]:
        """The series over the last 100 ms or a little more; empty at first, and where GPM refuses."""
        if self.missing:
            return {}
        with TURN:
            return self._read()

    def _read(self) -> dict[str, float]:
        now, sample = time.monotonic(), self._sample()
        if sample is None:
            return {}
        self._taken.append((now, sample))
        while len(self._taken) > 1 and now - self._taken[1][0] >= APART:
            self._spare.append(self._taken.popleft()[1])
        earlier, first = self._taken[0]
        return self._between(first, sample) if now - earlier >= APART else {}

    def _sample(self) -> Any:
        buffer = self._spare.pop() if self._spare else self._nvml.ask("nvmlGpmSampleAlloc")
        if buffer is None:
            return None
        mig = self._instance is not None
        name = "nvmlGpmMigSampleGet" if mig else "nvmlGpmSampleGet"
        answer = self._nvml.answer(name, self._handle, *([self._instance] if mig else []), buffer)
        if not answer.refusal:
            return buffer
        self._spare.append(buffer)
        if answer.refusal in NEVER:
            self.missing = "no GPM: " + NEVER[answer.refusal]
        return None

    def _between(self, first: Any, second: Any) -> dict[str, float]:
        self._request.sample1, self._request.sample2 = first, second
        answer = self._nvml.answer("nvmlGpmMetricsGet", self._request)
        if answer.refusal:
            if answer.refusal in NEVER:
                self.missing = "no GPM: " + NEVER[answer.refusal]
            return {}
        found = {}
        for metric, name, factor in self._slots:
            value = metric.value
            if metric.nvmlReturn:
                self.refused[name] = "GPM does not give it on this GPU"
            elif math.isfinite(value):
                found[name] = value * factor
                self.refused.pop(name, None)
        return found

    def close(self) -> None:
        """Free the samples."""
        with TURN:
            for buffer in [*self._spare, *(buffer for _, buffer in self._taken)]:
                self._nvml.ask("nvmlGpmSampleFree", buffer)
            self._spare.clear()
            self._taken.clear()
