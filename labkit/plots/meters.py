"""Meters: what a GPU does now as bars, the last seconds as lines, and whole runs over time."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, cast

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from labkit.monitor.quantities import ALL
from labkit.plots import paper
from labkit.plots.words import Words

BACK = 10.0  # seconds that the lines look back
Series = Sequence[float | None]
WIDTH, ROW, SCALE = 640, 25, 1.5  # CSS pixels; device pixels to one
BARS, VALUES = (0.19, 0.375), 0.385  # from where to where of the width a bar goes; where its value stands
COLOURS = {
    "utilisation": paper.INK,
    "sm_active": paper.BLUE,
    "tensor": paper.GREEN,
    "dram": paper.VERMILLION,
}


class Samples(Protocol):
    """What a drawing over time needs; `labkit.monitor.samples.Samples` is one."""

    @property
    def time(self) -> tuple[float, ...]: ...
    @property
    def seconds(self) -> float: ...
    def series(self, name: str, gpu: str | None = None) -> list[float | None]: ...


@dataclass(frozen=True)
class Dial:
    """One bar: its name, its share of full scale (None where missing), and the value in words."""

    name: str
    label: str
    share: float | None
    text: str


@dataclass(frozen=True)
class View:
    """One frame: the dials; the last seconds of some percentages and of the power in watts.

    time: seconds, 0 is now. limit: of the power, in watts.
    """

    dials: tuple[Dial, ...]
    time: Sequence[float]
    lines: Mapping[str, Series]
    power: Series
    limit: float | None = None
    labels: Mapping[str, str] = field(default_factory=dict)


class Meters:
    """One figure that turns views into PNGs; what stays is drawn once and kept as pixels."""

    def __init__(self) -> None:
        self._stays: object = None

    def frame(self, view: View) -> bytes:
        """Return `view` as a PNG."""
        top = _top(view)
        stays = (tuple(d.label for d in view.dials), tuple(view.lines), view.limit, top)
        if stays != self._stays:
            self._draw(view, top)
            self._stays = stays
        self._move(view)
        self._canvas.restore_region(self._kept)
        renderer = self._canvas.get_renderer()
        for artist in self._moving:
            artist.draw(renderer)
        return paper.encode(np.asarray(self._canvas.buffer_rgba()))

    def _draw(self, view: View, top: float) -> None:
        height = max(ROW * len(view.dials) + 14, 240)
        figure = paper.figure(WIDTH, height, SCALE)
        self._bars(figure.add_axes((0, 0, 1, 1)), view.dials)
        shares = figure.add_axes((0.645, 0.585, 0.335, 0.33))
        power = figure.add_axes((0.645, 0.14, 0.335, 0.29))
        self._lines = {name: self._line(shares, COLOURS.get(name, paper.GREY)) for name in view.lines}
        self._power = self._line(power, paper.PURPLE)
        _strip(shares, "%", 104.0)
        _strip(power, "W", top)
        shares.set_xticklabels([])
        power.set_xlabel("seconds", color=paper.INK, fontsize=paper.SMALL)
        names = [
            Line2D([], [], color=COLOURS.get(n, paper.GREY), linewidth=3, label=view.labels.get(n, n))
            for n in view.lines
        ]
        _key(shares, names)
        _key(power, [Line2D([], [], color=paper.PURPLE, linewidth=3, label="power")])
        if view.limit:
            power.axhline(view.limit, color=paper.INK, linewidth=1.2, linestyle="--")
            power.text(-BACK, view.limit, " limit", fontsize=paper.SMALL, color=paper.INK, va="bottom")
        self._moving = [self._filled, *self._words, *self._lines.values(), self._power]
        self._canvas = cast(Any, figure.canvas)
        self._canvas.draw()
        self._kept = self._canvas.copy_from_bbox(figure.bbox)

    def _bars(self, axes: Axes, dials: Sequence[Dial]) -> None:
        axes.axis("off")
        axes.set_xlim(0, 1)
        axes.set_ylim(0, 1)
        self._places = [1 - (i + 0.5) / len(dials) for i in range(len(dials))]
        for at, dial in zip(self._places, dials, strict=True):
            axes.text(BARS[0] - 0.012, at, dial.label, fontsize=paper.TEXT, color=paper.INK, ha="right",
                      va="center")  # fmt: skip
        tracks = [[(BARS[0], at), (BARS[1], at)] for at in self._places]
        axes.add_collection(LineCollection(tracks, colors=paper.PALE, linewidths=9, capstyle="butt"))
        colours = [COLOURS.get(dial.name, paper.SKY) for dial in dials]
        self._filled = LineCollection([], colors=colours, linewidths=9, capstyle="butt", animated=True)
        axes.add_collection(self._filled, autolim=False)
        self._words = [Words(axes, axes.transData, paper.TEXT, paper.INK) for _ in dials]
        for words in self._words:
            words.set_animated(True)

    def _line(self, axes: Axes, colour: str) -> Line2D:
        line = Line2D([], [], color=colour, linewidth=1.7, animated=True)
        axes.add_line(line)
        return line

    def _move(self, view: View) -> None:
        width = BARS[1] - BARS[0]
        ends = [BARS[0] + width * min(max(d.share or 0.0, 0.0), 1.0) for d in view.dials]
        self._filled.set_segments([[(BARS[0], at), (end, at)] for at, end in zip(self._places, ends, strict=True)])
        for words, at, dial in zip(self._words, self._places, view.dials, strict=True):
            words.say(dial.text, VALUES, at - 0.012)
        for name, line in self._lines.items():
            line.set_data(*_there(view.time, view.lines[name]))
        self._power.set_data(*_there(view.time, view.power))


def _top(view: View) -> float:
    most = max((v for v in view.power if v is not None), default=0.0)
    top = max(1.12 * (view.limit or 0.0), 1.1 * most, 10.0)
    return math.ceil(top / 50) * 50.0


def _there(time: Sequence[float], values: Series) -> tuple[list[float], list[float]]:
    pairs = [(t, v) for t, v in zip(time, values, strict=True) if v is not None]
    return [t for t, _ in pairs], [v for _, v in pairs]


def _strip(axes: Axes, unit: str, top: float) -> None:
    paper.plain(axes)
    axes.set_xlim(-BACK, 0)
    axes.set_ylim(0, top)
    axes.yaxis.set_major_formatter("{x:,.0f} " + unit)


def _key(axes: Axes, handles: list[Line2D]) -> None:
    made = axes.legend(
        handles=handles, loc="lower left", bbox_to_anchor=(-0.17, 0.99), ncols=4, frameon=False,
        fontsize=paper.SMALL, handlelength=0.8, columnspacing=0.7, handletextpad=0.3, borderaxespad=0.1,
        labelcolor=paper.INK,
    )  # fmt: skip
    made.set_in_layout(False)


def over_time(samples: Samples, names: Sequence[str] = (), text: str = "") -> paper.Drawing:
    """Draw series of `samples` over time, one row of axes a unit.

    names: see labkit.monitor.quantities; the shares, the power and the SM clock if left out. A grey
    ground marks where the clock was held back.
    """
    chosen = [n for n in names or (*COLOURS, "power", "power_now", "sm_clock") if _has(samples, n)]
    units = list(dict.fromkeys(ALL[name].unit for name in chosen)) or ["%"]
    figure = paper.figure(WIDTH, 130 * len(units) + 50)
    height = 130 * len(units) + 50
    for row, unit in enumerate(units):
        bottom = (46 + 130 * (len(units) - 1 - row)) / height
        axes = figure.add_axes((0.105, bottom, 0.875, 96 / height))
        _panel(axes, samples, [n for n in chosen if ALL[n].unit == unit], unit)
        if row < len(units) - 1:
            axes.set_xticklabels([])
        else:
            axes.set_xlabel("seconds", color=paper.INK, fontsize=paper.TEXT)
    return paper.Drawing(figure, text)


def _has(samples: Samples, name: str) -> bool:
    return any(value is not None for value in samples.series(name))


def _panel(axes: Axes, samples: Samples, names: Sequence[str], unit: str) -> None:
    paper.plain(axes)
    rest = iter((paper.PURPLE, paper.ORANGE, paper.SKY, paper.GREY) * 4)
    handles = []
    for name in names:
        colour = COLOURS.get(name) or next(rest)
        time, values = _there(samples.time, samples.series(name))
        scaled = [v * ALL[name].factor for v in values]
        handles += axes.plot(time, scaled, color=colour, linewidth=1.7, label=ALL[name].label)
    axes.set_xlim(0, max(samples.seconds, 0.1))
    axes.set_ylim(0, 104 if unit == "%" else 1.1 * axes.get_ylim()[1])
    axes.yaxis.set_major_formatter("{x:,.0f}")
    axes.set_ylabel(unit, color=paper.INK, fontsize=paper.TEXT)
    paper.legend(axes, handles + _held_back(axes, samples))


def _held_back(axes: Axes, samples: Samples) -> list[Any]:
    """Shade where the clock was held back; the legend's key for it, if it was."""
    reasons = samples.series("limited_by")
    spans = [(a, b) for a, b, held in zip(samples.time, samples.time[1:], reasons, strict=False) if held]
    for a, b in spans:
        axes.axvspan(a, b, color=paper.PALE, alpha=0.5, linewidth=0)
    return [Patch(facecolor=paper.PALE, label="clock held back")] if spans else []
