"""benchmark() and compare(): times that can be trusted, with what they were measured under."""

from __future__ import annotations

import html
import math
import random
import statistics
from dataclasses import dataclass
from typing import Literal

from .errors import LabError
from .intervals import ratio_interval
from .sampling import Sampler, Stop, sampler
from .stopwatch import Fn, Stopwatch, here

FLOOR = 0.005  # a difference below this is not called, however sure: placement in memory alone makes as much
FINE = 0.001  # compare() has seen enough when the ratio is known to this
CONFIDENCE = 0.99  # of compare()'s intervals
UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))
Verdict = Literal["faster", "slower", "no difference seen"]


def readable(seconds: float) -> str:
    """Seconds with four digits and the unit that suits them: 1.234e-5 → "12.34 µs"."""
    size, unit = next((u for u in UNITS if abs(seconds) >= u[0] * 0.99995), UNITS[-1])
    return f"{seconds / size:.4g} {unit}"


@dataclass(frozen=True, repr=False)
class Timing:
    """One function's time. All times in seconds per call.

    samples: one for each window; median, ci: their median and its 95 % interval by order statistics;
    spread: half the interval ÷ median; stopped: "precise" or "budget", what ended the sampling.
    cold: L2 was emptied before each call; batch: calls per window; overhead: seconds that a window holds
    beyond the work (events, a launch on an idle stream), measured beside the samples and subtracted.
    cpu_seconds: the CPU's time for one call, which for the GPU is the time to queue its work; launch_bound:
    that time is the longer one, so that calls one after another run at the CPU's speed.
    synchronises: where the function waits for the GPU, as "file:line (code)"; it was then timed without
    blocking, the waiting included. A function of more than some hundred launches may be taken for one,
    because the full queue makes it wait; launch_bound is not judged there.
    clock_hz, watts: the GPU's SM clock and power meanwhile; throttled: what held the clock back.
    """

    samples: tuple[float, ...]
    median: float
    ci: tuple[float, float]
    spread: float
    cold: bool
    stopped: Stop
    clock_hz: float | None
    watts: float | None
    throttled: tuple[str, ...]
    launch_bound: bool
    cpu_seconds: float
    batch: int
    overhead: float
    synchronises: str | None
    kind: Literal["gpu", "cpu"]
    device_name: str

    def sentences(self) -> list[str]:
        """What the repr says, one sentence each."""
        calls = len(self.samples) * self.batch
        state = f"{'cold' if self.cold else 'hot'} L2, {self.device_name}"
        if self.kind == "cpu":
            state = "CPU time: no GPU, or nothing launched on its current stream"
        clock = f" at {self.clock_hz / 1e6:.0f} MHz" if self.clock_hz else ""
        ended = "precise enough" if self.stopped == "precise" else "stopped by its time budget"
        time = f"{readable(self.median)} ± {100 * self.spread:.2g} %"
        facts = [f"{time} (median of {calls} calls, {state}{clock}; {ended})."]
        if self.launch_bound:
            facts.append(f"Launch-bound: the CPU takes {readable(self.cpu_seconds)} to queue a call.")
        if self.synchronises:
            facts.append(f"It waits for the GPU at {self.synchronises}; the waiting is in the time.")
        if self.throttled:
            facts.append(f"The clock was held back: {', '.join(self.throttled)}.")
        return facts

    def __repr__(self) -> str:
        return " ".join(self.sentences())

    def _repr_html_(self) -> str:
        head, *rest = (html.escape(s) for s in self.sentences())
        value, _, state = head.partition(" (")
        return f"<div class='labkit-timing'><b>{value}</b> ({state}{''.join(f'<br>{s}' for s in rest)}</div>"


@dataclass(frozen=True)
class Ratio:
    """time(first) ÷ time(other), with its 99 % interval; above 1 the other is faster."""

    ratio: float
    ci: tuple[float, float]
    verdict: Verdict


@dataclass(frozen=True, repr=False)
class Comparison:
    """Functions timed in turn; `ratios` holds a Ratio for each function after the first.

    ratio, ci, verdict are those of the second: ratio > 1 and "faster" mean that the second beats the first.
    """

    names: tuple[str, ...]
    timings: tuple[Timing, ...]
    ratios: tuple[Ratio, ...]

    @property
    def ratio(self) -> float:
        return self.ratios[0].ratio

    @property
    def ci(self) -> tuple[float, float]:
        return self.ratios[0].ci

    @property
    def verdict(self) -> Verdict:
        return self.ratios[0].verdict

    def sentences(self) -> list[str]:
        """What the repr says: a verdict for each function after the first, then every time."""
        first, *others = self.names
        said = [_sentence(first, name, ratio) for name, ratio in zip(others, self.ratios, strict=True)]
        return said + [f"{n}: {t}" for n, t in zip(self.names, self.timings, strict=True)]

    def __repr__(self) -> str:
        return "\n".join(self.sentences())

    def _repr_html_(self) -> str:
        said = [html.escape(s) for s in self.sentences()]
        split = len(self.ratios)
        lines = [f"<b>{s}</b>" for s in said[:split]] + said[split:]
        return f"<div class='labkit-comparison'>{'<br>'.join(lines)}</div>"


def _sentence(first: str, other: str, found: Ratio) -> str:
    low, high = (1 / x if x else math.inf for x in reversed(found.ci))
    took = f"takes {1 / found.ratio:.4g} × the time (99 % interval {low:.4g} to {high:.4g})"
    if found.verdict == "no difference seen":
        return f"No difference seen between {first} and {other}: the second {took}."
    return f"{other} is {found.verdict} than {first}: it {took}."


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
