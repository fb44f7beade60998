"""Observations beside each other: one row a workload, one column a meter."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from dataclasses import dataclass

from .observation import Observation
from .quantities import ALL

COLUMNS = {
    "utilisation": "nvidia-smi",
    "sm_active": "SM activity",
    "sm_occupancy": "occupancy",
    "tensor": "tensor",
    "fp32": "FP32",
    "dram": "DRAM",
    "pcie_received": "PCIe in",
    "power": "power",
}
TIGHT = "white-space:nowrap;padding:4px 5px"


@dataclass(frozen=True)
class Beside:
    """A table of observations; shares are drawn as bars behind their numbers."""

    observations: tuple[Observation, ...]

    def __str__(self) -> str:
        heads = ["", *COLUMNS.values(), "energy"]
        rows = [heads] + [[o.name, *_cells(o), o.energy()] for o in self.observations]
        wide = [max(len(row[i]) for row in rows) for i in range(len(heads))]
        lines = ["  ".join(cell.rjust(w) for cell, w in zip(row, wide, strict=True)) for row in rows]
        return "\n".join([*lines, *_origins(self.observations)])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        heads = "".join(f"<th style='{TIGHT}'>{html.escape(head)}</th>" for head in ("", *COLUMNS.values(), "energy"))
        rows = "".join(_row(o) for o in self.observations)
        origin = "<br>".join(map(html.escape, _origins(self.observations)))
        return f"<table class='labkit-beside'><tr>{heads}</tr>{rows}</table><small>{origin}</small>"


def _cells(o: Observation) -> list[str]:
    return [ALL[name].text(o.mean(name)) for name in COLUMNS]


def _row(o: Observation) -> str:
    if o.samples is None:
        gap = f"<td colspan='{len(COLUMNS) + 1}' style='text-align:left'><i>{html.escape(o.why)}</i></td>"
        return f"<tr><td style='text-align:left'>{html.escape(o.name)}</td>{gap}</tr>"
    cells = "".join(_cell(name, o.mean(name)) for name in COLUMNS)
    return (
        f"<tr><td style='text-align:left'>{html.escape(o.name)}</td>{cells}<td style='{TIGHT}'>{o.energy()}</td></tr>"
    )


def _cell(name: str, value: float) -> str:
    q, bar = ALL[name], ""
    if q.unit == "%" and not math.isnan(value):
        share = min(max(value, 0.0), 100.0)
        bar = f"background:linear-gradient(to right,#56b4e966 {share:.1f}%,transparent {share:.1f}%)"
    return f"<td style='{TIGHT};{bar}'>{html.escape(q.text(value))}</td>"


def _origins(observations: Sequence[Observation]) -> list[str]:
    return list(dict.fromkeys(o.origin for o in observations if o.samples is not None))


def beside(*observations: Observation) -> Beside:
    """A table of what the meters said during each workload, with energy per useful operation."""
    return Beside(observations)
