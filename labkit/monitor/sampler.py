"""Monitor: a thread that reads every meter some times a second, and keeps what it reads."""

from __future__ import annotations

import datetime
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import LabError
from ..nvml import Nvml
from .gpu import Gpu, gpus
from .host import Host
from .samples import HOST, Process, Samples
from .summary import Summary

if TYPE_CHECKING:
    from ..plots import Drawing

KEPT = 36_000  # instants: an hour at 10 Hz; beyond, every second one is let go
HOST_SHARE = 0.001  # of one core for the host's readings: on machines of many cores they come less often
PROCESSES = 2.0  # seconds between two looks at the processes


class Monitor:
    """Samples the machine in the background, from `with` until its end.

    hertz: samples a second. gpus: NVML indices or PCI bus ids; all GPUs if left out, a GPU's MIG
    instances in its place. What cannot be read is named with the reason, never guessed. Percentages and
    clocks come from NVML; SM, tensor and DRAM activity from its GPM, which Hopper and newer GPUs have.
    Raises LabError for a GPU that is not there, or a rate that is not 0.1 to 100 Hz.

    >>> with Monitor() as seen:
    ...     train()
    >>> seen.summary()
    """

    def __init__(self, hertz: float = 10.0, gpus: Sequence[int | str] | None = None) -> None:
        if not 0.1 <= hertz <= 100:
            raise LabError(f"sample at {hertz} Hz", "the meters move no faster", "0.1 to 100; 10 is usual")
        self.hertz, self._wanted = hertz, gpus
        self._lock, self._ended = threading.Lock(), threading.Event()
        self._thread: threading.Thread | None = None
        self._failure: BaseException | None = None
        self._gpus: list[Gpu] = []
        self._forget()

    def _forget(self) -> None:
        self._times: list[float] = []
        self._rows: list[dict[str, dict[str, Any]]] = []
        self._processes: list[Process] = []
        self._every = self._instant = 0
        self._cpu, self._lost_at = 0.0, dict[str, float]()
        self.began = time.monotonic()

    def start(self) -> Monitor:
        """Begin; what was sampled before is forgotten."""
        if self._thread is not None:
            raise LabError("start a monitor", "it is running", "stop it first, or make another")
        nvml = Nvml()
        self._absent: dict[str, str] = {}
        self._silent, self._gpus, self._host = nvml.silent, gpus(nvml, self._wanted, self._absent), Host()
        self._forget()
        self._host_due = self._processes_due = 0.0
        self.began = time.monotonic()
        self._date = datetime.date.today().isoformat()
        self._read()  # the first reading loads and allocates: here, so that the thread's own are cheap
        self._host_due = 0.0
        self._ended.clear()
        self._thread = threading.Thread(target=self._work, name="labkit monitor", daemon=True)
        self._thread.start()
        return self

    def stop(self) -> Samples:
        """End, and return the samples. Raises what ended the sampling early, if anything did."""
        if self._thread is not None:
            self._ended.set()
            self._thread.join()
            self._thread = None
            if self._failure is None:
                self._read(everything=True)  # so that the energy is counted from the start to the end
            for gpu in self._gpus:
                gpu.close()
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure
        return self.samples

    def __enter__(self) -> Monitor:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def running(self) -> bool:
        """Whether it samples now."""
        return self._thread is not None and self._thread.is_alive()

    # In the thread

    def _work(self) -> None:
        began = time.thread_time()
        due = time.monotonic()
        try:
            while True:
                due = max(due + 1 / self.hertz, time.monotonic())
                if self._ended.wait(due - time.monotonic()):
                    return
                self._read()
                self._cpu = time.thread_time() - began
        except BaseException as failure:  # raised again by stop(), in the thread that asked
            self._failure = failure

    def _read(self, everything: bool = False) -> None:
        now = time.monotonic()
        row = {gpu.label: gpu.since_start(gpu.read(everything)) for gpu in self._gpus if not gpu.lost}
        for gpu in self._gpus:
            if gpu.lost:
                self._lost_at.setdefault(gpu.label, now - self.began)
        if now >= self._host_due:
            row[HOST] = self._read_host(now)
        if now >= self._processes_due:
            self._read_processes(now)
        with self._lock:
            self._keep(now - self.began, row)

    def _read_host(self, now: float) -> dict[str, Any]:
        spent = time.thread_time()
        row = self._host.read()
        self._host_due = now + max(0.5 / self.hertz, (time.thread_time() - spent) / HOST_SHARE)
        return row

    def _read_processes(self, now: float) -> None:
        self._processes_due = now + PROCESSES
        for gpu in self._gpus:
            for pid, size in [] if gpu.lost else gpu.processes():
                self._processes.append(Process(now - self.began, gpu.label, pid, self._host.name(pid), size))

    def _keep(self, at: float, row: dict[str, dict[str, Any]]) -> None:
        self._instant += 1
        if self._instant % (1 << self._every) == 0:
            self._times.append(at)
            self._rows.append(row)
        if len(self._times) > KEPT:
            self._every += 1
            self._times, self._rows = self._times[::2], self._rows[::2]

    # What it saw

    def since(self, earliest: float = 0.0) -> Samples:
        """The samples from `earliest` (seconds since the start) on; also while it is running."""
        with self._lock:
            first = next((i for i, t in enumerate(self._times) if t >= earliest), len(self._times))
            times, rows = self._times[first:], self._rows[first:]
            processes = tuple(self._processes)
        labels = [gpu.label for gpu in self._gpus] + [HOST]
        elapsed = time.monotonic() - self.began if self.running else (times[-1] if times else 0.0)
        return Samples(
            time=tuple(times),
            tracks={label: _columns([row.get(label, {}) for row in rows]) for label in labels},
            gpus=tuple(gpu.facts for gpu in self._gpus),
            missing=self._missing(),
            processes=processes,
            silent=self._silent,
            date=self._date,
            cpu_share=self._cpu / elapsed if elapsed else 0.0,
        )

    def _missing(self) -> dict[str, dict[str, str]]:
        found = {label: {"everything": why} for label, why in self._absent.items()}
        found.update({gpu.label: gpu.without for gpu in self._gpus})
        for gpu in self._gpus:
            if gpu.lost:
                at = self._lost_at.get(gpu.label, 0.0)
                found[gpu.label]["everything"] = f"{gpu.lost}, since {at:.1f} s"
        found[HOST] = dict(self._host.missing)
        return {label: missing for label, missing in found.items() if missing}

    @property
    def samples(self) -> Samples:
        """All samples so far. Raises LabError before the first."""
        if not self._times:
            raise LabError("the samples of a monitor", "it has not run", "with labkit.Monitor() as seen: …")
        return self.since()

    def to_dataframe(self) -> Any:
        """The samples as a pandas DataFrame: one row for each instant and GPU."""
        return self.samples.to_dataframe()

    def summary(self) -> Summary:
        """Means with units, what held the clock back, what is missing and why."""
        return self.samples.summary()

    def plot(self, *names: str) -> Drawing | None:
        """Draw series over time; see Samples.plot."""
        return self.samples.plot(*names)

    def save(self, path: str | Path) -> None:
        """Write JSON that `Monitor.load` reads."""
        self.samples.save(path)

    @staticmethod
    def load(path: str | Path) -> Samples:
        """Read what `save` wrote; its source is then "recorded"."""
        return Samples.load(path)

    def panel(self) -> Any:
        """The meters, live in the notebook."""
        from .board import Board

        return Board((), hertz=self.hertz, gpus=self._wanted)

    def __repr__(self) -> str:
        state = "running" if self.running else "not running"
        return f"<Monitor at {self.hertz:g} Hz, {state}, {len(self._times)} instants>"


def _columns(rows: list[dict[str, Any]]) -> dict[str, tuple[Any, ...]]:
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: tuple(row.get(name) for row in rows) for name in names}
