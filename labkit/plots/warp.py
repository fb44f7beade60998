"""Where a warp's lanes and the memory they touch stand in a drawing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from labkit.emulator import Access

SECTOR, LINE = 32, 128  # bytes
WIDTH = 32.0  # the drawing is as wide as 32 lanes
WIDEST_LINE, BREAK = 16.0, 0.35  # a 128-byte line never wider; a gap in addresses, in lines

Box = list[tuple[float, float]]


@dataclass(frozen=True)
class Layout:
    """Where each 128-byte line touched stands: its index -> left edge; all are `width` wide."""

    lines: dict[int, float]
    width: float
    breaks: tuple[float, ...]
    used: dict[int, int]  # sector -> bytes of it that some lane asked for

    def place(self, address: int, ahead: float = 0.0) -> float:
        """Return the horizontal place of the byte `ahead` of an address."""
        line = address // LINE
        return self.lines[line] + (address - line * LINE + ahead) / LINE * self.width

    def sectors(self) -> Iterator[tuple[int, float, float]]:
        """Yield every sector of the lines shown, touched or not: its number, left and right edge."""
        quarter = self.width * SECTOR / LINE
        for line, left in self.lines.items():
            for k in range(LINE // SECTOR):
                yield line * (LINE // SECTOR) + k, left + k * quarter, left + (k + 1) * quarter


def layout(access: Access) -> Layout:
    """Arrange the lines that `access` touches in order of address, with a break where some are left out."""
    asked: set[int] = set()
    for address in access.addresses:
        if address is not None:
            asked.update(range(address, address + access.bytes_per_lane))
    used: dict[int, int] = {}
    for byte in sorted(asked):
        used[byte // SECTOR] = used.get(byte // SECTOR, 0) + 1
    touched = sorted({sector * SECTOR // LINE for sector in used})
    gaps = [after - before > 1 for before, after in pairwise(touched)]
    span = max(len(touched) + BREAK * sum(gaps), 1)
    width = min(WIDEST_LINE, WIDTH / span)
    left = (WIDTH - width * span) / 2
    lines, breaks = {}, []
    for line, gap in zip(touched, [*gaps, False], strict=False):
        lines[line] = left
        left += width
        if gap:
            breaks.append(left + BREAK * width / 2)
            left += BREAK * width
    return Layout(lines, width, tuple(breaks), used)


def caption(access: Access) -> str:
    """Say in one line what the drawing shows: lanes, sectors, bytes moved and used."""
    used = layout(access).used
    active = sum(address is not None for address in access.addresses)
    plural = "" if len(used) == 1 else "s"
    moved = len(used) * SECTOR
    return f"{active} lanes touch {len(used)} sector{plural}: {moved} B moved for {sum(used.values())} B used"
