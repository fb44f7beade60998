"""The host beside its GPUs: CPU by core, memory, disk reads, battery; through psutil."""

from __future__ import annotations

import importlib
import time
from typing import Any

LEAST = 0.04  # seconds; the kernel counts CPU time in hundredths
REST = 0.9  # seconds between two readings of memory, disk and battery


class Host:
    """Reads this machine. `missing` says what psutil cannot see here, and why."""

    def __init__(self) -> None:
        self.missing: dict[str, str] = {}
        self._before: dict[str, tuple[float, Any]] = {}
        try:
            self._psutil: Any = importlib.import_module("psutil")
        except ImportError:
            self._psutil = None
            self.missing["cpu"] = "psutil is not installed (pip install psutil)"
            return
        self._rest_due = 0.0
        self._battery = self._ask("sensors_battery") is not None

    def _ask(self, name: str, **more: Any) -> Any:
        """psutil's answer, or None where this system or user may not have it."""
        try:
            return getattr(self._psutil, name)(**more)
        except (self._psutil.Error, OSError, NotImplementedError, RuntimeError, AttributeError) as error:
            self.missing[name] = f"{type(error).__name__}: {error}"
            return None

    def read(self) -> dict[str, Any]:
        """One reading: series → value. Rates are since the last reading; cores are `cpu0`, `cpu1`, …"""
        if self._psutil is None:
            return {}
        row, now = self._cores(), time.monotonic()
        if now < self._rest_due:
            return row
        self._rest_due = now + REST
        memory, disk = self._ask("virtual_memory"), self._ask("disk_io_counters")
        if memory is not None:
            row["host_memory"] = float(memory.total - memory.available)
        if disk is not None:
            row.update(self._rate("disk_read", float(disk.read_bytes)))
        battery = self._ask("sensors_battery") if self._battery else None
        if battery is not None:
            row["battery"] = float(battery.percent)
            row["plugged"] = "mains" if battery.power_plugged else "battery"
        return row

    def _cores(self) -> dict[str, Any]:
        now, cores = time.monotonic(), self._ask("cpu_times", percpu=True)
        then, before = self._before.get("cores", (now, None))
        if not cores or (before is not None and now - then < LEAST):
            return {}
        self._before["cores"] = (now, cores)
        if before is None or len(before) != len(cores):
            return {}
        shares = [_busy(*pair) for pair in zip(before, cores, strict=True)]
        each = {f"cpu{core}": share for core, share in enumerate(shares)}
        return {"cpu": sum(shares) / len(shares), "cpu_busiest": max(shares), **each}

    def _rate(self, name: str, total: float) -> dict[str, float]:
        now = time.monotonic()
        then, before = self._before.get(name, (now, total))
        self._before[name] = (now, total)
        return {name: (total - before) / (now - then)} if now > then else {}

    def name(self, pid: int) -> str:
        """What a process is called, or its id where it may not be looked at."""
        if self._psutil is None:
            return f"process {pid}"
        try:
            return str(self._psutil.Process(pid).name())
        except self._psutil.Error:
            return f"process {pid}"


def _busy(before: Any, after: Any) -> float:
    """Percent of the time between two readings of a core's times in which it was not idle."""
    spent = {name: getattr(after, name) - getattr(before, name) for name in after._fields}
    total = sum(value for name, value in spent.items() if not name.startswith("guest"))  # guest is in user
    idle = spent["idle"] + spent.get("iowait", 0.0)
    return min(max(100.0 * (total - idle) / total, 0.0), 100.0) if total > 0 else 0.0
