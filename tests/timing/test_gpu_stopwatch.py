"""The GPU's stopwatch on a CuPy that keeps a queue in place of a GPU: blocking, windows, release."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from labkit.timing import benchmark, compare, gpu_stopwatch
from labkit.timing.gpu_stopwatch import GpuStopwatch

HERTZ = 2e9


@dataclass
class Stream:
    """Runs what was queued when it is waited for, by a clock of its own."""

    queue: list[Any] = field(default_factory=list)
    clock: float = 0.0

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def synchronize(self) -> None:
        while self.queue:
            self.queue.pop(0)()


class Event:
    at = 0.0

    def record(self, stream: Stream) -> None:
        stream.queue.append(lambda: setattr(self, "at", stream.clock))


class FakeCupy:
    """As much of CuPy as the stopwatch uses; kernels take 3 µs to launch, a spin its cycles more."""

    uint8 = np.uint8

    def __init__(self) -> None:
        self.stream, self.timed_out = Stream(), 0
        self.words: dict[int, Any] = {}
        attributes = {"MultiProcessorCount": 4, "L2CacheSize": 4096, "ClockRate": int(HERTZ / 1e3)}
        self.cuda = SimpleNamespace(
            Device=lambda: SimpleNamespace(id=0, attributes=attributes, pci_bus_id="0000:00:00.0"),
            Event=Event,
            alloc_pinned_memory=bytearray,
            get_elapsed_time=lambda a, b: 1e3 * (b.at - a.at),
            runtime=SimpleNamespace(
                getDeviceProperties=lambda _: {"name": b"Fake GPU"}, deviceSynchronize=self.stream.synchronize
            ),
        )

    def empty(self, size: int, dtype: object) -> Any:
        return np.empty(size, dtype)

    def RawModule(self, **_: object) -> Any:
        return SimpleNamespace(get_function=lambda name: lambda *launch: self._launch(name, launch[2]))

    def _launch(self, name: str, args: tuple[Any, ...]) -> None:
        if name == "hold":
            self.stream.queue.append(lambda: self._hold(*args))
        else:
            seconds = 3e-6 + (int(args[0]) / HERTZ if name == "spin" else 0.0)
            self.stream.queue.append(lambda: setattr(self.stream, "clock", self.stream.clock + seconds))

    def _hold(self, pointer: Any, ticket: Any, nanoseconds: Any) -> None:
        words, end = self.words[int(pointer)], time.perf_counter() + int(nanoseconds) / 1e9
        while words[0] != ticket:
            if time.perf_counter() > end:
                words[1], self.timed_out = ticket, self.timed_out + 1
                return
            time.sleep(1e-4)


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeCupy:
    cp, pinned = FakeCupy(), gpu_stopwatch._pinned_words

    def remember(module: Any, count: int) -> Any:
        words = pinned(module, count)
        cp.words[words.ctypes.data] = words
        return words

    monkeypatch.setattr(gpu_stopwatch, "cupy", lambda: cp)
    monkeypatch.setattr(gpu_stopwatch, "current_stream", lambda: cp.stream)
    monkeypatch.setattr(gpu_stopwatch, "_pinned_words", remember)
    monkeypatch.setattr(gpu_stopwatch, "_kernels", gpu_stopwatch._kernels.__wrapped__)
    return cp


@pytest.mark.parametrize("cold", [True, False])
@pytest.mark.parametrize("seconds", [5e-6, 1e-3])
def test_a_spin_takes_its_cycles(fake: FakeCupy, seconds: float, cold: bool) -> None:
    watch = GpuStopwatch()
    timing = benchmark(lambda: watch.spin(int(seconds * HERTZ)), cold, budget=0.05, stopwatch=watch)
    assert timing.median == pytest.approx(seconds, rel=1e-6) and fake.timed_out == 0
    assert timing.overhead * timing.batch == pytest.approx(3e-6 * timing.batch, rel=1e-6)
    assert timing.synchronises is None and timing.device_name == "Fake GPU"


def test_a_function_that_waits_is_let_go_and_its_line_named(fake: FakeCupy) -> None:
    watch = GpuStopwatch()

    def fn() -> None:
        watch.spin(10_000)
        fake.stream.synchronize()  # the reader's wait

    timing = benchmark(fn, budget=0.02, stopwatch=watch)
    assert timing.synchronises is not None and timing.synchronises.startswith("test_gpu_stopwatch.py:")
    assert fake.timed_out == 0 and timing.overhead == 0.0


def test_an_exception_leaves_the_stream_free(fake: FakeCupy) -> None:
    watch, calls = GpuStopwatch(), []

    def fn() -> None:
        watch.spin(1000)
        calls.append(0)
        if len(calls) == 7:
            raise KeyError("mine")

    start = time.perf_counter()
    with pytest.raises(KeyError, match="mine"):
        benchmark(fn, stopwatch=watch)
    assert not fake.stream.queue and fake.timed_out == 0 and time.perf_counter() - start < 1.0


def test_without_a_host_the_block_ends_by_itself(fake: FakeCupy, monkeypatch: pytest.MonkeyPatch) -> None:
    watch = GpuStopwatch()
    monkeypatch.setattr(gpu_stopwatch._Block, "release", lambda self: self._timer.cancel())
    found = watch.windows([(watch.nothing, 1)], cold=False, blocked=True, patience=0.0)
    assert found.stuck and fake.timed_out == 1


def test_what_launches_nothing_goes_to_the_cpus_clock(fake: FakeCupy) -> None:
    watch = GpuStopwatch()
    assert benchmark(lambda: time.sleep(1e-3), budget=0.02, stopwatch=watch).kind == "cpu"


def test_one_percent_of_a_spin_is_seen(fake: FakeCupy) -> None:
    watch = GpuStopwatch()
    found = compare(lambda: watch.spin(100_000), lambda: watch.spin(101_000), budget=0.1, stopwatch=watch)
    assert found.verdict == "slower" and found.ratio == pytest.approx(1 / 1.01, rel=1e-6)
