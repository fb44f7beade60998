"""Replay: a place in recorded samples that moves at their true speed."""

from __future__ import annotations

import time
from collections.abc import Callable

from .samples import Samples


class Replay:
    """Stands at `at` seconds; moves with the clock while it plays, and stops at the end."""

    def __init__(self, samples: Samples, clock: Callable[[], float] = time.monotonic) -> None:
        self.samples, self._clock = samples, clock
        self._place, self._since = samples.seconds, clock()
        self._moving = False

    @property
    def at(self) -> float:
        """Seconds since the first instant."""
        passed = self._clock() - self._since if self._moving else 0.0
        return min(self._place + passed, self.samples.seconds)

    @property
    def playing(self) -> bool:
        """Whether it moves; the last frame is still to be drawn when it has just come to the end."""
        moving = self._moving
        if self.at >= self.samples.seconds:
            self._place, self._moving = self.samples.seconds, False
        return moving

    def play(self, start: float = 0.0) -> None:
        """Play from `start` seconds on."""
        self._place, self._since, self._moving = start, self._clock(), True

    def pause(self) -> None:
        """Stand still."""
        self._place, self._moving = self.at, False

    def toggle(self) -> None:
        """Pause, or go on; from the beginning, if it stands at the end."""
        if self.playing:
            self.pause()
        else:
            self.play(self.at if self.at < self.samples.seconds else 0.0)

    def seek(self, at: float) -> None:
        """Go to `at` seconds; goes on playing from there if it played."""
        self._place, self._since = at, self._clock()
