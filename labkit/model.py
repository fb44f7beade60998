"""Model: a launch's time predicted from its counts and a Device, for machines without that GPU."""

from __future__ import annotations

from dataclasses import dataclass

from .device import Device
from .kernel import Launch
from .occupancy import occupancy

# Measured on an H200, see the recordings: an empty kernel from start to end on the GPU.
LAUNCH_SECONDS = 2e-6
SECTOR = 32


@dataclass(frozen=True)
class Prediction:
    """Predicted seconds of one launch, and what each part of the GPU would take alone."""

    seconds: float
    parts: dict[str, float]

    @property
    def limit(self) -> str:
        """The part that takes longest."""
        return max(self.parts, key=lambda name: self.parts[name])


def predict(launch: Launch, device: Device) -> Prediction:
    """Seconds of `launch` on `device`: the slowest part's time, plus the cost of a launch.

    Parts: DRAM traffic at the copy ceiling, L2 sectors, shared-memory wavefronts and issued instructions
    per SM and clock, FP32 arithmetic. A roofline with one roof per resource (Williams et al. 2009).
    """
    counts = launch.counts
    x, y, z = launch.block
    own = launch.kernel.resources_for(device)
    fit = occupancy(device, own.registers, own.shared_bytes + launch.shared, x * y * z)
    sms = min(device.sms, max(counts.blocks, 1))
    cycles = device.clock_hz * sms
    dram = counts.unique_load_bytes + counts.unique_store_bytes
    sectors = counts.global_load_sectors + counts.global_store_sectors
    shared = counts.shared_load_requests + counts.shared_store_requests
    conflicts = counts.shared_load_conflicts + counts.shared_store_conflicts
    parts = {
        "DRAM": dram / device.copy_bandwidth,
        "L2": sectors * SECTOR / (64 * cycles),
        "shared memory": (shared + conflicts) / cycles,
        "issue": counts.warp_instructions / (4 * cycles),
        "FP32": counts.flops / max(device.fp32_flops * sms / device.sms, 1.0),
    }
    hidden = min(1.0, fit.warps / 16)  # below about 16 resident warps latency is no longer hidden
    return Prediction(max(parts.values()) / hidden + LAUNCH_SECONDS, parts)
