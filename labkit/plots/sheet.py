"""A panel's figure: what stays is drawn once and kept as pixels, what moves is drawn over it."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from labkit.plots import paper
from labkit.plots.axis import Quantity
from labkit.plots.banks import Banks
from labkit.plots.curve import Curve, keys
from labkit.plots.lanes import Lanes, Strip

if TYPE_CHECKING:
    from matplotlib.artist import Artist

    from labkit.emulator import Access
    from labkit.measurement import Measurement
    from labkit.roofline import Ceiling

WIDTH, CURVE, LANES = 640, 270, 150  # CSS pixels
STRIPS: dict[str, type[Strip]] = {"sectors": Lanes, "banks": Banks}  # what may stand under the curve
QUICK, SHARP = 1.0, 1.5  # device pixels to one, while something moves and when it rests


@dataclass(frozen=True)
class Scene:
    """All that one frame shows: the curve through the current point, the guess, the warp."""

    x: str
    values: tuple[Any, ...]  # of setting x, along the axis
    unit: Quantity
    track: Sequence[Measurement]  # those that differ from the current one in x only
    current: Measurement | None = None
    ceiling: Ceiling | None = None
    guess: float | None = None  # in the unit of the axis
    access: Access | None = None
    others: Mapping[str, Sequence[Measurement]] = field(default_factory=dict)
    top: float = 0.0  # the highest value the axis has to hold, over all settings
    sources: frozenset[str] = frozenset()

    @property
    def stays(self) -> tuple[object, ...]:
        """What the kept pixels depend on; a frame that differs in it is drawn anew."""
        ceiling = (self.ceiling.name, self.ceiling.value) if self.ceiling else None
        return (
            self.x,
            self.values,
            self.unit.label,
            ceiling,
            _above(self.top),
            self.sources,
            bool(self.others),
        )


def _above(top: float) -> float:
    """Round up to one and a half digits, so that a slightly higher value doesn't rescale the axis."""
    if not (math.isfinite(top) and top > 0):
        return 1.0
    step = 10.0 ** math.floor(math.log10(top)) / 4
    return float(math.ceil(top / step) * step)


class Sheet:
    """One figure that turns scenes into PNGs, in a fraction of the time of a whole drawing.

    strip: what stands under the curve, one of STRIPS; None for the curve alone.
    """

    def __init__(self, strip: str | None = "sectors", scale: float = SHARP) -> None:
        self._strip, self._scale = STRIPS[strip] if strip else None, scale
        self._stays: tuple[object, ...] | None = None
        self._settled: Hashable = None  # the key of the pixels in self._all

    def frame(self, scene: Scene, key: Hashable = None) -> bytes:
        """Return `scene` as a PNG.

        key: the same for scenes that differ in their guess alone, which are drawn faster; None where unknown.
        """
        if scene.stays != self._stays:
            self._draw(scene)
            self._stays, self._settled = scene.stays, None
        if key is None or key != self._settled:
            self._settle(scene)
            self._settled = key
        self.canvas.restore_region(self._all)
        self.curve.show_guess(scene.guess)
        self._put(self.curve.guessing)
        return paper.encode(np.asarray(self.canvas.buffer_rgba()))

    def _settle(self, scene: Scene) -> None:
        """Draw all but the guess, and keep it."""
        self.curve.show(scene.track, scene.x, scene.current, scene.guess, scene.others)
        self.canvas.restore_region(self._kept)
        self._put(self.curve.moving)
        if self.lanes is not None:
            self.lanes.show(scene.access)
            self._put(self.lanes.moving)
        self._all = self.canvas.copy_from_bbox(self.canvas.figure.bbox)

    def _put(self, artists: Iterable[Artist]) -> None:
        renderer = self.canvas.get_renderer()
        for artist in artists:
            artist.draw(renderer)

    def _draw(self, scene: Scene) -> None:
        low = LANES if self._strip else 0
        height = CURVE + low
        figure = paper.figure(WIDTH, height, self._scale)
        curve = figure.add_axes((0.105, (low + 46) / height, 0.875, (CURVE - 46 - 24) / height))
        self.curve = Curve(curve, scene.x, scene.values, scene.unit, animated=True)
        self.curve.frame(_above(scene.top), scene.ceiling, keys(scene.sources, bool(scene.others)))
        self.lanes = None
        if self._strip is not None:
            self.lanes = self._strip(figure.add_axes((0.02, 6 / height, 0.96, (LANES - 8) / height)), animated=True)
        self.canvas = cast(Any, figure.canvas)
        self.canvas.draw()
        self._kept = self.canvas.copy_from_bbox(figure.bbox)
