"""What the live panel shows of samples at one instant; nothing here knows of widgets."""

from __future__ import annotations

from typing import Any

from ..plots.meters import BACK, Dial, View
from .quantities import ALL
from .samples import Samples

LINES = {"utilisation": "utilisation", "sm_active": "SM", "tensor": "tensor", "dram": "DRAM"}
DIALS = (
    ("utilisation", "utilisation"),
    ("sm_active", "SM activity"),
    ("sm_occupancy", "SM occupancy"),
    ("tensor", "tensor cores"),
    ("fp32", "FP32"),
    ("dram", "DRAM activity"),
    ("pcie_received", "PCIe in"),
    ("pcie_sent", "PCIe out"),
    ("power", "power"),
    ("sm_clock", "SM clock"),
    ("memory_used", "memory used"),
    ("cpu_busiest", "busiest core"),
)


def view(samples: Samples, gpu: str | None = None, at: float | None = None) -> View:
    """The dials at `at` (seconds; the last instant if left out) and the seconds before it.

    gpu: its label; the first if left out. A series that misses an instant shows its last value.
    """
    last = samples.time[-1] if samples.time else 0.0
    now = last if at is None else at
    count = sum(1 for t in samples.time if t <= now)
    first = next((i for i, t in enumerate(samples.time) if t >= now - BACK), count)
    row = {name: _latest(samples.series(name, gpu)[:count]) for name, _ in DIALS}
    facts = next((f for f in samples.gpus if gpu in (None, f.label)), None)
    full = {} if facts is None else {
        "power": facts.power_limit, "sm_clock": facts.sm_clock, "memory_used": facts.memory,
        "pcie_received": facts.pcie, "pcie_sent": facts.pcie,
    }  # fmt: skip
    shown = [pair for pair in DIALS if samples.gpus or pair[0].startswith("cpu")]
    return View(
        dials=tuple(_dial(name, label, row[name], full.get(name)) for name, label in shown),
        time=[t - now for t in samples.time[first:count]],
        lines={name: samples.series(name, gpu)[first:count] for name in LINES},
        power=_power(samples, gpu)[first:count],
        limit=facts.power_limit if facts else None,
        labels=LINES,
    )


def _power(samples: Samples, gpu: str | None) -> list[float | None]:
    """Power of the instant where the driver gives it, else nvidia-smi's, which looks back a second."""
    now = samples.series("power_now", gpu)
    return now if any(v is not None for v in now) else samples.series("power", gpu)


def _latest(values: list[Any]) -> Any:
    return next((v for v in reversed(values) if v is not None), None)


def _dial(name: str, label: str, value: float | None, full: float | None) -> Dial:
    q = ALL[name]
    if value is None:
        return Dial(name, label, None, "missing")
    share = value / 100 if q.unit == "%" else value / full if full else None
    text = q.text(value)
    if full and name in ("power", "memory_used"):
        text = f"{value * q.factor:,.0f} of {full * q.factor:,.0f} {q.unit}"
    return Dial(name, label, share, text)


def facts(samples: Samples, gpu: str | None = None, at: float | None = None) -> str:
    """One line: temperature and its limit, what holds the clock back, source."""
    count = len(samples) if at is None else sum(1 for t in samples.time if t <= at)
    here = next((f for f in samples.gpus if gpu in (None, f.label)), None)
    heat = _latest(samples.series("temperature", gpu)[:count])
    limit = f" (slows down at {here.slowdown:.0f} °C)" if here and here.slowdown else ""
    held = _latest(samples.series("limited_by", gpu)[:count])
    lost = samples.missing.get(here.label if here else "", {}).get("everything")
    parts = [
        f"no GPU: {samples.silent}" if samples.silent else "",
        lost or "",
        "" if heat is None else f"{heat:.0f} °C{limit}",
        f"clock held back by {held}" if held else "clock free" if held is not None else "",
        samples.origin,
    ]
    return " · ".join(part for part in parts if part)
