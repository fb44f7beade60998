"""Every drawing of the kit, made without pyplot, so that no setting of the reader's changes it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from labkit.plots.axis import quantity
from labkit.plots.curve import curve
from labkit.plots.lanes import lanes
from labkit.plots.paper import Drawing, figure, png
from labkit.plots.roofline import roofline
from labkit.plots.sheet import Scene, Sheet
from labkit.plots.warp import caption

if TYPE_CHECKING:
    from labkit.measurement import Measurement

__all__ = [
    "Drawing",
    "Scene",
    "Sheet",
    "caption",
    "curve",
    "figure",
    "lanes",
    "plot",
    "png",
    "quantity",
    "roofline",
    "under_roofline",
]


def plot(measurements: Sequence[Measurement], x: str, y: str = "bandwidth", by: str | None = None) -> Drawing:
    """Draw `measurements` against setting `x` on a sheet of its own; `y` and `by` as in `curve`."""
    sheet = figure(640, 300)
    axes = sheet.add_axes((0.105, 0.17, 0.875, 0.72))
    known = list({(m.ceiling.name, m.ceiling.value): m.ceiling for m in measurements}.values())
    shown = known[0] if len(known) == 1 and known[0].unit == quantity(y).label and known[0].value else None
    curve(axes, measurements, x, y, by, ceiling=shown)
    return Drawing(sheet, "\n".join(str(m) for m in measurements))


def under_roofline(measurements: Sequence[Measurement]) -> Drawing:
    """Draw `measurements` under the roofline of the device they are from."""
    sheet = figure(640, 340)
    roofline(sheet.add_axes((0.105, 0.15, 0.875, 0.75)), measurements[0].device, measurements)
    return Drawing(sheet, "\n".join(str(m) for m in measurements))
