"""Occupancy: how many blocks of a kernel fit on one SM at once, and which resource stops the next one."""

from __future__ import annotations

from dataclasses import dataclass

from .device import Device
from .errors import LabError


@dataclass(frozen=True)
class Occupancy:
    """Resident blocks and warps per SM, and what limits them.

    blocks:     blocks resident on one SM.
    warps:      warps resident on one SM.
    max_warps:  warps the SM could hold.
    limits:     blocks that each resource alone would allow, by its name.
    """

    block: int
    blocks: int
    warps: int
    max_warps: int
    limits: dict[str, int]

    @property
    def share(self) -> float:
        """Resident warps ÷ the most the SM holds, 0 to 1."""
        return self.warps / self.max_warps

    @property
    def limited_by(self) -> tuple[str, ...]:
        """The resources that allow no block more."""
        return tuple(name for name, blocks in self.limits.items() if blocks == self.blocks)

    def __str__(self) -> str:
        return (
            f"{self.blocks} blocks of {self.block} threads on an SM: {self.warps} of {self.max_warps} warps "
            f"({self.share:.0%}), limited by {' and '.join(self.limited_by)}"
        )

    def _repr_html_(self) -> str:
        return f"<div>{self}</div>"


def _up(value: int, unit: int) -> int:
    return -(-value // unit) * unit


def occupancy(device: Device, registers: int, shared: int, block: int) -> Occupancy:
    """Blocks resident per SM for a kernel of `registers` per thread, `shared` bytes and `block` threads.

    Registers are handed out per warp in units, from the four quarters of an SM, whose warps they are; a block
    of which the hardware is not sure that its warps spread evenly is refused. Shared memory is handed out in
    units, with 1 KiB kept back per block (compute capability 8.0 and newer). All as in NVIDIA's occupancy
    calculator (cuda_occupancy.h). Raises LabError if not even one block fits.
    """
    limit = device.limits
    warps = -(-block // 32)
    per_warp = _up(max(registers, 1) * 32, limit.register_unit)
    warps_by_registers = limit.registers // limit.warp_unit // per_warp * limit.warp_unit
    launchable = per_warp * _up(warps, limit.warp_unit) <= limit.registers
    per_block = _up(shared + limit.shared_reserved, limit.shared_unit)
    limits = {
        "warps": limit.warps // warps,
        "blocks": limit.blocks,
        "registers": warps_by_registers // warps if launchable else 0,
        "shared memory": limit.shared // per_block if per_block else limit.blocks,
    }
    blocks = min(limits.values())
    if blocks == 0:
        none = " and ".join(name for name, fit in limits.items() if fit == 0)
        raise LabError(
            f"a block of {block} threads with {registers} registers each and {shared:,} B of shared memory",
            f"not one fits on an SM of {device.name}: {none} (has {limit.registers:,} registers, "
            f"{limit.shared_per_block:,} B of shared memory for a block)",
            "a smaller block or tile",
        )
    return Occupancy(block, blocks, blocks * warps, limit.warps, limits)
