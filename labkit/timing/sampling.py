"""Sampling: how each function is to be timed, and windows of several, taken in turn until enough."""

from __future__ import annotations

import math
import random
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from statistics import median
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ..errors import LabError
from .clock import Health
from .intervals import median_interval
from .stopwatch import Fn, Stopwatch

Stop = Literal["precise", "budget"]
LAUNCH = 1.5e-6  # seconds; no launch takes the CPU less, so CPU time bounds the number of launches
SHORT, BATCH = 20e-6, 100e-6  # seconds; calls shorter than the first are put together to the second
PATIENCE = 0.02  # seconds a call may take beyond twice the expected before it counts as stuck
LONGEST = 1.0 if sys.platform == "win32" else 10.0  # seconds of a call; Windows stops a kernel after two
LEAST, KNOWN = 3, 6  # samples, however short the budget; for a 95 % interval of the median to exist


@dataclass(frozen=True)
class Plan:
    """How one function is timed: in windows of `batch` calls, behind a block or not, `rounds` per block."""

    fn: Fn
    stopwatch: Stopwatch
    cold: bool
    blocked: bool = False
    batch: int = 1
    rounds: int = 1
    seconds: float = 0.0
    cpu: float = 0.0
    synchronises: str | None = None


def examine(fn: Fn, stopwatch: Stopwatch, cold: bool) -> Plan:
    """Call `fn` a few times and decide. Raises LabError if it leaves work on a stream nobody waits for."""
    stopwatch.call(fn)  # the first call compiles, loads and allocates
    took, stray = stopwatch.call(fn)
    if stray and stopwatch.call(fn)[1]:
        raise LabError(
            "time a function on the current stream",
            "it leaves work running on another stream",
            "launch on the current stream, or let it wait for the other one before the function returns",
        )
    plan = Plan(fn, stopwatch, cold and stopwatch.kind == "gpu", seconds=took, cpu=took)
    if stopwatch.kind == "cpu":
        return replace(plan, batch=_batch(took) if took < SHORT else 1, rounds=_rounds(took))
    return _examine_gpu(plan) if took < LONGEST else plan


def _examine_gpu(plan: Plan) -> Plan:
    """Tell apart what synchronises, what launches nothing, and what can be timed behind a block."""
    watch, took = plan.stopwatch, plan.seconds
    calls = [(_pass, 1), (watch.nothing, 1), (plan.fn, 1)]
    windows, cpu = [], []
    for attempt in range(6 if took < 1e-3 else 2):
        found = watch.windows(calls, plan.cold, True, PATIENCE + 2 * took)
        if not found.stuck:
            windows.append(found.device)
            cpu.append(found.cpu[2])
        elif attempt and not windows:
            return replace(plan, synchronises=found.stuck)
    empty, launch, seconds = (median(w[i] for w in windows) for i in range(3))
    if seconds < (empty + launch) / 2:
        return examine(plan.fn, watch.host(), False)
    seconds, enqueue = max(seconds - launch, 1e-6), median(cpu)
    launches = enqueue / LAUNCH + 2
    batch = 1 if plan.cold or seconds >= SHORT else min(_batch(seconds), max(1, int(watch.queue / launches)))
    fit = min(_rounds(seconds * batch), max(1, int(watch.queue / (batch * launches + 3))))
    return replace(plan, blocked=True, batch=batch, rounds=fit, seconds=seconds, cpu=enqueue)


def _pass() -> None:
    pass


def _batch(seconds: float) -> int:
    return min(100, math.ceil(BATCH / max(seconds, 1e-9)))


def _rounds(seconds: float) -> int:
    """Windows per block: few enough that the budget is looked at every few hundredths of a second."""
    return max(1, min(16, int(0.02 / max(seconds, 1e-9))))


@dataclass(frozen=True)
class _Call:
    """One window to be taken: of plan `owner`, or (ruler 0 or 1) of the ruler that goes with its batch."""

    owner: int
    ruler: int | None = None


@dataclass
class Sampler:
    """Windows of several plans, taken in random order, with the rulers' windows among them."""

    plans: list[Plan]
    rng: random.Random = field(default_factory=random.Random)
    confidence: float = 0.95

    def __post_init__(self) -> None:
        self._rounds = min(plan.rounds for plan in self.plans)
        self._strikes = 0
        self.readings: list[Health] = []
        self.forget()

    def forget(self) -> None:
        """Drop the windows taken so far, as after a warm-up; readings of the clock stay."""
        self._windows: list[list[float]] = [[] for _ in self.plans]
        self._cpu: list[list[float]] = [[] for _ in self.plans]
        self._rulers: dict[int, tuple[list[float], list[float]]] = {p.batch: ([], []) for p in self.plans}

    def fill(self, budget: float, enough: Callable[[], bool], least: int = LEAST) -> Stop:
        """Sample until enough() or until `budget` seconds are over; the first tenth warms up the clock."""
        now = self.plans[0].stopwatch.now
        start = now()
        while now() - start < 0.1 * budget and sum(p.seconds for p in self.plans) < 0.05 * budget:
            self._block()
        self.forget()
        looked = 0
        while True:
            self._block()
            count, spent = self.count(), now() - start
            if count < least:
                continue
            if count >= max(least, KNOWN) and spent >= 0.2 * budget and count > 1.2 * looked:
                looked = count
                if enough():
                    return "precise"
            if spent >= budget:
                return "budget"

    def count(self) -> int:
        """Windows of each plan so far."""
        return min(len(w) for w in self._windows)

    def _block(self) -> None:
        for (watch, cold, blocked), group in groupby(self._order(), self._manner):
            calls = list(group)
            pairs = [self._pair(call) for call in calls]
            expected = sum(self.plans[call.owner].cpu * self.plans[call.owner].batch for call in calls)
            found = watch.windows(pairs, cold, blocked, PATIENCE + 2 * expected)
            if found.stuck:
                return self._stuck(found.stuck)
            self._strikes = 0
            for call, device, cpu in zip(calls, found.device, found.cpu, strict=True):
                self._keep(call, device, cpu)
            self.readings += watch.health()

    def _order(self) -> list[_Call]:
        """A block's windows: rounds of all plans, the rulers in every fourth, each round shuffled."""
        order: list[_Call] = []
        owners = {plan.batch: i for i, plan in enumerate(self.plans) if plan.blocked}.values()
        calls = [_Call(i) for i in range(len(self.plans))]
        rulers = [_Call(owner, ruler) for owner in owners for ruler in (0, 1)]
        for index in range(self._rounds):
            some = calls + rulers if index % 4 == 0 else calls
            order += self.rng.sample(some, len(some))
        return order

    def _manner(self, call: _Call) -> tuple[Stopwatch, bool, bool]:
        plan = self.plans[call.owner]
        return plan.stopwatch, plan.cold, plan.blocked

    def _pair(self, call: _Call) -> tuple[Fn, int]:
        plan = self.plans[call.owner]
        rulers = plan.stopwatch.rulers
        return (plan.fn if call.ruler is None or rulers is None else rulers[call.ruler]), plan.batch

    def _keep(self, call: _Call, device: float, cpu: float) -> None:
        if call.ruler is not None:
            self._rulers[self.plans[call.owner].batch][call.ruler].append(device)
        else:
            self._windows[call.owner].append(device)
            self._cpu[call.owner].append(cpu / self.plans[call.owner].batch)

    def _stuck(self, where: str) -> None:
        """A call waited for the GPU: put fewer into a block; if that does not help, block no more."""
        self._strikes += 1
        if self._rounds > 1:
            self._rounds //= 2
        elif self._strikes > 2:
            self.plans = [_unblocked(plan, where) if plan.blocked else plan for plan in self.plans]
            self.forget()

    def overhead(self, index: int) -> tuple[float, float]:
        """Seconds that a window of this plan holds beyond the work, with the half width of its interval."""
        first, second = self._rulers[self.plans[index].batch]
        if not self.plans[index].blocked or not first:
            return 0.0, 0.0
        one, two = (np.ptp(median_interval(r, self.confidence)) / 2 for r in (first, second))
        return 2 * median(first) - median(second), math.hypot(2 * one, two)

    def seconds(self, index: int) -> NDArray[np.float64]:
        """Seconds per call, one for each window, shape (count,)."""
        windows = np.array(self._windows[index]) - self.overhead(index)[0]
        return np.asarray(np.maximum(windows, 1e-9) / self.plans[index].batch)

    def interval(self, index: int) -> tuple[float, float]:
        """The interval of the median of `seconds`, the rulers' own uncertainty included."""
        values = self.seconds(index)
        middle, (low, high) = float(np.median(values)), median_interval(values, self.confidence)
        ruler = self.overhead(index)[1] / self.plans[index].batch
        return middle - math.hypot(middle - low, ruler), middle + math.hypot(high - middle, ruler)

    def cpu(self, index: int) -> float:
        """Median seconds that the CPU takes for one call: to queue its work, or to run it."""
        return median(self._cpu[index])


def _unblocked(plan: Plan, where: str) -> Plan:
    return replace(plan, blocked=False, batch=1, synchronises=where)


def sampler(fns: Sequence[Fn], stopwatch: Stopwatch, cold: bool, rng: random.Random | None = None) -> Sampler:
    """Examine each function and be ready to sample them."""
    return Sampler([examine(fn, stopwatch, cold) for fn in fns], rng or random.Random())
