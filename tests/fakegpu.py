"""A GPU and a clock whose true times are known, for what is timed."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from labkit.timing.clock import Health
from labkit.timing.stopwatch import CpuStopwatch, Fn, Stopwatch, Windows

EVENT, LAUNCH = 1.5e-6, 2.5e-6


@dataclass(eq=False)
class FakeGpu:
    """A GPU that works in no time: each launch adds its seconds to the open window, or fails, or is stuck."""

    noise: float = 0.0
    drift: float = 0.0
    reading: Health = field(default_factory=lambda: Health(1.98e9, 300.0))
    kind: Literal["gpu", "cpu"] = "gpu"
    name: str = "Fake GPU"
    queue: int = 500
    time: float = 0.0
    busy: float = 0.0
    stray: float = 0.0
    blocked: bool = False
    waited: str | None = None
    rng: random.Random = field(default_factory=lambda: random.Random(7))

    def __post_init__(self) -> None:
        self.rulers: tuple[Fn, Fn] | None = (self.kernel(5e-6), self.kernel(10e-6))

    def kernel(self, seconds: float, cpu: float = 5e-6, launches: int = 1) -> Fn:
        def launch() -> None:
            self.time += cpu
            jitter = 1 + self.noise * self.rng.gauss(0, 1) + self.drift * self.time
            self.busy += launches * (seconds / launches * max(jitter, 0.1) + LAUNCH)

        return launch

    def work(self, seconds: float) -> Fn:
        def run() -> None:
            self.time += seconds

        return run

    def synchronise(self) -> None:
        if self.blocked:
            self.waited = "lab.py:3 (y.item())"
        self.time += self.busy

    def nothing(self) -> None:
        self.kernel(0.0)()

    def now(self) -> float:
        return self.time

    def host(self) -> Stopwatch:
        return CpuStopwatch(self.now)

    def call(self, fn: Fn) -> tuple[float, bool]:
        start, self.busy = self.time, 0.0
        fn()
        self.time += self.busy
        return self.time - start, self.stray > 0

    def windows(self, calls: Sequence[tuple[Fn, int]], cold: bool, blocked: bool, patience: float) -> Windows:
        self.blocked, self.waited = blocked, None
        try:
            pairs = [self._window(fn, times) for fn, times in calls]
        finally:
            self.blocked = False
        self.time += sum(p[0] for p in pairs)
        return Windows(tuple(p[0] for p in pairs), tuple(p[1] for p in pairs), self.waited)

    def _window(self, fn: Fn, times: int) -> tuple[float, float]:
        start, self.busy = self.time, 0.0
        for _ in range(times):
            fn()
        return self.busy + EVENT, self.time - start

    def health(self) -> list[Health]:
        return [self.reading]
