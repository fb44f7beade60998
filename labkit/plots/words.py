"""Text that moves: a word is drawn once and then pasted, for glyphs cost more than all lines of a figure."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import RendererAgg
from matplotlib.colors import to_rgb
from matplotlib.font_manager import FontProperties
from matplotlib.transforms import Transform
from numpy.typing import NDArray

from labkit.plots.paper import PAPER

Renderer: Any = RendererAgg  # matplotlib leaves it untyped
PAPER_ALPHA = 0.7
ALIGN = {"left": 0.0, "center": 0.5, "right": 1.0}


@functools.lru_cache(maxsize=2048)
def _word(word: str, points: float, dpi: float, colour: str) -> tuple[NDArray[np.uint8], int]:
    """Return a word's RGBA pixels, top row first, and how many rows are below the baseline."""
    font = FontProperties(size=points)
    measure = Renderer(1, 1, dpi)
    width, height, descent = measure.get_text_width_height_descent(word, font, False)
    below = round(descent) + 2
    renderer = Renderer(round(width) + 2, round(height) + 4, dpi)
    gc = renderer.new_gc()
    gc.set_foreground(to_rgb(colour))
    renderer.draw_text(gc, 0, renderer.height - below, word, font, 0)
    return _on_paper(np.asarray(renderer.buffer_rgba())), below


def _on_paper(glyphs: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return the glyphs on paper that lets a little through, so that they can be read on bars and lines."""
    ink = glyphs[..., 3:] / 255
    colour = ink * glyphs[..., :3] + (1 - ink) * 255 * np.array(to_rgb(PAPER))
    return np.concatenate([colour, 255 * (ink + (1 - ink) * PAPER_ALPHA)], axis=-1).round().astype(np.uint8)


class Words(Artist):
    """One line of text at (x, y) of `transform`, its baseline there; `align` as in matplotlib's `ha`."""

    def __init__(self, axes: Axes, transform: Transform, points: float, colour: str, align: str = "left") -> None:
        super().__init__()
        self.points, self.colour, self.align = points, colour, align
        self.text, self.position = "", (0.0, 0.0)
        self.set_transform(transform)
        self.set_zorder(6)
        axes.add_artist(self)
        self.set_clip_on(False)

    def say(self, text: str, x: float, y: float, align: str | None = None) -> None:
        """Set the text and its place."""
        self.text, self.position, self.align = text, (x, y), align or self.align

    def draw(self, renderer: Any) -> None:
        """Paste the words, a space apart."""
        if not self.text or not self.get_visible():
            return
        dpi = renderer.dpi
        space = round(0.32 * self.points * dpi / 72)
        words = [_word(word, self.points, dpi, self.colour) for word in self.text.split()]
        total = sum(pixels.shape[1] for pixels, _ in words) + space * (len(words) - 1)
        x, y = self.get_transform().transform(self.position)
        x -= ALIGN[self.align] * total
        gc = renderer.new_gc()
        for pixels, below in words:
            renderer.draw_image(gc, round(x), round(y) - below, pixels[::-1])
            x += pixels.shape[1] + space
        gc.restore()
