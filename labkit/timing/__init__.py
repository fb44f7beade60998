"""benchmark() and compare(): times that can be trusted, with what they were measured under."""

from __future__ import annotations

import atexit
import math
import random
import statistics
import threading

from ..errors import LabError
from .intervals import ratio_interval
from .results import Comparison, Ratio, Timing, Verdict, readable
from .sampling import Sampler, Stop, sampler
from .stopwatch import Fn, Stopwatch, here

__all__ = ["ALONE", "Comparison", "Ratio", "Timing", "benchmark", "compare", "readable"]

ALONE = threading.RLock()  # held while something is timed; who would disturb it waits for it
atexit.register(ALONE.acquire, timeout=5)  # Python ends threads that it finds in C++ code with an abort
FLOOR = 0.005  # a difference below this is not called, however sure: placement in memory alone makes as much
FINE = 0.001  # compare() has seen enough when the ratio is known to this
CONFIDENCE = 0.99  # of compare()'s intervals


def benchmark(
    fn: Fn,
    cold: bool = True,
    budget: float = 0.5,
    precision: float = 0.005,
    *,
    stopwatch: Stopwatch | None = None,
) -> Timing:
    """Time `fn()`: on the GPU if it launches anything on the current stream, else on the CPU.

    cold: empty L2 before each call (by reading twice its size, outside the time), or leave the data there.
    budget: seconds to spend at most, the first few calls excepted. precision: enough is when half the
    95 % interval of the median ÷ median is at most this. stopwatch: another clock, for tests.

    On the GPU: events around each window in a stream blocked until all is queued, the window's own cost
    subtracted (see Timing.overhead). Hot calls under 20 µs are put into windows of about 100 µs; cold ones
    are timed one by one. Returns a Timing. Raises LabError for bad arguments, and whatever `fn` raises.

    >>> benchmark(lambda: sum(range(1000)), budget=0.05)
    """
    _ask(budget, fn)
    if not 0 < precision < 1:
        raise LabError(f"a precision of {precision!r}", "a share of the time was expected", "0.005")
    with ALONE:
        taken = sampler([fn], stopwatch or here(), cold)
        stopped = taken.fill(budget, lambda: _half(taken.interval(0)) <= precision)
    return _timing(taken, 0, stopped)


def compare(
    a: Fn,
    b: Fn,
    *more: Fn,
    names: tuple[str, ...] | list[str] | None = None,
    budget: float = 2.0,
    cold: bool = True,
    stopwatch: Stopwatch | None = None,
    rng: random.Random | None = None,
) -> Comparison:
    """Time functions in turn and in random order, so that a drifting clock favours none.

    names: what to call them; their own names if left out. budget: seconds for all together; less is used
    when the ratios are known to 0.1 %. A difference is called only if the 99 % interval of the ratio (a
    bootstrap over pairs; shared out when there are several) leaves out 1, and the ratio is off by 0.5 %.
    Returns a Comparison. Raises LabError for bad arguments, and whatever a function raises.

    >>> compare(lambda: sum(range(1000)), lambda: sum(range(2000)), names=("short", "long"), budget=0.1)
    """
    fns = (a, b, *more)
    _ask(budget, *fns)
    called = _names(fns, names)
    with ALONE:
        taken = sampler(fns, stopwatch or here(), cold, rng)
        stopped = taken.fill(budget, lambda: all(_half(r.ci) <= FINE for r in _ratios(taken)), least=5)
    timings = tuple(_timing(taken, i, stopped) for i in range(len(fns)))
    return Comparison(called, timings, _ratios(taken))


def _ask(budget: float, *fns: object) -> None:
    for fn in fns:
        if not callable(fn):
            raise LabError(f"time {fn!r}", "it cannot be called", "a function, as in lambda: f(x)")
    if not 0 < budget < math.inf:
        raise LabError(f"a budget of {budget!r}", "it has to be a positive number of seconds", "budget=0.5")


def _names(fns: tuple[Fn, ...], names: tuple[str, ...] | list[str] | None) -> tuple[str, ...]:
    if names is None:
        own = [getattr(fn, "__name__", "<lambda>") for fn in fns]
        usable = len(set(own)) == len(own) and "<lambda>" not in own
        return tuple(own) if usable else tuple("abcdefghijklmnopqrstuvwxyz"[: len(fns)])
    if len(names) != len(fns):
        raise LabError(f"compare {len(fns)} functions", f"{len(names)} names", "one name for each")
    return tuple(names)


def _half(interval: tuple[float, float]) -> float:
    """Half the width of an interval as a share of its middle."""
    low, high = interval
    return (high - low) / (high + low) if high < math.inf else math.inf


def _ratios(taken: Sampler) -> tuple[Ratio, ...]:
    first, count = taken.seconds(0), len(taken.plans)
    confidence = 1 - (1 - CONFIDENCE) / (count - 1)
    return tuple(_judge(*ratio_interval(first, taken.seconds(i), confidence)) for i in range(1, count))


def _judge(ratio: float, low: float, high: float) -> Ratio:
    verdict: Verdict = "no difference seen"
    if low > 1 and ratio >= 1 + FLOOR:
        verdict = "faster"
    elif high < 1 and ratio <= 1 / (1 + FLOOR):
        verdict = "slower"
    return Ratio(ratio, (low, high), verdict)


def _timing(taken: Sampler, index: int, stopped: Stop) -> Timing:
    plan, samples, interval = taken.plans[index], taken.seconds(index), taken.interval(index)
    middle, cpu = statistics.median(samples.tolist()), taken.cpu(index)
    readings = taken.readings if plan.stopwatch.kind == "gpu" else []
    clocks = [r.clock_hz for r in readings if r.clock_hz is not None]
    watts = [r.watts for r in readings if r.watts is not None]
    reasons = [reason for r in readings for reason in r.reasons]
    return Timing(
        samples=tuple(samples.tolist()),
        median=middle,
        ci=interval,
        spread=_half(interval),
        cold=plan.cold,
        stopped=stopped,
        clock_hz=statistics.median(clocks) if clocks else None,
        watts=statistics.median(watts) if watts else None,
        throttled=tuple(r for r in dict.fromkeys(reasons) if reasons.count(r) >= 0.2 * len(readings)),
        launch_bound=plan.blocked and cpu > middle,
        cpu_seconds=cpu,
        batch=plan.batch,
        overhead=taken.overhead(index)[0] / plan.batch,
        synchronises=plan.synchronises,
        kind=plan.stopwatch.kind,
        device_name=plan.stopwatch.name,
    )
