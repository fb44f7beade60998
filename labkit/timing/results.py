"""What benchmark() and compare() return, and how it reads."""

from __future__ import annotations

import html
import math
from dataclasses import dataclass
from typing import Literal

from .sampling import Stop

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
