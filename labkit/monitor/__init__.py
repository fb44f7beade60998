"""Monitor: what the GPUs and the host do, sampled in the background; workloads to watch it with."""

from __future__ import annotations

from labkit.monitor.sampler import Monitor
from labkit.monitor.samples import Samples

__all__ = ["Monitor", "Samples"]
