"""PTX of the kit's own kernels, for machines where NVIDIA's compiler does not exist (macOS)."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

from .device import DATA
from .emulator import Compiled, Resources, compiled_from_ptx

PATH = DATA / "ptx" / "kernels.json"


def find(fingerprint: str, source: str) -> Compiled | None:
    """The shipped kernel of exactly this code, built for an H200, or None."""
    row = _rows().get(fingerprint)
    if row is None:
        return None
    compiled = compiled_from_ptx(row["ptx"], row["name"], source)
    return replace(compiled, resources=Resources(**row["resources"]))


@functools.cache
def _rows() -> dict[str, Any]:
    return dict(json.loads(PATH.read_text())["kernels"]) if PATH.is_file() else {}


def write(kernels: Mapping[str, Compiled], compiler: str) -> int:
    """Write the PTX of kernels by fingerprint; returns how many. compiler: the NVRTC version that made them."""
    rows = {}
    for fingerprint, made in kernels.items():
        assert made.resources is not None
        ptx = re.sub(r'(\.file\s+\d+ )"[^"]*/', r'\1"', made.ptx)  # the folder it was compiled in is nobody's business
        rows[fingerprint] = {"name": made.name, "resources": asdict(made.resources), "ptx": ptx}
    PATH.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"compiler": compiler, "kernels": dict(sorted(rows.items()))}, indent=0)
    PATH.write_text(text + "\n")
    return len(rows)
