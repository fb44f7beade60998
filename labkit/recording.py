"""Recording: the measurements of one GPU on disk, found by experiment, settings and fingerprint."""

from __future__ import annotations

import datetime
import json
import os
import platform
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

from .device import DATA, Device, cupy
from .errors import LabError

FORMAT = 1


@dataclass
class Recording:
    """One lab on one GPU: the device, the versions it was measured with, and rows per experiment.

    experiments: name → {"fingerprint", "grid", "rows": [{"settings", "seconds", …}]}.
    """

    path: Path
    device: Device
    environment: dict[str, str] = field(default_factory=dict)
    experiments: dict[str, dict[str, Any]] = field(default_factory=dict)

    @classmethod
    def load(cls, path: Path) -> Recording:
        """Read one file. Raises LabError if it is damaged or of another format version."""
        asked = f"read the recording {path.name} of {path.parent.name}"
        try:
            content = json.loads(path.read_text())
            version = content["format"]
            if version != FORMAT:
                again = "record it anew (python -m labkit record), or take the file of this release"
                raise LabError(asked, f"format {version}; this labkit reads {FORMAT}", again)
            return cls(path, Device.from_dict(content["device"]), content["environment"], content["experiments"])
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            mend = "restore the file (git checkout), or delete it and go on with modelled numbers"
            raise LabError(asked, f"damaged: {type(error).__name__} {error}", mend) from error

    def save(self) -> None:
        """Write it whole or not at all."""
        content = {
            "format": FORMAT,
            "device": self.device.to_dict(),
            "environment": self.environment,
            "experiments": self.experiments,
        }
        self.path.parent.mkdir(parents=True, exist_ok=True)
        draft = self.path.with_suffix(".part")
        draft.write_text(_compact(content))
        os.replace(draft, self.path)

    def row(self, experiment: str, fingerprint: str, settings: dict[str, Any]) -> dict[str, Any] | None:
        """The row measured at these settings from exactly this code, or None."""
        return next((r for r in self.rows(experiment, fingerprint) if r["settings"] == settings), None)

    def rows(self, experiment: str, fingerprint: str | None = None) -> list[dict[str, Any]]:
        """All rows of an experiment; with a fingerprint, none if it was recorded from other code."""
        entry = self.experiments.get(experiment)
        if entry is None or fingerprint not in (None, entry["fingerprint"]):
            return []
        return list(entry["rows"])

    def put(self, experiment: str, fingerprint: str, row: dict[str, Any]) -> None:
        """Add or replace one row; rows of an older fingerprint of the experiment are dropped."""
        entry = self.experiments.get(experiment)
        if entry is None or entry["fingerprint"] != fingerprint:
            entry = self.experiments[experiment] = {"fingerprint": fingerprint, "rows": []}
        entry["rows"] = [r for r in entry["rows"] if r["settings"] != row["settings"]] + [row]


@dataclass
class Recorder:
    """What `labkit record` installs as `active`: experiments then keep what they measure in `target`."""

    target: Recording
    seconds: float = 0.5


active: Recorder | None = None


def _compact(content: dict[str, Any]) -> str:
    """JSON with one row a line, so that a diff shows which measurement changed."""
    experiments = content["experiments"]
    marked = {**content, "experiments": {name: {**entry, "rows": []} for name, entry in experiments.items()}}
    text = json.dumps(marked, indent=1)
    for entry in experiments.values():
        rows = ",\n".join("    " + json.dumps(row) for row in entry["rows"])
        text = text.replace('"rows": []', '"rows": @@[\n' + rows + "\n   ]" if rows else '"rows": @@[]', 1)
    return text.replace('"rows": @@[', '"rows": [') + "\n"


def environment() -> dict[str, str]:
    """Versions that travel with every number: Python, the driver, CUDA, CuPy, torch, labkit, the date."""
    facts = {"python": platform.python_version(), "date": datetime.date.today().isoformat()}
    for package in ("labkit", "torch", "numpy", "cupy-cuda13x", "cupy-cuda12x"):
        try:
            facts[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    module = cupy()
    if module is not None:
        facts["driver"] = str(module.cuda.runtime.driverGetVersion())
        facts["cuda"] = str(module.cuda.runtime.runtimeGetVersion())
    return facts


_loaded: dict[tuple[Path, float], Recording] = {}


def recordings(slug: str) -> tuple[list[Recording], list[LabError]]:
    """All recordings of one GPU, and what could not be read (a damaged file spoils only itself)."""
    found, errors = [], []
    for path in sorted((DATA / "recordings" / slug).glob("*.json")):
        if path.name == "device.json":
            continue
        key = (path, path.stat().st_mtime)
        try:
            if key not in _loaded:
                _loaded[key] = Recording.load(path)
            found.append(_loaded[key])
        except LabError as error:
            errors.append(error)
    return found, errors


def gpus() -> list[str]:
    """The slugs of all GPUs with recordings."""
    return sorted(path.name for path in (DATA / "recordings").glob("*") if path.is_dir())
