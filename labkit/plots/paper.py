"""The sheet every drawing is made on: colours, plain axes, and a fast PNG."""

from __future__ import annotations

import functools
import io
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from numpy.typing import NDArray
from PIL import Image

# Okabe and Ito's set, safe for the colour-blind. The paper is opaque: it reads the same in a dark theme.
PAPER = "#fbfaf6"
INK = "#26272b"
GREY = "#8b8d93"
PALE = "#dcdcd6"
BLUE, SKY, ORANGE, VERMILLION, GREEN, PURPLE, YELLOW = (
    "#0072b2", "#56b4e9", "#e69f00", "#d55e00", "#009e73", "#cc79a7", "#f0e442",
)  # fmt: skip
SERIES = (BLUE, VERMILLION, GREEN, PURPLE, ORANGE, SKY, INK)
MARKERS = {"live": "o", "recorded": "s", "modelled": "D"}

CSS_DPI = 100  # one inch of figure is 100 CSS pixels, so that figure sizes read as pixels
TEXT = 10.0
SMALL = 9.0


def figure(width: int = 640, height: int = 300, scale: float = 2.0) -> Figure:
    """Return an empty figure of `width` × `height` CSS pixels, `scale` device pixels each, without pyplot."""
    made = Figure((width / CSS_DPI, height / CSS_DPI), dpi=CSS_DPI * scale, facecolor=PAPER)
    FigureCanvasAgg(made)
    return made


def plain(axes: Axes) -> None:
    """Give axes the kit's look, whatever style sheet the reader has chosen."""
    axes.set_facecolor(PAPER)
    axes.grid(True, color=PALE, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.tick_params(which="both", colors=INK, labelcolor=INK, labelsize=SMALL, length=3, top=False, right=False)
    for side, spine in axes.spines.items():
        spine.set_visible(side in ("left", "bottom"))
        spine.set_color(GREY)


def label(axes: Axes, x: str, y: str) -> None:
    """Name both axes, units included."""
    axes.set_xlabel(x, color=INK, fontsize=TEXT)
    axes.set_ylabel(y, color=INK, fontsize=TEXT)


def legend(axes: Axes, handles: list[Any]) -> None:
    """Put one row of keys above the axes, where no curve can run under it."""
    if not handles:
        return
    keys = axes.legend(
        handles=handles, loc="lower left", bbox_to_anchor=(0, 1.0), ncols=5, frameon=False, fontsize=SMALL,
        handlelength=1.6, columnspacing=1.2, borderaxespad=0.1, labelcolor=INK,
    )  # fmt: skip
    keys.set_in_layout(False)


@functools.cache
def _palette() -> Image.Image:
    """256 colours: each ink in 22 steps to the paper, which is all that antialiasing produces."""
    inks = (INK, GREY, PALE, BLUE, SKY, ORANGE, VERMILLION, GREEN, PURPLE, YELLOW, "#ffffff")
    paper = _rgb(PAPER)
    steps = np.linspace(0, 1, 23)[:, None]
    ramps = [(1 - steps) * paper + steps * _rgb(ink) for ink in inks]
    table = np.unique(np.concatenate(ramps).round().astype(np.uint8), axis=0)[:256]
    image = Image.new("P", (1, 1))
    image.putpalette(table.tobytes())
    return image


def _rgb(colour: str) -> NDArray[np.float64]:
    return np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)], dtype=np.float64)


def encode(pixels: NDArray[np.uint8]) -> bytes:
    """Return RGBA `pixels` (height, width, 4) as a palette PNG: a third of RGB's time and bytes."""
    rgb = Image.fromarray(pixels).convert("RGB")
    out = io.BytesIO()
    rgb.quantize(palette=_palette(), dither=Image.Dither.NONE).save(out, "PNG", compress_level=1)
    return out.getvalue()


def png(figure: Figure, scale: float = 2.0) -> bytes:
    """Draw `figure` and return it as a PNG of `scale` device pixels per CSS pixel."""
    figure.set_dpi(CSS_DPI * scale)
    canvas: Any = figure.canvas if isinstance(figure.canvas, FigureCanvasAgg) else FigureCanvasAgg(figure)
    canvas.draw()
    return encode(np.asarray(canvas.buffer_rgba()))


@dataclass(frozen=True)
class Drawing:
    """A figure that shows itself in a notebook without pyplot; `text` is what a terminal gets."""

    figure: Figure
    text: str = ""

    def _repr_mimebundle_(self, **_: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        width = round(self.figure.get_figwidth() * CSS_DPI)
        data = {"text/plain": self.text or repr(self.figure), "image/png": png(self.figure)}
        return data, {"image/png": {"width": width}}
