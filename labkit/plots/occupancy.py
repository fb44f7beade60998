"""An SM's places for warps, what limits them, and how occupancy steps with registers and block size."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import PathPatch

from labkit.plots import paper
from labkit.plots.lanes import compound, square
from labkit.plots.words import Words

if TYPE_CHECKING:
    from matplotlib.artist import Artist

    from labkit.occupancy import Occupancy

WIDTH, HEIGHT = 640, 330  # CSS pixels
ROWS, GAP = 2, 0.12  # rows of places for warps; the space between two, in places
BLOCKS = tuple(range(32, 1025, 32))


class Places:
    """The drawing; `show` moves it to another kernel of the same GPU, the rest stays."""

    def __init__(self, figure: Figure, shown: Occupancy, animated: bool = False) -> None:
        self.figure, self.animated = figure, animated
        self.moving: list[Artist] = []
        self.kept: dict[tuple[str, tuple[int, int]], list[float]] = {}
        self._sm(figure.add_axes((0.02, 0.56, 0.52, 0.42)), shown)
        self._bars(figure.add_axes((0.72, 0.61, 0.25, 0.3)), shown)
        most = shown.device.limits.registers_per_thread
        self.by_registers = self._stairs(
            figure.add_axes((0.085, 0.15, 0.395, 0.33)), "registers per thread", "occupancy, %", most
        )
        self.by_block = self._stairs(figure.add_axes((0.57, 0.15, 0.395, 0.33)), "threads per block", "", BLOCKS[-1])
        self.show(shown)

    def _kept(self, artist: Any) -> Any:
        artist.set_animated(self.animated)
        self.moving.append(artist)
        return artist

    def _sm(self, axes: Axes, shown: Occupancy) -> None:
        self.columns = shown.max_warps // ROWS
        axes.set_xlim(-0.3, self.columns + 0.3)
        axes.set_ylim(-3.4, ROWS + 2.2)
        axes.set_axis_off()
        every = compound([self._place(i) for i in range(shown.max_warps)])
        axes.add_patch(PathPatch(every, facecolor=paper.PAPER, edgecolor=paper.GREY, linewidth=0.5))
        colours = (paper.BLUE, paper.SKY)
        self.filled = [self._kept(axes.add_patch(PathPatch(compound([]), color=c, linewidth=0))) for c in colours]
        self.says = [self._kept(Words(axes, axes.transData, paper.TEXT, paper.INK)) for _ in range(4)]

    def _place(self, index: int) -> list[tuple[float, float]]:
        row, column = divmod(index, self.columns)
        bottom = ROWS - 1 - row
        return square(column + GAP / 2, column + 1 - GAP / 2, bottom + GAP / 2, bottom + 1 - GAP / 2)

    def _bars(self, axes: Axes, shown: Occupancy) -> None:
        paper.plain(axes)
        axes.set_xlim(0, shown.device.limits.blocks)
        axes.set_ylim(len(shown.limits) - 0.5, -0.5)
        axes.set_yticks(range(len(shown.limits)), list(shown.limits))
        axes.set_title("blocks that each allows", fontsize=paper.TEXT, color=paper.INK, loc="left", pad=3)
        self.bars = self._kept(axes.add_collection(LineCollection([], linewidths=9), autolim=False))

    def _stairs(self, axes: Axes, x: str, y: str, most: int) -> tuple[Line2D, Line2D, Words]:
        paper.plain(axes)
        paper.label(axes, x, y)
        axes.set_xlim(0, most + 1)
        axes.set_ylim(0, 112)
        axes.set_xticks([tick for tick in (0, 32, 64, 128, 192, 256, 512, 768, 1024) if tick <= most + 1 and
                         (most < 512 or tick % 256 == 0)])  # fmt: skip
        axes.set_yticks([0, 25, 50, 75, 100])
        line = Line2D([], [], color=paper.BLUE, linewidth=1.8, drawstyle="steps-pre")
        here = Line2D([], [], color=paper.VERMILLION, marker="o", markersize=9, linestyle="none")
        for artist in (line, here):
            self._kept(axes.add_line(artist))
        return line, here, self._kept(Words(axes, axes.transData, paper.TEXT, paper.INK))

    def show(self, fit: Occupancy) -> None:
        """Draw `fit`."""
        size = fit.warps // fit.blocks
        for colour, path in enumerate(self.filled):
            mine = [self._place(i) for i in range(fit.warps) if i // size % 2 == colour]
            path.set_path(compound(mine))
        up, _, down = fit.neighbours().partition("; ")
        lines = (
            f"one SM: {fit.warps} of {fit.max_warps} warps, {fit.blocks} × {fit.block} threads",
            f"limited by {' and '.join(fit.limited_by)}",
            f"{fit.registers} registers: {up}",
            down,
        )
        for words, text, height in zip(self.says, lines, (ROWS + 0.6, -1.0, -2.0, -3.0), strict=True):
            words.say(text, 0, height)
        self._show_bars(fit)
        registers = range(1, fit.device.limits.registers_per_thread + 1)
        by_registers = self._shares(fit, "registers", registers, (fit.shared, fit.block))
        by_block = self._shares(fit, "block", BLOCKS, (fit.shared, fit.registers))
        self._show_stairs(self.by_registers, registers, by_registers, fit.registers, fit)
        self._show_stairs(self.by_block, BLOCKS, by_block, fit.block, fit)

    def _shares(self, fit: Occupancy, name: str, values: Sequence[int], others: tuple[int, int]) -> list[float]:
        """The occupancy in % at each value of one need, the `others` being what they are; kept for each of them."""
        key = name, others
        if key not in self.kept:
            fits = (fit.at(**{name: value}) for value in values)
            self.kept[key] = [100 * each.share if each else 0 for each in fits]
        return self.kept[key]

    def _show_bars(self, fit: Occupancy) -> None:
        self.bars.set_segments([[(0, i), (blocks, i)] for i, blocks in enumerate(fit.limits.values())])
        colours = [paper.VERMILLION if name in fit.limited_by else paper.SKY for name in fit.limits]
        self.bars.set_colors(colours)

    def _show_stairs(
        self, drawn: tuple[Line2D, Line2D, Words], xs: Any, shares: list[float], x: int, fit: Occupancy
    ) -> None:
        line, here, words = drawn
        line.set_data(list(xs), shares)
        here.set_data([x], [100 * fit.share])
        right = x > 0.6 * max(xs)
        words.say(str(x), x + (-1 if right else 1) * 0.03 * max(xs), 100 * fit.share + 4, "right" if right else "left")


class Frames:
    """Places that turn into PNGs quickly: what stays is kept as pixels."""

    def __init__(self, shown: Occupancy, scale: float) -> None:
        figure = paper.figure(WIDTH, HEIGHT, scale)
        self.places = Places(figure, shown, animated=True)
        self.canvas = cast(Any, figure.canvas)
        self.canvas.draw()
        self._kept = self.canvas.copy_from_bbox(figure.bbox)

    def frame(self, fit: Occupancy) -> bytes:
        """Return the drawing of `fit` as a PNG."""
        self.places.show(fit)
        self.canvas.restore_region(self._kept)
        renderer = self.canvas.get_renderer()
        for artist in self.places.moving:
            artist.draw(renderer)
        return paper.encode(np.asarray(self.canvas.buffer_rgba()))


def draw(fit: Occupancy) -> paper.Drawing:
    """Draw `fit` on a sheet of its own."""
    figure = paper.figure(WIDTH, HEIGHT)
    Places(figure, fit)
    return paper.Drawing(figure, str(fit))
