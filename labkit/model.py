"""Model: a launch's time predicted from its counts and a Device, for machines without that GPU.

A roofline with one roof per resource (Williams et al. 2009), and beside it the time that warps wait for
memory when too few of them are resident to hide it (Little's law). The constants below were fitted to the
recordings of an H200; `benchmarks/model.py` prints the error that is left. Other GPUs are predicted with the
same cycles and their own clocks, SM counts and measured or datasheet bandwidth.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from .device import Device, known, slugs
from .emulator import Counts, Resources
from .kernel import Dim, Kernel, Launch
from .occupancy import Occupancy, occupancy
from .timing.results import readable

# A slider's launch has to be counted within a few frames: about 20 ms at the emulator's speed.
SAMPLE_BUDGET = 2_500_000

SECTOR = 32
START_SECONDS = 1.5e-6  # from the launch to the first result, beyond the empty kernel that the timer subtracts
WARP_CYCLES = 100  # a warp's start and end
MEMORY_CYCLES = 1065  # one load that misses L1, on a busy GPU
L1_CYCLES = 40
BLOCK_CYCLES = 157  # from one block's start to the next on an SM: short blocks cannot come faster
L2_BYTES_PER_CYCLE = 17.6  # per SM; a sector written in part is read, changed and written back
L1_SECTORS_PER_CYCLE = 4  # per SM
L2_KEEPS = 0.5  # of its size: the rest holds what streams through


@dataclass(frozen=True)
class Prediction:
    """Predicted seconds of one launch, and what each part of the GPU would take alone."""

    seconds: float
    parts: dict[str, float]

    @property
    def limit(self) -> str:
        """The part that takes longest."""
        return max(self.parts, key=lambda name: self.parts[name])


def predict(launch: Launch, device: Device, arithmetic: str = "fp32") -> Prediction:
    """Seconds of `launch` on `device`: waiting and the busiest part, which overlap only in part.

    arithmetic: the rate that its floating-point operations run at: "fp32", "tf32" or "bf16".
    """
    counts = launch.counts
    sms = _even_sms(counts.blocks, device)
    parts = _busy(counts, device, sms, device.rate(arithmetic))
    waiting = _waiting(launch, device, sms)
    starting = counts.blocks * BLOCK_CYCLES / (sms * device.clock_hz)
    seconds = max(starting, math.hypot(waiting, max(parts.values()))) + START_SECONDS
    return Prediction(seconds, {**parts, "waiting for memory": waiting, "starting blocks": starting})


def _even_sms(blocks: int, device: Device) -> float:
    """How many SMs would take as long if they shared the blocks evenly: the fullest SM is the last to end."""
    blocks = max(blocks, 1)
    return blocks / -(-blocks // device.sms)


def _busy(counts: Counts, device: Device, sms: float, rate: float) -> dict[str, float]:
    """Seconds that each part is busy, were it alone."""
    cycles = device.clock_hz * sms
    in_part = 1 - counts.global_store_bytes / max(SECTOR * counts.global_store_sectors, 1)
    l2 = counts.block_load_sectors + counts.global_store_sectors * (1 + max(in_part, 0.0))
    shared = counts.shared_load_requests + counts.shared_store_requests
    shared += counts.shared_load_conflicts + counts.shared_store_conflicts
    return {
        "DRAM": _dram_bytes(counts, device) / device.copy_bandwidth,
        "L2": l2 * SECTOR / (L2_BYTES_PER_CYCLE * cycles),
        "L1": counts.global_load_sectors / (L1_SECTORS_PER_CYCLE * cycles),
        "shared memory": shared / cycles,
        "issue": counts.warp_instructions / (4 * cycles),
        "arithmetic": counts.flops / max(rate * sms / device.sms, 1.0),
    }


def _dram_bytes(counts: Counts, device: Device) -> float:
    """What DRAM moves: each array once, and again what L2 could not keep until it was asked for again."""
    moved = counts.unique_load_bytes + counts.unique_store_bytes
    once = min(moved, counts.array_bytes)
    kept = min(1.0, L2_KEEPS * device.l2_bytes / max(counts.array_bytes, 1))
    return once + (moved - once) * (1 - kept)


def _waiting(launch: Launch, device: Device, sms: float) -> float:
    """Seconds of a warp's life ÷ resident warps, for all warps of an SM one after the other."""
    counts, own = launch.counts, launch.kernel.resources_for(device)
    x, y, z = launch.block
    fit = occupancy(device, own.registers, own.shared_bytes + launch.shared, x * y * z)
    warps = counts.blocks * -(-(x * y * z) // 32)
    missing = counts.block_load_sectors / max(counts.global_load_sectors, 1)
    latency = missing * MEMORY_CYCLES + (1 - missing) * L1_CYCLES
    life = WARP_CYCLES + counts.load_waits / max(warps, 1) * latency
    per_sm = warps / sms
    return life * per_sm / min(fit.warps, max(per_sm, 1.0)) / device.clock_hz


@dataclass(frozen=True)
class Forecast:
    """One launch on several GPUs: for each the registers, the occupancy and the predicted time."""

    rows: tuple[tuple[Device, Resources, Occupancy, Prediction], ...]

    def __iter__(self) -> Iterator[tuple[Device, Resources, Occupancy, Prediction]]:
        return iter(self.rows)

    def __str__(self) -> str:
        return "\n".join(
            f"{gpu.name:32} {own.registers:3} registers  {fit.share:4.0%} occupancy  "
            f"{readable(told.seconds):>9} modelled, limit {told.limit} ({gpu.source})"
            for gpu, own, fit, told in self.rows
        )

    __repr__ = __str__

    def _repr_html_(self) -> str:
        head = "".join(
            f"<th>{name}</th>" for name in ("GPU", "registers", "occupancy", "modelled time", "limit", "from")
        )
        rows = "".join(
            f"<tr><td>{gpu.name}</td><td>{own.registers}</td><td>{fit.share:.0%}</td>"
            f"<td>{readable(told.seconds)}</td><td>{told.limit}</td><td>{gpu.source}</td></tr>"
            for gpu, own, fit, told in self.rows
        )
        return f"<table><tr>{head}</tr>{rows}</table>"


def forecast(
    kernel: Kernel, grid: Dim, block: Dim, args: Sequence[Any], shared: int = 0, gpus: Sequence[str] | None = None
) -> Forecast:
    """One launch predicted for several GPUs, each compiled for its own architecture.

    gpus: slugs, by default every known one. Arguments as in a call of the kernel; the arrays are left as they
    are. Raises LabError for an unknown GPU, or one on which not a single block fits.
    """
    blocks, threads = kernel.shape(grid, block, shared)
    rows = []
    for gpu in (known(slug) for slug in gpus or slugs()):
        own = kernel.resources_for(gpu)
        counts = kernel.count(grid, block, args, shared, SAMPLE_BUDGET, gpu)
        fit = occupancy(gpu, own.registers, own.shared_bytes + shared, threads[0] * threads[1] * threads[2])
        rows.append((gpu, own, fit, predict(Launch(kernel, blocks, threads, shared, counts), gpu)))
    return Forecast(tuple(rows))
