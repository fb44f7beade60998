"""Workload: a function over a grid of settings, run in the background while the meters are watched."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from .. import recording
from ..device import cupy, device, is_live
from ..experiment import Experiment, Work
from .observation import Observation
from .running import Runner
from .sampler import Monitor

if TYPE_CHECKING:
    from .board import Board

WARM = 0.8  # seconds before the watching: nvidia-smi's meters look back about as long


class Workload:
    """A function that returns the Work of one step. Build it with `@workload(...)`."""

    def __init__(self, function: Callable[..., Work], seconds: float, grid: dict[str, Sequence[Any]]) -> None:
        functools.update_wrapper(self, function)
        self.function, self.seconds = function, seconds
        self._over = Experiment(function, grid)
        self._live: dict[tuple[Any, ...], Observation] = {}
        self.name, self.grid, self.defaults = self._over.name, self._over.grid, self._over.defaults

    def settings(self) -> Iterator[dict[str, Any]]:
        """Every point of the grid."""
        return self._over.settings()

    @property
    def fingerprint(self) -> str:
        """A hash of the function, its kernels and the plain values it refers to."""
        return self._over.fingerprint

    def __call__(self, **settings: Any) -> Observation:
        """Run at these settings for a few seconds and watch; what is left out takes its first listed value.

        Live on a GPU; recorded where this very code was recorded; else an Observation that says it is not.
        Raises LabError for a setting outside the grid, and what the workload raises.
        """
        return self.measure(settings, again=True)

    def measure(self, settings: dict[str, Any], again: bool = False) -> Observation:
        """As a call, but a setting watched before in this session is not run anew unless `again`."""
        full = self._over.validated(settings)
        if recording.active is not None:
            return self._kept(full, recording.active.target)
        if not is_live():
            return self.recorded(full)
        key = tuple(full.values())
        if again or key not in self._live:
            self._live[key] = self.watch(full)
        return self._live[key]

    def _kept(self, full: dict[str, Any], target: recording.Recording) -> Observation:
        """While recording: the row made before from this very code, or a live one that is then kept."""
        row = target.row(self.name, self.fingerprint, full)
        if row is None:
            row = self.watch(full).to_row()
            target.put(self.name, self.fingerprint, row)
        return Observation.from_row(self.name, row)

    def recorded(self, full: dict[str, Any]) -> Observation:
        """What the recording of the device that stands in holds, or an Observation that says there is none."""
        for found in recording.recordings(device().slug)[0]:
            row = found.row(self.name, self.fingerprint, full)
            if row is not None:
                return Observation.from_row(self.name, row)
        why = f"not recorded from exactly this code on {device().name}: it needs a GPU"
        return Observation(self.name, full, None, source="missing", why=why)

    def start(self, full: dict[str, Any]) -> Runner:
        """Start running in the background."""
        return Runner(lambda: self._over._work(full))

    def watch(self, full: dict[str, Any]) -> Observation:
        """Run, wait until the meters have settled, and watch for `seconds`."""
        runner = self.start(full)
        try:
            work = runner.ready()
            time.sleep(WARM)
            since = runner.now()
            with Monitor(gpus=here()) as monitor:
                time.sleep(self.seconds)
            rate = runner.rate(since)
        finally:
            runner.stop()
        return Observation(self.name, full, monitor.samples, rate, work.bytes, work.flops)

    def panel(self) -> Board | None:
        """Its sliders and the meters; see labkit.monitor.panel."""
        return panel(self)

    def __repr__(self) -> str:
        grid = ", ".join(f"{key}={list(values)}" for key, values in self.grid.items())
        return f"<Workload {self.name}: {grid}>"


def here() -> list[int | str] | None:
    """The GPU that CUDA uses, for a Monitor; all where CuPy does not tell."""
    module = cupy()
    return None if module is None else [str(module.cuda.Device().pci_bus_id)]


def workload(seconds: float = 2.0, **grid: Sequence[Any]) -> Callable[[Callable[..., Work]], Workload]:
    """Make a Workload of a function that returns the Work of one step.

    seconds: how long it is watched. grid: each setting and the values it takes.

    >>> @workload(n=[8192, 2048])
    ... def product(n):
    ...     a = torch.randn(n, n, device="cuda")
    ...     return labkit.Work(lambda: a @ a, flops=2 * n**3)
    >>> product(n=2048)
    """
    return lambda function: Workload(function, seconds, dict(grid))


def panel(*workloads: Workload) -> Board | None:
    """The meters at 10 Hz beside a button for each workload and its sliders; recorded ones are replayed.

    Not shown while recording.
    """
    if recording.active is not None:
        return None
    from .board import Board

    return Board(workloads, gpus=here())
