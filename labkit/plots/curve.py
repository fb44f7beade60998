"""Speed against one setting: the curve, where the reader stands on it, the ceiling and the guess."""

from __future__ import annotations

import itertools
import math
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.lines import Line2D

from labkit.plots import paper
from labkit.plots.axis import Quantity, is_number, level, quantity, scale, short
from labkit.plots.words import Words

if TYPE_CHECKING:
    from matplotlib.artist import Artist

    from labkit.measurement import Measurement
    from labkit.roofline import Ceiling

Point = tuple[float, float]


ABREAST = 8  # names that stand beside each other; more are written aslant
BARS = 180  # points of bar to be shared by all names along the axis


class Curve:
    """The drawing on given axes; `show` moves what moves, the rest stays."""

    def __init__(self, axes: Axes, x: str, values: Sequence[Any], unit: Quantity, animated: bool = False) -> None:
        self.axes, self.scale, self.unit = axes, scale(values), unit
        self.roof: float | None = None
        paper.plain(axes)
        paper.label(axes, x.replace("_", " ") + self.scale.note, unit.label)
        self._ticks(list(values))
        axes.set_xlim(*self.scale.limits)
        axes.yaxis.set_major_formatter("{x:,.12g}")
        paint: dict[str, Any] = {"color": paper.BLUE, "animated": animated}
        self.faint = LineCollection([], colors=paper.GREY, linewidths=1.0, alpha=0.7, animated=animated)
        self.bars = LineCollection(
            [], colors=paper.SKY, linewidths=min(BARS / len(self.scale.places), 40), animated=animated
        )
        self.line = Line2D([], [], linewidth=1.8, **paint)
        self.points = {source: Line2D([], [], **point(source), **paint) for source in paper.MARKERS}
        self.here = Line2D([], [], **point("live", size=11), color=paper.VERMILLION, animated=animated)
        self.guess = Line2D([], [], linestyle=":", linewidth=2.2, color=paper.PURPLE, animated=animated)
        self.says = Words(axes, axes.transData, paper.TEXT, paper.INK)
        self.guessed = Words(axes, axes.get_yaxis_transform(), paper.SMALL, paper.INK, "right")
        for words in (self.says, self.guessed):
            words.set_animated(animated)
        for collection in (self.faint, self.bars):
            axes.add_collection(collection, autolim=False)
        for line in (self.line, *self.points.values(), self.here, self.guess):
            axes.add_line(line)
        self.moving: tuple[Artist, ...] = (
            self.faint, self.bars, self.line, *self.points.values(), self.guess, self.here,
            self.guessed, self.says,
        )  # fmt: skip

    def _ticks(self, values: list[Any]) -> None:
        every = 1 if self.scale.names else -(-len(values) // 14)
        shown = values[::every]
        self.axes.set_xticks([self.scale.places[v] for v in shown], [self._tick(v, len(shown)) for v in shown])
        if self.scale.names and len(shown) > ABREAST:
            self.axes.tick_params(axis="x", labelrotation=15, labelsize=paper.SMALL - 1, pad=1)
            for name in self.axes.get_xticklabels():
                name.set(ha="right", rotation_mode="anchor")

    def _tick(self, value: Any, beside: int) -> str:
        """Write a value; a long name is broken into lines that fit beside the others."""
        if not self.scale.names:
            return short(value)
        name = short(value).replace("_", " ")
        return name if beside > ABREAST else textwrap.fill(name, 85 // beside)

    def at(self, measurements: Iterable[Measurement], x: str) -> list[Point]:
        """Return where the measurements stand on the axes, from left to right."""
        placed = ((self.scale.places.get(m.settings[x]), self.unit.of(m)) for m in measurements)
        return sorted((place, value) for place, value in placed if place is not None and math.isfinite(value))

    def frame(self, top: float, ceiling: Ceiling | None, keys: list[Line2D]) -> None:
        """Draw what stays: the upright axis up to `top`, the ceiling with its name, the legend's keys."""
        self.axes.set_ylim(0, 1.12 * top if top > 0 else 1)
        if ceiling is not None:
            at = self.roof = level(ceiling)
            self.axes.axhline(at, color=paper.INK, linewidth=1.3, linestyle="--", zorder=1.5)
            named = f"{ceiling.name}: {at:,.4g} {ceiling.unit}"
            self.axes.text(0.01, at + 0.015 * top, named, color=paper.INK, fontsize=paper.SMALL, va="bottom",
                           transform=self.axes.get_yaxis_transform())  # fmt: skip
        paper.legend(self.axes, keys)

    def show(
        self,
        measurements: Sequence[Measurement],
        x: str,
        current: Measurement | None = None,
        guess: float | None = None,
        others: Mapping[str, Sequence[Measurement]] | None = None,
    ) -> None:
        """Move the curve, the current point, the guess (in the axis' unit) and the other GPUs' curves."""
        track = self.at(measurements, x)
        self.line.set_data(*_columns([] if self.scale.names else track))
        self.bars.set_segments([[(place, 0.0), (place, value)] for place, value in track if self.scale.names])
        for source, points in self.points.items():
            points.set_data(*_columns(self.at([m for m in measurements if m.source == source], x)))
        self.faint.set_segments(self._faint([self.at(theirs, x) for theirs in (others or {}).values()]))
        self._stand(self.at([] if current is None else [current], x), current, track)
        self.guess.set_data(*_columns([] if guess is None else [(end, guess) for end in self.scale.limits]))
        self._name_guess(track, guess)

    def _name_guess(self, track: list[Point], guess: float | None) -> None:
        """Write "your guess" at the end where the curve is farther from it."""
        if guess is None:
            self.guessed.say("", 0, 0)
            return
        left, right = (abs(track[end][1] - guess) if track else 0.0 for end in (0, -1))
        at, align = (0.01, "left") if left > right else (0.99, "right")
        self.guessed.say("your guess", at, guess + 0.025 * self.axes.get_ylim()[1], align)

    def _faint(self, tracks: list[list[Point]]) -> list[list[Point]]:
        if not self.scale.names:
            return tracks
        return [[(place - 0.35, value), (place + 0.35, value)] for track in tracks for place, value in track]

    def _stand(self, at: list[Point], current: Measurement | None, track: list[Point]) -> None:
        self.here.set_data(*_columns(at))
        if not at or current is None:
            self.says.say("", 0, 0)
            return
        (place, value), (left, right), top = at[0], self.scale.limits, self.axes.get_ylim()[1]
        side = 1 if place < left + 0.7 * (right - left) else -1
        self.here.set_marker(paper.MARKERS[current.source])
        ahead = [height for there, height in track[::side] if side * (there - place) > 0]
        climbs = bool(ahead) and ahead[0] > value and value > 0.12 * top and not self.scale.names
        text = f"{value:,.4g} {self.unit.label}"
        meets = self.roof is not None and abs(value + 0.05 * top - self.roof) < 0.08 * top  # the ceiling's name
        height = value + (-0.1 if climbs or meets else 0.05) * top  # on the side where there is room
        self.says.say(text, place + side * 0.015 * (right - left), height, "left" if side > 0 else "right")


def point(source: str, size: float = 6.5) -> dict[str, Any]:
    """Return how a point is drawn by where its number comes from: filled is measured, hollow is modelled."""
    hollow = {"markerfacecolor": paper.PAPER, "markeredgewidth": 1.6} if source == "modelled" else {}
    return {"marker": paper.MARKERS[source], "markersize": size, "linestyle": "none", **hollow}


def keys(sources: Iterable[str], faint: bool) -> list[Line2D]:
    """Return the legend's keys: one for each kind of number that is there, and the other GPUs'."""
    there = set(sources)
    shown = [Line2D([], [], color=paper.BLUE, label=s, **point(s)) for s in paper.MARKERS if s in there]
    return shown + [Line2D([], [], color=paper.GREY, linewidth=1, label="other GPUs")] * faint


def _columns(points: Iterable[Point]) -> tuple[list[float], list[float]]:
    pairs = list(points)
    return [place for place, _ in pairs], [value for _, value in pairs]


def curve(
    axes: Axes,
    measurements: Sequence[Measurement],
    x: str,
    y: str = "bandwidth",
    by: str | None = None,
    current: Measurement | None = None,
    ceiling: Ceiling | None = None,
    guess: float | None = None,
    others: Mapping[str, Sequence[Measurement]] | None = None,
) -> Curve:
    """Draw speed against one setting.

    measurements: those to draw; x: the setting along the axis; y: see `quantity`; by: a curve per value.
    current: drawn large; ceiling: dashed and named; guess: dotted, in the unit of `y`.
    others: faint, by device name.
    """
    values = list(dict.fromkeys(m.settings[x] for m in measurements))
    drawn = Curve(axes, x, sorted(values) if all(map(is_number, values)) else values, quantity(y, measurements))
    everything = [*measurements, *(m for theirs in (others or {}).values() for m in theirs)]
    heights = [drawn.unit.of(m) for m in everything] + [guess or 0.0, level(ceiling) if ceiling else 0.0]
    series = _series(drawn, measurements, x, by) if by else []
    there = keys((m.source for m in measurements), bool(others))
    drawn.frame(max(filter(math.isfinite, heights)), ceiling, series + there)
    drawn.show([] if by else measurements, x, current, guess, others)
    return drawn


def _series(drawn: Curve, measurements: Sequence[Measurement], x: str, by: str) -> list[Line2D]:
    found = list(dict.fromkeys(m.settings[by] for m in measurements))
    shown = []
    for colour, value in zip(itertools.cycle(paper.SERIES), found):
        mine = [m for m in measurements if m.settings[by] == value]
        line = Line2D(*_columns(drawn.at(mine, x)), color=colour, linewidth=0 if drawn.scale.names else 1.6)
        drawn.axes.add_line(line)
        for source in paper.MARKERS:
            points = _columns(drawn.at([m for m in mine if m.source == source], x))
            drawn.axes.add_line(Line2D(*points, color=colour, **point(source)))
        shown.append(Line2D([], [], color=colour, linewidth=3, label=f"{by} = {short(value)}"))
    return shown
