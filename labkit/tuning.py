"""Tuning: the fastest setting of a grid, what came close to it, and how sure that is."""

from __future__ import annotations

import html
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .errors import LabError
from .measurement import Measurement
from .timing import FLOOR, readable

Settings = dict[str, Any]
SHOWN = 5  # rivals that the repr names


@dataclass(frozen=True)
class Rival:
    """A setting beside the best: time ÷ the best's with its interval, and the probability that it is slower."""

    measurement: Measurement
    ratio: float
    low: float
    high: float
    slower: float

    @property
    def tie(self) -> bool:
        """Not to be told from the best: the interval holds 1, or the difference is below 0.5 %."""
        return self.low <= 1 or self.ratio < 1 + FLOOR

    def said(self, best: Measurement) -> str:
        """In words, with what the interval is."""
        modelled = "modelled" in (best.source, self.measurement.source)
        what = "with the model's usual error" if modelled else "99 % interval"
        span = f"{what} {self.low:.3f} to {self.high:.3f}"
        return f"takes {self.ratio:.3f} × the time ({span}){': a tie' if self.tie else ''}"


@dataclass(frozen=True)
class Tuning:
    """The fastest setting of a grid.

    best: its Measurement. rivals: the others that stayed to the end, fastest first, each compared with the best.
    dropped: measured and seen to be slower. skipped: impossible, with the reason. unseen: the time was over.
    seconds: spent.
    """

    best: Measurement
    rivals: tuple[Rival, ...]
    dropped: tuple[Measurement, ...]
    skipped: tuple[tuple[Settings, LabError], ...]
    unseen: tuple[Settings, ...]
    seconds: float

    @property
    def ties(self) -> tuple[Measurement, ...]:
        """What cannot be told from the best."""
        return tuple(rival.measurement for rival in self.rivals if rival.tie)

    @property
    def ranking(self) -> tuple[Measurement, ...]:
        """All that was measured, fastest first; the order inside a tie means nothing."""
        rest = sorted((*(r.measurement for r in self.rivals), *self.dropped), key=lambda m: m.seconds)
        return (self.best, *rest)

    @property
    def confidence(self) -> float:
        """The probability that the best is faster than its nearest rival; 1 where all others were dropped."""
        return min((rival.slower for rival in self.rivals), default=1.0)

    def sentences(self) -> list[str]:
        """What the repr says, one sentence each."""
        said = [f"{self._verdict()}: {self.best}"]
        said += [f"{_named(r.measurement.settings)} {r.said(self.best)}" for r in self.rivals[:SHOWN]]
        rest = self.rivals[SHOWN:]
        if rest:
            said.append(f"and {len(rest)} more, {sum(r.tie for r in rest)} of them ties")
        sources = ", ".join(f"{n} {s}" for s in ("live", "recorded", "modelled") if (n := self._count(s)))
        found = f"{len(self.ranking)} settings measured ({sources}) in {readable(self.seconds)}"
        said.append(f"{found}, {len(self.dropped)} of them dropped as slower")
        said += [f"left out {_named(full)}: {error.found}" for full, error in self.skipped]
        if self.unseen:
            said.append(f"{len(self.unseen)} settings were not looked at: the time was over")
        return said

    def _count(self, source: str) -> int:
        return sum(m.source == source for m in self.ranking)

    def _verdict(self) -> str:
        if self.ties:
            return f"a tie of {1 + len(self.ties)}, first among equals"
        sure = math.floor(1000 * self.confidence) / 10
        return "the fastest" + (f", {min(sure, 99.9):g} % sure" if self.rivals else "")

    def __str__(self) -> str:
        return "\n".join(self.sentences())

    __repr__ = __str__

    def _repr_html_(self) -> str:
        first, *rest = (html.escape(sentence) for sentence in self.sentences())
        return f"<div class='labkit-tuning'><b>{first}</b><br>{'<br>'.join(rest)}</div>"


def _named(settings: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in settings.items())
