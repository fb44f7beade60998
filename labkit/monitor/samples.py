"""Samples: what a monitor saw, as a table, a plot, a summary, and JSON that can be loaded again."""

from __future__ import annotations

import importlib
import json
import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import recording
from ..errors import LabError
from .gpu import Facts
from .quantities import ALL
from .summary import Summary

if TYPE_CHECKING:
    from ..plots import Drawing

FORMAT = 1
HOST = "host"


@dataclass(frozen=True)
class Process:
    """A process seen on a GPU at a time (seconds since the start); bytes None where NVML does not tell."""

    time: float
    gpu: str
    pid: int
    name: str
    bytes: float | None


@dataclass(frozen=True)
class Samples:
    """Series over time.

    time:    seconds since the start, one an instant.
    tracks:  a GPU's label ("0", of a MIG instance "0:1"), or "host" → series → one value an instant, in
             the units of labkit.monitor.quantities; None where nothing was read at that instant.
    missing: label → series → why it is not there. silent: why there is no GPU at all.
    cpu_share: of one core, spent on sampling. source: "live", or "recorded" for what was loaded.
    """

    time: tuple[float, ...]
    tracks: dict[str, dict[str, tuple[Any, ...]]]
    gpus: tuple[Facts, ...] = ()
    missing: dict[str, dict[str, str]] = field(default_factory=dict)
    processes: tuple[Process, ...] = ()
    silent: str = ""
    date: str = ""
    source: str = "live"
    cpu_share: float = 0.0

    def __len__(self) -> int:
        return len(self.time)

    @property
    def seconds(self) -> float:
        """From the first instant to the last."""
        return self.time[-1] - self.time[0] if self.time else 0.0

    @property
    def origin(self) -> str:
        """Where the numbers come from: "recorded, NVIDIA H200, 2026-12-01"."""
        names = dict.fromkeys(gpu.name for gpu in self.gpus)
        return ", ".join([self.source, *(names or ["no GPU"]), *([self.date] if self.date else [])])

    def series(self, name: str, gpu: str | None = None) -> list[float | None]:
        """One series of a GPU (the first if left out) or of the host; all None where it is missing."""
        label = HOST if name not in self._track(gpu) and name in self.tracks.get(HOST, {}) else None
        track = self.tracks[label] if label else self._track(gpu)
        return list(track.get(name, [None] * len(self.time)))

    def _track(self, gpu: str | None) -> dict[str, tuple[Any, ...]]:
        label = gpu if gpu is not None else next((g.label for g in self.gpus), HOST)
        return self.tracks.get(label, {})

    def mean(self, name: str, gpu: str | None = None) -> float:
        """The mean of a series over the instants it was read at; nan where it is missing."""
        there = [value for value in self.series(name, gpu) if value is not None]
        return math.fsum(there) / len(there) if there else math.nan

    def joules(self, gpu: str | None = None) -> float:
        """Energy between the first instant and the last: by NVML's counter, or else mean power × time."""
        counted = [
            (t, value) for t, value in zip(self.time, self.series("energy", gpu), strict=True) if value is not None
        ]
        if len(counted) < 2:
            return self.mean("power", gpu) * self.seconds
        (first, before), (last, after) = counted[0], counted[-1]
        return (after - before) / (last - first) * self.seconds

    def to_rows(self) -> list[dict[str, Any]]:
        """One row for each instant and GPU, the host's series beside it; what is missing is left out."""
        labels: list[str | None] = [*(gpu.label for gpu in self.gpus)]
        rows = []
        for at, time in enumerate(self.time):
            host = _at(self.tracks.get(HOST, {}), at)
            for gpu in labels or [None]:
                own = {} if gpu is None else _at(self.tracks.get(gpu, {}), at)
                rows.append({"time": time, "gpu": gpu, **own, **host})
        return rows

    def to_dataframe(self) -> Any:
        """The rows as a pandas DataFrame. Raises LabError if pandas is not installed."""
        try:
            pandas = importlib.import_module("pandas")
        except ImportError as error:
            raise LabError(
                "the samples as a DataFrame", "pandas is not installed", "pip install pandas, or .to_rows()"
            ) from error
        return pandas.DataFrame(self.to_rows())

    def summary(self) -> Summary:
        """Mean, least and most of every series, what held the clock back, and what is missing and why."""
        return Summary.of(self)

    def plot(self, *names: str) -> Drawing | None:
        """Draw series over time, grouped by unit; those of `names`, or a choice that tells most."""
        if recording.active is not None:
            return None
        from ..plots.meters import over_time

        return over_time(self, names, str(self.summary()))

    def to_dict(self, host_cores: bool = True) -> dict[str, Any]:
        """Plain JSON types, numbers to five digits; the inverse of `from_dict`."""
        tracks = {
            label: {n: _short(v) for n, v in track.items() if host_cores or not _is_core(n)}
            for label, track in self.tracks.items()
        }
        kept = {name: getattr(self, name) for name in ("missing", "silent", "date", "cpu_share")}
        processes = [asdict(process) for process in self.processes]
        gpus = [asdict(gpu) for gpu in self.gpus]
        time = [round(t, 3) for t in self.time]
        return {
            "format": FORMAT,
            "time": time,
            "tracks": tracks,
            "gpus": gpus,
            "processes": processes,
            **kept,
        }

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> Samples:
        """Samples from `to_dict`, their source "recorded". Raises LabError if they are damaged."""
        try:
            if content["format"] != FORMAT:
                raise ValueError(f"format {content['format']}; this labkit reads {FORMAT}")
            time = tuple(map(float, content["time"]))
            tracks = {label: _checked(track, len(time)) for label, track in content["tracks"].items()}
            gpus = tuple(Facts(**facts) for facts in content["gpus"])
            processes = tuple(Process(**process) for process in content["processes"])
            rest = {name: content[name] for name in ("missing", "silent", "date", "cpu_share")}
            return cls(time, tracks, gpus, processes=processes, source="recorded", **rest)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            found = f"damaged: {type(error).__name__} {error}"
            raise LabError("read what a monitor saved", found, "save it again") from error

    def save(self, path: str | Path) -> None:
        """Write JSON."""
        Path(path).write_text(json.dumps(self.to_dict()) + "\n")

    @classmethod
    def load(cls, path: str | Path) -> Samples:
        """Read what `save` wrote. Raises LabError if it is not there or damaged."""
        try:
            content = json.loads(Path(path).read_text())
        except (OSError, ValueError) as error:
            found = f"{type(error).__name__}: {error}"
            raise LabError(f"load {path}", found, "a file that Monitor.save wrote") from error
        return cls.from_dict(content)

    def __repr__(self) -> str:
        return f"<Samples: {len(self)} instants in {self.seconds:.1f} s, {self.origin}>"

    def _repr_html_(self) -> str:
        return self.summary()._repr_html_()


def _at(track: dict[str, tuple[Any, ...]], index: int) -> dict[str, Any]:
    return {name: values[index] for name, values in track.items()}


def _is_core(name: str) -> bool:
    return name.startswith("cpu") and name not in ALL


def _short(values: Iterable[Any]) -> list[Any]:
    return [float(f"{v:.5g}") if isinstance(v, float) else v for v in values]


def _checked(track: dict[str, list[Any]], count: int) -> dict[str, tuple[Any, ...]]:
    for name, values in track.items():
        if len(values) != count:
            raise ValueError(f"{name} has {len(values)} values for {count} instants")
    return {name: tuple(values) for name, values in track.items()}
