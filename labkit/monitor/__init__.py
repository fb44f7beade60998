"""Monitor: what the GPUs and the host do, sampled in the background; workloads to watch it with."""

from __future__ import annotations

from labkit.monitor.observation import Observation
from labkit.monitor.sampler import Monitor
from labkit.monitor.samples import Samples
from labkit.monitor.table import beside
from labkit.monitor.workload import Workload, panel, workload

__all__ = ["Monitor", "Observation", "Samples", "Workload", "beside", "panel", "workload"]
