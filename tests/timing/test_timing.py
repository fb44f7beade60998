"""The timing logic on a fake clock and a fake device, whose true times are known."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from fakegpu import LAUNCH, FakeGpu

from labkit.errors import LabError
from labkit.nvml import REASONS
from labkit.timing import Comparison, benchmark, compare, readable
from labkit.timing.clock import Gauge, Health
from labkit.timing.gpu_stopwatch import SOURCE, place
from labkit.timing.intervals import median_interval, ratio_interval
from labkit.timing.stopwatch import CpuStopwatch, Fn, Windows


@pytest.mark.parametrize("cold", [True, False])
@pytest.mark.parametrize("seconds", [2e-6, 5e-6, 50e-6, 1e-3, 0.1])
def test_what_a_window_holds_beyond_the_work_is_subtracted(seconds: float, cold: bool) -> None:
    gpu = FakeGpu(noise=0.005)
    timing = benchmark(gpu.kernel(seconds), cold=cold, stopwatch=gpu)
    assert timing.median == pytest.approx(seconds, rel=0.01)
    assert timing.kind == "gpu" and timing.cold is cold and timing.device_name == "Fake GPU"
    assert timing.batch == 1 or (not cold and seconds < 20e-6)


def test_several_launches_keep_the_gaps_between_them() -> None:
    gpu = FakeGpu()
    timing = benchmark(gpu.kernel(100e-6, launches=5), stopwatch=gpu)
    assert timing.median == pytest.approx(100e-6 + 4 * LAUNCH, rel=0.01)


def test_a_quiet_function_stops_early_and_a_noisy_one_at_its_budget() -> None:
    quiet, noisy = FakeGpu(noise=0.001), FakeGpu(noise=0.5)
    early = benchmark(quiet.kernel(1e-3), stopwatch=quiet)
    late = benchmark(noisy.kernel(1e-3), stopwatch=noisy)
    assert early.stopped == "precise" and early.spread <= 0.005 and quiet.time < 0.4
    assert late.stopped == "budget" and late.spread > 0.005 and 0.5 <= noisy.time < 0.7
    assert early.ci[0] <= early.median <= early.ci[1]


def test_a_function_longer_than_the_budget_is_still_sampled() -> None:
    gpu = FakeGpu()
    timing = benchmark(gpu.kernel(2.0), budget=0.1, stopwatch=gpu)
    assert len(timing.samples) >= 3 and timing.stopped == "budget"


def test_launch_bound_says_both_times() -> None:
    gpu = FakeGpu()
    bound, free = (benchmark(gpu.kernel(10e-6, cpu=cpu), stopwatch=gpu) for cpu in (30e-6, 3e-6))
    assert bound.launch_bound and bound.cpu_seconds == pytest.approx(30e-6)
    assert bound.median == pytest.approx(10e-6) and "30 µs" in repr(bound)
    assert not free.launch_bound and "Launch-bound" not in repr(free)


def test_a_function_that_synchronises_is_told_where_and_not_blocked() -> None:
    gpu = FakeGpu()
    kernel = gpu.kernel(1e-3)

    def fn() -> None:
        kernel()
        gpu.synchronise()

    timing = benchmark(fn, stopwatch=gpu)
    assert timing.synchronises == "lab.py:3 (y.item())" and "lab.py:3" in repr(timing)
    assert timing.overhead == 0.0 and not timing.launch_bound
    assert timing.median == pytest.approx(1e-3, rel=0.01)


def test_one_that_synchronises_only_now_and_then_is_found_while_sampling() -> None:
    gpu, calls = FakeGpu(), []
    kernel = gpu.kernel(1e-4)

    def fn() -> None:
        kernel()
        calls.append(0)
        if len(calls) > 50:
            gpu.synchronise()

    assert benchmark(fn, stopwatch=gpu).synchronises


def test_one_that_launches_nothing_is_cpu_time() -> None:
    gpu = FakeGpu()
    timing = benchmark(gpu.work(3e-3), stopwatch=gpu)
    assert timing.kind == "cpu" and timing.median == pytest.approx(3e-3)
    assert not timing.cold and not timing.launch_bound and "CPU time" in repr(timing)


def test_work_on_another_stream_is_an_error() -> None:
    gpu = FakeGpu(stray=1.0)
    with pytest.raises(LabError, match="another stream"):
        benchmark(gpu.kernel(1e-3), stopwatch=gpu)


def test_throttling_and_clock_are_reported() -> None:
    gpu = FakeGpu(reading=Health(1.2e9, 700.0, ("power cap",)))
    timing = benchmark(gpu.kernel(1e-3), stopwatch=gpu)
    assert timing.throttled == ("power cap",) and timing.clock_hz == 1.2e9 and timing.watts == 700.0
    assert "power cap" in repr(timing) and "1200 MHz" in timing._repr_html_()


@pytest.mark.parametrize("error", [ValueError("mine"), KeyboardInterrupt()])
@pytest.mark.parametrize("at", [1, 4, 60])
def test_an_exception_comes_through_and_releases_the_block(error: BaseException, at: int) -> None:
    gpu, calls = FakeGpu(), []
    kernel = gpu.kernel(1e-4)

    def fn() -> None:
        kernel()
        calls.append(0)
        if len(calls) == at:
            raise error

    with pytest.raises(type(error)) as caught:
        benchmark(fn, stopwatch=gpu)
    assert caught.value is error and not gpu.blocked


def test_windows_behind_one_block_fit_the_launch_queue() -> None:
    gpu, queued = FakeGpu(), []
    take = gpu.windows

    def windows(calls: Sequence[tuple[Fn, int]], cold: bool, blocked: bool, patience: float) -> Windows:
        queued.append(sum(n * (launches if called is fn else 1) for called, n in calls) + 3 * len(calls))
        return take(calls, cold, blocked, patience)

    gpu.windows = windows  # type: ignore[method-assign]
    for launches in (1, 50, 350):
        fn = gpu.kernel(3e-6, cpu=launches * 2e-6, launches=launches)
        for cold in (True, False):
            benchmark(fn, cold=cold, stopwatch=gpu)
    assert len(queued) > 20 and max(queued) < 1000


@pytest.mark.parametrize(
    ("call", "args", "options"),
    [
        (benchmark, (3,), {}),
        (benchmark, (print,), {"budget": 0}),
        (benchmark, (print,), {"budget": float("nan")}),
        (benchmark, (print,), {"precision": 0}),
        (compare, (print, None), {}),
        (compare, (print, print), {"names": ("a",)}),
        (compare, (print, print), {"budget": -1}),
    ],
)
def test_bad_input_is_a_lab_error(call: Callable[..., object], args: Any, options: Any) -> None:
    with pytest.raises(LabError):
        call(*args, **options)


def _compared(slowdown: float, seed: int, seconds: float = 4e-4, more: bool = False) -> Comparison:
    """Half a second on a device with 2 % of noise and a clock that drifts 5 % a second."""
    gpu = FakeGpu(noise=0.02, drift=0.05, rng=random.Random(seed))
    others = [gpu.kernel(seconds * slowdown)] + [gpu.kernel(seconds * 2)] * more
    return compare(gpu.kernel(seconds), *others, budget=0.5, stopwatch=gpu, rng=random.Random(seed))


def test_the_same_function_twice_shows_no_difference() -> None:
    verdicts = [_compared(1.0, seed).verdict for seed in range(60)]
    assert verdicts.count("no difference seen") >= 59


def test_one_percent_is_seen_and_has_the_right_sign() -> None:
    slower = [_compared(1.01, seed) for seed in range(40)]
    assert [c.verdict for c in slower].count("slower") >= 38
    assert np.median([c.ratio for c in slower]) == pytest.approx(1 / 1.01, abs=1e-3)
    assert _compared(1 / 1.02, 0).verdict == "faster"


def test_several_functions_are_each_compared_with_the_first() -> None:
    found = _compared(0.5, 1, more=True)
    assert [r.verdict for r in found.ratios] == ["faster", "slower"] and found.names == ("a", "b", "c")
    assert "b is faster than a: it takes 0.5" in repr(found) and "<b>c is slower" in found._repr_html_()


def test_gpu_and_cpu_functions_can_be_compared() -> None:
    gpu = FakeGpu()
    found = compare(gpu.kernel(1e-3), gpu.work(2e-3), names=("gpu", "cpu"), stopwatch=gpu)
    assert found.verdict == "slower" and found.ratio == pytest.approx(0.5, rel=0.01)
    assert [t.kind for t in found.timings] == ["gpu", "cpu"]


def test_a_cpu_function_by_the_real_clock() -> None:
    timing = benchmark(lambda: sum(range(20000)), budget=0.05, stopwatch=CpuStopwatch())
    assert timing.kind == "cpu" and 1e-6 < timing.median < 1e-1
    assert timing.cpu_seconds == pytest.approx(timing.median, rel=1e-6)


@pytest.mark.parametrize("count", [6, 9, 20, 101, 500])
def test_the_median_interval_covers_as_often_as_it_says(count: int) -> None:
    draws = np.random.default_rng(count).exponential(size=(2000, count))
    intervals = [median_interval(d) for d in draws]
    covered = np.mean([low <= np.log(2) <= high for low, high in intervals])
    assert covered >= 0.94


@pytest.mark.parametrize("count", [5, 12, 60, 600])
def test_the_ratio_interval_covers_as_often_as_it_says(count: int) -> None:
    rng = np.random.default_rng(count)
    logs = rng.normal(0, 0.02, (200, 2, count))
    found = [ratio_interval(np.exp(a), np.exp(b)) for a, b in logs]
    assert np.mean([low <= 1 <= high for _, low, high in found]) >= 0.97


def test_readable_keeps_four_digits() -> None:
    units = [readable(s) for s in (1.23456e-5, 0.99999e-3, 2.0, 5e-9, 0.1)]
    assert units == ["12.35 µs", "1 ms", "2 s", "5 ns", "100 ms"]


def test_place_is_the_readers_line_not_a_librarys() -> None:
    text = place(sys._getframe())
    assert text is not None and text.startswith("test_timing.py:") and "place(sys._getframe())" in text
    assert place(None) is None


class FakeNvml:
    """NVML as it answers: values, or NVMLError where the GPU, the driver or the user may not."""

    class NVMLError(Exception):
        pass

    NVML_CLOCK_SM = 1

    def __init__(self, bits: int, refused: tuple[str, ...] = ()) -> None:
        self.bits, self.refused = bits, refused

    def __getattr__(self, name: str) -> Callable[..., object]:
        answers = {"ClockInfo": 1980, "PowerUsage": 250_000, "ThrottleReasons": self.bits}

        def ask(*_: object) -> object:
            if name in self.refused:
                raise self.NVMLError(name)
            return next((v for k, v in answers.items() if name.endswith(k)), "handle")

        return ask


@pytest.mark.parametrize(("bits", "reasons"), [(0x0, ()), (0x3, ()), (0x44, (REASONS[0x4], REASONS[0x40]))])
def test_only_real_reasons_count(monkeypatch: pytest.MonkeyPatch, bits: int, reasons: tuple[str, ...]) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", FakeNvml(bits))
    assert Gauge("0000:19:00.0").read() == Health(1.98e9, 250.0, reasons)


def test_without_nvml_or_permission_a_reading_is_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", FakeNvml(0, ("nvmlDeviceGetHandleByPciBusId",)))
    assert Gauge("0000:19:00.0").read() == Health()
    monkeypatch.setitem(sys.modules, "pynvml", FakeNvml(0, ("nvmlDeviceGetPowerUsage",)))
    assert Gauge("0000:19:00.0").read() == Health(1.98e9, None)
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert Gauge("0000:19:00.0").read() == Health()


@pytest.mark.compiler
def test_the_kernels_compile() -> None:
    nvrtc = pytest.importorskip("cuda.bindings.nvrtc")
    program = nvrtc.nvrtcCreateProgram(SOURCE.encode(), b"timing.cu", 0, [], [])[1]
    options = [b"--gpu-architecture=sm_90", b"-std=c++17"]
    assert int(nvrtc.nvrtcCompileProgram(program, len(options), options)[0]) == 0
