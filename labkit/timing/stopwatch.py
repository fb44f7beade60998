"""Stopwatches: how long calls take. The interface, the CPU's, and the choice for this machine."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple, Protocol

from ..device import cupy
from ..errors import LabError
from .clock import Health

Fn = Callable[[], object]


class Windows(NamedTuple):
    """Seconds of each window on the device, and of the CPU filling it; where a call got stuck, if one did."""

    device: tuple[float, ...]
    cpu: tuple[float, ...]
    stuck: str | None = None


class Stopwatch(Protocol):
    """What the timing logic needs of a clock and a device.

    rulers: two functions of which the second runs exactly twice as long as the first, or None where a
    window costs nothing; nothing: launches an empty kernel; queue: launches that fit behind a block.
    """

    kind: Literal["gpu", "cpu"]
    name: str
    rulers: tuple[Fn, Fn] | None
    queue: int

    def nothing(self) -> None: ...

    def now(self) -> float: ...

    def call(self, fn: Fn) -> tuple[float, bool]:
        """Call once and wait. Seconds, and whether work then still ran on a stream nobody waited for."""

    def windows(self, calls: Sequence[tuple[Fn, int]], cold: bool, blocked: bool, patience: float) -> Windows:
        """Time each (fn, times) in its own window, all behind one block of at most `patience` seconds."""

    def health(self) -> list[Health]:
        """The readings since this was last asked."""

    def host(self) -> Stopwatch:
        """The CPU's stopwatch of the same machine."""


class CpuStopwatch:
    """Wall time of the calling thread, by time.perf_counter."""

    kind: Literal["gpu", "cpu"] = "cpu"
    name = "CPU"
    rulers: tuple[Fn, Fn] | None = None
    queue = sys.maxsize

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock

    def now(self) -> float:
        return self._clock()

    def nothing(self) -> None:
        pass

    def call(self, fn: Fn) -> tuple[float, bool]:
        return self._window(fn, 1), False

    def windows(self, calls: Sequence[tuple[Fn, int]], cold: bool, blocked: bool, patience: float) -> Windows:
        seconds = tuple(self._window(fn, times) for fn, times in calls)
        return Windows(seconds, seconds)

    def _window(self, fn: Fn, times: int) -> float:
        start = self.now()
        for _ in range(times):
            fn()
        return self.now() - start

    def health(self) -> list[Health]:
        return []

    def host(self) -> Stopwatch:
        return self


def here() -> Stopwatch:
    """The stopwatch of this machine: the GPU's where there is one.

    Raises LabError if torch works on a GPU and CuPy is missing: a CPU clock would time the launches only.
    """
    if cupy() is not None:
        from .gpu_stopwatch import GpuStopwatch

        return GpuStopwatch()
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        raise LabError("time work on the GPU", "torch sees a GPU, CuPy does not", "pip install cupy-cuda13x")
    return CpuStopwatch()
