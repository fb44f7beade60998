"""Experiment: a function over a grid of settings; calling it gives a Measurement, live, recorded or modelled."""

from __future__ import annotations

import datetime
import functools
import inspect
import itertools
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from . import model, recording
from .device import Device, device, is_live, known
from .emulator import Counts
from .errors import LabError
from .fingerprint import fingerprint
from .kernel import Launch, counting
from .measurement import Measurement, Sweep
from .streams import awaited
from .timing import Timing, benchmark, compare
from .timing.stopwatch import CpuStopwatch

if TYPE_CHECKING:
    from .panel import Panel
    from .plots import Drawing
    from .tuning import Tuning

LIVE_SECONDS = 0.25


@dataclass(frozen=True)
class Work:
    """What an experiment's function returns: what to run, and what it costs.

    run:   a function without arguments; timed (live) or counted (modelled).
    bytes: bytes that must be moved: each input read once, each output written once.
    flops: floating-point operations that must be done.
    check: called after one run, before any timing; raises or returns False if the result is wrong.
    arithmetic: what the flops are done in, whose ceiling they meet: "fp32", "tf32" or "bf16".
    library: a name and a function that does the same work, timed in turn with `run`; see Measurement.ratio.
    wall:  time it on the wall clock until the GPU has done it, so that the CPU's launching counts. (Otherwise
           only the GPU's time does.) Such a time cannot be modelled.
    """

    run: Callable[[], object]
    bytes: float = 0.0
    flops: float = 0.0
    check: Callable[[], object] | None = None
    arithmetic: str = "fp32"
    library: tuple[str, Callable[[], object]] | None = None
    wall: bool = False


class Experiment:
    """A function over a grid of settings. Build it with `@labkit.experiment(...)`."""

    def __init__(self, function: Callable[..., Work], grid: dict[str, Sequence[Any]]) -> None:
        functools.update_wrapper(self, function)
        self.function, self.name = function, function.__name__
        self.grid: dict[str, tuple[Any, ...]] = {key: tuple(values) for key, values in grid.items()}
        self._live: dict[tuple[Any, ...], Measurement] = {}
        self._check_grid()

    def _check_grid(self) -> None:
        asked = f"the experiment `{self.name}`"
        taken = list(inspect.signature(self.function).parameters)
        if sorted(taken) != sorted(self.grid):
            raise LabError(
                asked, f"it takes {taken}, its grid has {list(self.grid)}", "one list of values per argument"
            )
        for key, values in self.grid.items():
            if not values or not all(isinstance(v, int | float | str | bool) for v in values):
                raise LabError(asked, f"{key}={list(values)}", "a list of numbers, names or booleans")

    @property
    def defaults(self) -> dict[str, Any]:
        """The first listed value of each setting."""
        return {key: values[0] for key, values in self.grid.items()}

    def settings(self) -> Iterator[dict[str, Any]]:
        """Every point of the grid."""
        for values in itertools.product(*self.grid.values()):
            yield dict(zip(self.grid, values, strict=True))

    @functools.cached_property
    def fingerprint(self) -> str:
        """A hash of this function, its kernels and the plain values it refers to."""
        return fingerprint(self.function)

    def __call__(self, **settings: Any) -> Measurement:
        """Measure at these settings; what is left out takes its first listed value.

        Live on a GPU; recorded where this very code was recorded; else modelled by the emulator.
        Raises LabError for a setting outside the grid, a failed check, or what cannot be modelled.
        """
        return self.measure(settings, again=True)

    def measure(self, settings: dict[str, Any], again: bool = False) -> Measurement:
        """As a call, but a setting measured before in this session is not measured anew unless `again`."""
        full = self.validated(settings)
        key = tuple(full.values())
        if recording.active is not None:
            return self._kept(full, recording.active)
        if again or key not in self._live:
            self._live[key] = self._measured(full)
        return self._live[key]

    def _kept(self, full: dict[str, Any], keeper: recording.Recorder) -> Measurement:
        """While recording: the row made before from this very code, or a live measurement that is then kept."""
        row = keeper.target.row(self.name, self.fingerprint, full)
        if row is None:
            row = self.measure_live(full, keeper.seconds).to_row()
            keeper.target.put(self.name, self.fingerprint, row)
        return Measurement.from_row(self.name, keeper.target.device, row)

    def _measured(self, full: dict[str, Any]) -> Measurement:
        if is_live():
            return self.measure_live(full)
        return self._recorded(full) or self.model(full)

    def validated(self, settings: dict[str, Any]) -> dict[str, Any]:
        """These settings, the others at their defaults. Raises LabError for one outside the grid."""
        asked = f"{self.name}({', '.join(f'{k}={v!r}' for k, v in settings.items())})"
        for key, value in settings.items():
            if key not in self.grid:
                raise LabError(asked, f"no setting is called {key}", "one of " + ", ".join(self.grid))
            if value not in self.grid[key]:
                listed = ", ".join(map(repr, self.grid[key]))
                raise LabError(asked, f"{key}={value!r} is not in the grid", f"one of {listed}")
        return {**self.defaults, **settings}

    def measure_live(self, full: dict[str, Any], seconds: float = LIVE_SECONDS) -> Measurement:
        """Run, check, then time on this machine's GPU; `seconds` is the time budget of the timing."""
        work = self.prepared(full)
        timing, beside = _timed(work, seconds)
        measured = self.measurement(full, work, timing.median, timing.spread, timing)
        return replace(measured, counts=self._counts(work, full), **beside)

    def prepared(self, full: dict[str, Any]) -> Work:
        """The work at these settings, run once on this machine and checked."""
        work = self._work(full)
        if work.wall:
            work = replace(work, run=functools.partial(awaited, work.run))
        work.run()
        self._checked(work, full)
        return work

    def measurement(
        self, full: dict[str, Any], work: Work, seconds: float, spread: float, timing: Timing | None = None
    ) -> Measurement:
        """A live measurement of `work`, without its traffic; `timing` tells how the clock was meanwhile."""
        return Measurement(
            experiment=self.name,
            settings=full,
            seconds=seconds,
            spread=spread,
            bytes=work.bytes,
            flops=work.flops,
            source="live",
            device=device(),
            date=datetime.date.today().isoformat(),
            checked=work.check is not None,
            launch_bound=timing is not None and timing.launch_bound,
            throttled=timing is not None and bool(timing.throttled),
            clock_hz=timing.clock_hz if timing else None,
            arithmetic=work.arithmetic,
        )

    def _work(self, full: dict[str, Any]) -> Work:
        work = self.function(**full)
        if not isinstance(work, Work):
            raise LabError(f"`{self.name}`", f"it returned {type(work).__name__}", "return labkit.Work(run, bytes=…)")
        return work

    def _checked(self, work: Work, full: dict[str, Any]) -> None:
        if work.check is None:
            return
        asked = f"`{self.name}` at {full}"
        try:
            right = work.check()
        except AssertionError as error:
            raise LabError(asked, f"its check failed: {error}", "mend the kernel before timing it") from error
        if right is not None and not bool(right):
            raise LabError(asked, "its check says the result is wrong", "mend the kernel before timing it")

    def _counts(self, work: Work, full: dict[str, Any]) -> Counts | None:
        """Traffic of a live run: counts do not depend on the GPU, so a recording's are as good."""
        earlier = self._live.get(tuple(full.values()))
        if earlier is not None and earlier.counts is not None:
            return earlier.counts
        row = _find(self.name, self.fingerprint, full)
        if row is not None and row[1].get("counts"):
            return Counts.from_dict(row[1]["counts"])
        if work.wall:
            return None  # thousands of launches, and their traffic says nothing of the CPU's time
        try:
            return _total(_counted(work))
        except LabError:
            return None  # the GPU ran it and the check passed: only the traffic stays unknown

    def _recorded(self, full: dict[str, Any]) -> Measurement | None:
        found = _find(self.name, self.fingerprint, full)
        return None if found is None else Measurement.from_row(self.name, found[0], found[1])

    def model(self, full: dict[str, Any]) -> Measurement:
        """Count the kernels on a sample of their blocks and predict the time on the current device."""
        work = self._work(full)
        if work.wall:
            raise LabError(f"`{self.name}` at {full}", "not recorded, and launching cannot be modelled", self._listed())
        launches = _counted(work)
        if not launches:
            raise LabError(f"`{self.name}` at {full}", "not recorded, and only kernels can be modelled", self._listed())
        target = device()
        return Measurement(
            experiment=self.name,
            settings=full,
            seconds=sum(model.predict(launch, target, work.arithmetic).seconds for launch in launches),
            spread=0.0,
            bytes=work.bytes,
            flops=work.flops,
            source="modelled",
            device=target,
            date="",
            counts=_total(launches),
            arithmetic=work.arithmetic,
        )

    def predicted(self, **settings: Any) -> Measurement:
        """What the model says at these settings, from the emulator's counts, whether or not it was measured.

        Raises LabError as a call does; also for what is no kernel.
        """
        return self.model(self.validated(settings))

    def _listed(self) -> str:
        rows = [row["settings"] for row in _rows(device().slug, self.name, self.fingerprint)]
        if not rows:
            return f"no recording of exactly this code on {device().name}: undo the change, or run it on a GPU"
        return "a recorded setting: " + "; ".join(map(str, rows[:6])) + (" …" if len(rows) > 6 else "")

    def known(self) -> list[Measurement]:
        """What is measured in this session or recorded, in the grid's order, without running anything.

        While recording: what this recording holds.
        """
        keeper = recording.active
        if keeper is not None:
            rows, origin = keeper.target.rows(self.name, self.fingerprint), keeper.target.device
        else:
            origin = device()
            rows = [] if is_live() else _rows(origin.slug, self.name, self.fingerprint)
        found = {
            tuple(row["settings"].get(key) for key in self.grid): Measurement.from_row(self.name, origin, row)
            for row in rows
        }
        if keeper is None:
            found.update(self._live)
        order = [tuple(point.values()) for point in self.settings()]
        return [found[key] for key in order if key in found]

    def others(self) -> dict[str, list[Measurement]]:
        """Recordings of the same code on other GPUs, by the device's name."""
        here = device()
        others = (known(slug) for slug in recording.gpus() if not (slug == here.slug and here.source != "live"))
        curves = {other.name: _rows(other.slug, self.name, self.fingerprint) for other in others}
        devices = {known(slug).name: known(slug) for slug in recording.gpus()}
        return {
            name: [Measurement.from_row(self.name, devices[name], row) for row in rows]
            for name, rows in curves.items()
            if rows
        }

    def sweep(self, progress: Callable[[int, int], None] | None = None) -> Sweep:
        """Measure every setting of the grid, with a progress bar; impossible settings are left out and listed."""
        points = list(self.settings())
        shown: Iterable[dict[str, Any]] = points
        if progress is None and recording.active is None:
            from tqdm.auto import tqdm

            shown = tqdm(points, desc=self.name, leave=False)
        done, failed = [], []
        for index, full in enumerate(shown):
            try:
                done.append(self.measure(full))
            except LabError as error:
                failed.append((full, error))
            if progress is not None:
                progress(index + 1, len(points))
        return Sweep(tuple(done), tuple(failed))

    def tune(self, budget: float = 5.0, **fixed: Any) -> Tuning:
        """Search the grid for the fastest setting; settings named in `fixed` keep that value.

        budget: seconds. On a GPU: every possible setting is run, checked and looked at shortly; impossible ones
        are listed with the reason; what is slower by its confidence interval is dropped, the rest gets more
        time, and the finalists are timed in turn as by `labkit.compare`. Without one, and while recording:
        what is recorded is ranked, with its recorded spread, and the rest is modelled.
        Returns a Tuning, in which what cannot be told from the best is a tie. Raises LabError if nothing can
        be measured, or if the settings differ in the work to be done.

        >>> strided.tune(budget=5, stride=1)
        """
        from .tune import tune

        return tune(self, budget, fixed)

    def panel(self, x: str | None = None, guess: Any = None, lanes: bool | str = True) -> Panel | None:
        """Sliders over the grid beside the measured curve; see labkit.panel. Not shown while recording.

        lanes: under it a warp's "sectors" (or True), its "banks" of shared memory, or nothing (False).
        """
        if recording.active is not None:
            return None
        from .panel import panel

        return panel(self, x=x, guess=guess, lanes=lanes)

    def plot(self, x: str | None = None, y: str = "bandwidth", by: str | None = None) -> Drawing | None:
        """Draw what is known of the grid: `y` against setting `x`, a line per value of `by`."""
        if recording.active is not None:
            return None
        from .plots import plot

        return plot(self.known() or list(self.sweep()), x or next(iter(self.grid)), y, by)

    def roofline(self, counted: bool = False, **fixed: Any) -> Drawing | None:
        """Draw what is known of the grid, at the `fixed` settings, under the device's roofline.

        counted: place each by the bytes that its kernels ask of global memory, by the emulator's count,
        instead of the bytes that had to be moved; what has no counts is left out.
        """
        if recording.active is not None:
            return None
        from .plots import under_roofline

        points = self.known() or list(self.sweep())
        shown = [m for m in points if m.settings.items() >= self.validated(fixed).items() & fixed.items()]
        return under_roofline([m.as_counted() for m in shown if m.counts is not None] if counted else shown)

    def __repr__(self) -> str:
        grid = ", ".join(f"{key}={list(values)}" for key, values in self.grid.items())
        return f"<Experiment {self.name}: {grid}>"


def experiment(**grid: Sequence[Any]) -> Callable[[Callable[..., Work]], Experiment]:
    """Make an Experiment of a function: each keyword is a setting and the values it takes.

    >>> @experiment(stride=[1, 2, 4, 8], block=[64, 128, 256])
    ... def strided(stride, block):
    ...     return Work(lambda: read(n // block, block, (a, b, stride)), bytes=8 * n)
    """
    return lambda function: Experiment(function, dict(grid))


def _rows(slug: str, name: str, mark: str) -> list[dict[str, Any]]:
    return [row for found in recording.recordings(slug)[0] for row in found.rows(name, mark)]


def _find(name: str, mark: str, full: dict[str, Any]) -> tuple[Device, dict[str, Any]] | None:
    slug = device().slug
    for row in _rows(slug, name, mark):
        if row["settings"] == full:
            return known(slug), row
    return None


def _timed(work: Work, seconds: float) -> tuple[Timing, dict[str, Any]]:
    """The time of `run`, and what a Measurement says of the library that it was timed in turn with."""
    stopwatch = CpuStopwatch() if work.wall else None
    if work.library is None:
        return benchmark(work.run, budget=seconds, stopwatch=stopwatch), {}
    name, theirs = work.library
    found = compare(theirs, work.run, names=(name, "run"), budget=2 * seconds, stopwatch=stopwatch)
    return found.timings[1], {"library": name, "ratio": found.ratio, "ratio_ci": found.ci}


def _counted(work: Work) -> list[Launch]:
    """Run the work with its kernels counting; refuses array operations that would go uncounted."""
    with counting(model.SAMPLE_BUDGET) as log, _no_torch_operations():
        work.run()
    return log.launches


def _total(launches: list[Launch]) -> Counts | None:
    return functools.reduce(lambda a, b: a + b, (launch.counts for launch in launches)) if launches else None


def _no_torch_operations() -> AbstractContextManager[Any]:
    """Raise LabError at the first torch operation: the emulator sees kernels only, so it would go uncounted."""
    if "torch" not in sys.modules:
        return nullcontext()
    from torch.utils._python_dispatch import TorchDispatchMode

    class Refuse(TorchDispatchMode):  # type: ignore[misc] # torch is not analysed
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if func.__name__.split(".")[0] in _VIEWS:
                return func(*args, **(kwargs or {}))
            raise LabError(
                f"model `{func.__name__}`",
                "a torch operation is not a kernel the emulator can count",
                "a recorded setting, or a GPU",
            )

    return Refuse()


_VIEWS = {
    "view",
    "detach",
    "alias",
    "transpose",
    "permute",
    "as_strided",
    "slice",
    "select",
    "t",
    "_to_copy",
    "expand",
}
