"""Occupancy: how many blocks of a kernel fit on one SM at once, and which resource stops the next one."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .device import Device
from .errors import LabError

if TYPE_CHECKING:
    from .panel.fit import Fit
    from .plots import Drawing


@dataclass(frozen=True)
class Occupancy:
    """Resident blocks and warps per SM of a GPU, and what limits them.

    registers:  per thread. shared: bytes per block, static and dynamic. block: threads per block.
    blocks:     blocks resident on one SM. warps: warps resident on one SM.
    max_warps:  warps the SM could hold.
    limits:     blocks that each resource alone would allow, by its name.
    """

    device: Device
    registers: int
    shared: int
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

    def at(self, registers: int | None = None, shared: int | None = None, block: int | None = None) -> Occupancy | None:
        """The same kernel with something changed; None where not one block would fit."""
        wanted = (
            new if new is not None else old for new, old in zip((registers, shared, block), self._key, strict=True)
        )
        try:
            return occupancy(self.device, *wanted)
        except LabError:
            return None

    @property
    def _key(self) -> tuple[int, int, int]:
        return self.registers, self.shared, self.block

    def neighbours(self) -> str:
        """The nearest numbers of registers above and below that change the number of blocks, in words."""
        most = self.device.limits.registers_per_thread

        @functools.cache
        def blocks(registers: int) -> int:
            fit = self.at(registers=registers)
            return fit.blocks if fit else 0

        more = next((r for r in range(self.registers, most + 1) if blocks(r) < self.blocks), None)
        fewer = next((r for r in range(self.registers, 0, -1) if blocks(r) > self.blocks), None)
        up, down = "more registers would change nothing", "fewer would not help"
        if more is not None:
            up = f"{'one more' if more == self.registers + 1 else more} would leave {_counted(blocks(more))}"
        if fewer is not None:
            down = f"{'one fewer' if fewer == self.registers - 1 else fewer} would make it {blocks(fewer)}"
        return f"{up}; {down}"

    def plot(self) -> Drawing:
        """The SM's places for warps, what limits them, and the staircases over registers and block size."""
        from .plots.occupancy import draw

        return draw(self)

    def panel(self) -> Fit | None:
        """The same with sliders for registers, shared memory and block size. Not shown while recording."""
        from . import recording

        if recording.active is not None:
            return None
        from .panel.fit import Fit

        return Fit(self)

    def __str__(self) -> str:
        return (
            f"{_counted(self.blocks)} of {self.block} threads on an SM: {self.warps} of {self.max_warps} warps "
            f"({self.share:.0%}), limited by {' and '.join(self.limited_by)}. It has {self.registers} "
            f"registers a thread: {self.neighbours()}"
        )

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return f"<div class='labkit-occupancy'>{self}</div>"


def _counted(blocks: int) -> str:
    return "no block" if not blocks else "1 block" if blocks == 1 else f"{blocks} blocks"


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
    return Occupancy(device, registers, shared, block, blocks, blocks * warps, limit.warps, limits)
