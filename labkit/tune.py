"""Tune: search an experiment's grid for the fastest setting, and say how sure the answer is."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING

from . import recording
from .device import is_live
from .errors import LabError
from .measurement import Measurement
from .roofline import USUAL_ERROR
from .timing import CONFIDENCE, Timing, benchmark, compare
from .timing.intervals import ratio_interval
from .timing.stopwatch import Stopwatch, here
from .tuning import Rival, Settings, Tuning

if TYPE_CHECKING:
    from .experiment import Experiment, Work

Clock = Callable[[], float]
FINALISTS = 4
HOPELESS, CALL = 4.0, 1e-3  # a first call beyond 4 × the shortest and a millisecond: dropped before it is timed
ROUNDS, LOOKING = 3, 0.6  # looks at all that is left, in this share of the budget; the rest is the final
DRIFT = 0.01  # between two that are not timed in turn the GPU's clock may move by so much


def tune(experiment: Experiment, budget: float, fixed: Settings) -> Tuning:
    """Search the fastest setting of `experiment`, see `Experiment.tune`."""
    if not 0 < budget < math.inf:
        raise LabError(f"tune `{experiment.name}` in {budget!r} s", "no positive number of seconds", "budget=5.0")
    experiment.validated(fixed)
    points = [full for full in experiment.settings() if all(full[name] == value for name, value in fixed.items())]
    if is_live() and recording.active is None:
        return Race(experiment, here(), time.perf_counter, budget).run(points)
    return ranked(experiment, points, budget, time.perf_counter)


def ranked(experiment: Experiment, points: Sequence[Settings], budget: float, clock: Clock) -> Tuning:
    """Rank what is recorded (also while recording), and model the rest while there is time."""
    started = clock()
    found: list[Measurement] = []
    skipped: list[tuple[Settings, LabError]] = []
    unseen: list[Settings] = []
    known = {tuple(m.settings.values()): m for m in experiment.known()}
    for full in sorted(points, key=lambda full: tuple(full.values()) not in known):
        seen = known.get(tuple(full.values()))
        if seen is None and found and (recording.active is not None or clock() - started > budget):
            unseen.append(full)
            continue
        try:
            found.append(seen or experiment.measure(full))
        except LabError as error:
            skipped.append((full, error))
    _comparable(experiment, found, skipped)
    best, *rest = sorted(found, key=lambda m: m.seconds)
    rivals = [_apart(best, other) for other in rest]
    close = tuple(rival for i, rival in enumerate(rivals) if rival.tie or i == 0)
    dropped = tuple(rival.measurement for rival in rivals if rival not in close)
    return Tuning(best, close, dropped, tuple(skipped), tuple(unseen), clock() - started)


def _apart(best: Measurement, other: Measurement) -> Rival:
    """Two measurements taken apart: their spreads (half a 95 % interval) and the drift add as errors do."""
    log, z = math.log(other.seconds / best.seconds), NormalDist().inv_cdf
    if "modelled" in (best.source, other.source):
        sigma = USUAL_ERROR / z((1 + CONFIDENCE) / 2)
    else:
        sigma = math.hypot(best.spread, other.spread, DRIFT) / z(0.975)
    reach = sigma * z((1 + CONFIDENCE) / 2)
    return Rival(other, math.exp(log), math.exp(log - reach), math.exp(log + reach), _slower(log, sigma))


def _slower(log: float, sigma: float) -> float:
    """The probability that a true log-ratio is above 0, measured as `log` with a normal error of `sigma`."""
    return NormalDist().cdf(log / sigma) if sigma else (1.0 if log > 0 else 0.5)


def _comparable(
    experiment: Experiment, found: Sequence[Measurement | Work], skipped: Sequence[tuple[Settings, LabError]]
) -> None:
    asked = f"tune `{experiment.name}`"
    if not found:
        raise LabError(asked, "not one setting can be measured", str(skipped[0][1]) if skipped else "sweep it first")
    for sizes in ([m.bytes for m in found], [m.flops for m in found]):
        if max(sizes) - min(sizes) > 0.01 * max(sizes):
            raise LabError(asked, "its settings differ in the work to be done", "fix what changes it: tune(size=…)")


@dataclass
class Arm:
    """One setting in the race."""

    full: Settings
    work: Work
    first: float  # seconds of its first call, launch and all
    seen: Measurement | None = None
    interval: tuple[float, float] = (0.0, math.inf)  # of its median, 95 %


class Race:
    """Successive elimination: looks at all, drops what is slower by its interval, gives the rest more time.

    After O. Maron and A. Moore, "Hoeffding races", NIPS 1993, with intervals of the median by order statistics.
    The finalists are timed in turn, as by `labkit.compare`.
    """

    def __init__(self, experiment: Experiment, stopwatch: Stopwatch, clock: Clock, budget: float) -> None:
        self.experiment, self.stopwatch, self.clock, self.budget = experiment, stopwatch, clock, budget
        self.skipped: list[tuple[Settings, LabError]] = []
        self.unseen: list[Settings] = []
        self.dropped: list[Measurement] = []

    def run(self, points: Sequence[Settings]) -> Tuning:
        """Race the settings `points`."""
        started = self.clock()
        arms = self._entered(points, started + LOOKING * self.budget / 2)
        _comparable(self.experiment, [arm.work for arm in arms], self.skipped)
        for done in range(ROUNDS):
            left = started + LOOKING * self.budget - self.clock()
            if done == 0 or (left > 0 and len(arms) > 1):
                arms = self._looked(arms, max(left, 0.01) / (ROUNDS - done))
        arms.sort(key=_median)
        best, rivals = self._final(arms, max(started + self.budget - self.clock(), 0.1 * self.budget))
        rest = (tuple(self.dropped), tuple(self.skipped), tuple(self.unseen))
        return Tuning(best, tuple(sorted(rivals, key=lambda r: r.ratio)), *rest, self.clock() - started)

    def _entered(self, points: Sequence[Settings], until: float) -> list[Arm]:
        """Run, check and call each once more; impossible settings are left out, hopeless ones at once."""
        arms: list[Arm] = []
        for full in points:
            if arms and self.clock() > until:
                self.unseen.append(full)
                continue
            try:
                work = self.experiment.prepared(full)
            except LabError as error:
                self.skipped.append((full, error))
                continue
            arms.append(Arm(full, work, self.stopwatch.call(work.run)[0]))
        limit = HOPELESS * min((arm.first for arm in arms), default=0.0) + CALL
        for arm in arms:
            if arm.first > limit:
                self.dropped.append(
                    self.experiment.measurement(arm.full, arm.work, arm.first, 1.0)
                )  # one call: no spread known
        return [arm for arm in arms if arm.first <= limit]

    def _looked(self, arms: list[Arm], seconds: float) -> list[Arm]:
        """Time each for its share of `seconds`; return those whose interval reaches down to the best one's."""
        for arm in arms:
            timing = benchmark(arm.work.run, budget=seconds / len(arms), stopwatch=self.stopwatch)
            arm.seen, arm.interval = self._measured(arm, timing), timing.ci
        bar = (1 + DRIFT) * min(arm.interval[1] for arm in arms)
        self.dropped += [arm.seen for arm in arms if arm.seen and arm.interval[0] > bar]
        return [arm for arm in arms if arm.interval[0] <= bar]

    def _measured(self, arm: Arm, timing: Timing) -> Measurement:
        return self.experiment.measurement(arm.full, arm.work, timing.median, timing.spread, timing)

    def _final(self, arms: list[Arm], seconds: float) -> tuple[Measurement, list[Rival]]:
        """The best and its rivals, `arms` being sorted: the first few in turn, the others by what was seen."""
        runs = [arm.work.run for arm in arms[:FINALISTS]]
        if len(runs) == 1:
            return _seen(arms[0]), []
        timings = compare(*runs, budget=seconds, stopwatch=self.stopwatch).timings
        for arm, timing in zip(arms, timings, strict=False):
            arm.seen = self._measured(arm, timing)
        first = min(range(len(timings)), key=lambda i: timings[i].median)
        confidence = 1 - (1 - CONFIDENCE) / (len(timings) - 1)
        rivals = [
            _in_turn(_seen(arm), ratio_interval(timing.samples, timings[first].samples, confidence), confidence)
            for i, (arm, timing) in enumerate(zip(arms, timings, strict=False))
            if i != first
        ]
        best = _seen(arms[first])
        return best, rivals + [_apart(best, _seen(arm)) for arm in arms[FINALISTS:]]


def _in_turn(other: Measurement, found: tuple[float, float, float], confidence: float) -> Rival:
    ratio, low, high = found
    reach = NormalDist().inv_cdf((1 + confidence) / 2)
    slower = _slower(math.log(ratio), math.log(high / low) / 2 / reach) if low > 0 else 0.5
    return Rival(other, ratio, low, high, slower)


def _seen(arm: Arm) -> Measurement:
    assert arm.seen is not None
    return arm.seen


def _median(arm: Arm) -> float:
    return _seen(arm).seconds
