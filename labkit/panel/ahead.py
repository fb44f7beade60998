"""Frames drawn and sent before they are asked for, so that the next press needs no answer of the kernel."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import anywidget
import traitlets
from ipywidgets import widget_serialization

from labkit.panel.look import show, url
from labkit.timing import ALONE

REST = 0.15  # seconds without a move after which the frame is drawn sharp, and then the next ones
FAR, NEAR = 12, 2  # steps to either side: of the control that moved last, and of the others
KEPT = 400  # frames of about 45 kB

State = tuple[Any, ...]


class Store(anywidget.AnyWidget):
    """The browser's side: frames of `image`, each with where `controls` stand in it."""

    _esm = Path(__file__).with_suffix(".js")
    image = traitlets.Any().tag(sync=True, **widget_serialization)
    controls = traitlets.Tuple().tag(sync=True, **widget_serialization)


class Ahead:
    """A figure that follows its controls: frames that one more move may ask for are drawn, and sent, before it.

    image: the widget of the figure. now: draws what stands now, sharp or fast. draw: from the values of the controls
    to a sharp PNG, None where there is none (yet). Both are called under `lock`, also from a thread of this object's.
    """

    def __init__(
        self,
        image: Any,
        controls: Sequence[Any],
        now: Callable[[bool], bytes],
        draw: Callable[[State], bytes | None],
        lock: threading.RLock,
    ) -> None:
        self._image, self._controls, self._now, self._draw, self._lock = image, tuple(controls), now, draw, lock
        self.frames: dict[State, bytes] = {}
        self.picture = now(True)
        show(image, self.picture)
        self._store = Store(image=image, controls=self._controls)
        self._page = False  # none, or one without anywidget's front end: then every frame comes when asked for
        self._store.on_msg(lambda *_: self._opened())
        self._moves, self._last = 0, self.values()
        self._moved: int | None = None  # the control that moved last
        self._timer = threading.Timer(0, self._rested)

    def values(self) -> State:
        """Where the controls stand."""
        return tuple(made.value for made in self._controls)

    def _opened(self) -> None:
        """A page has come, perhaps again, and has no frame yet."""
        self._page = True
        self.forget()
        self._wait()

    def forget(self) -> None:
        """Drop all frames: they no longer show what there is."""
        with self._lock:
            self.frames.clear()
            self._store.send({"at": None}, [b""])

    def moved(self) -> None:
        """Show what stands now: the browser does where it has the frame; else one with few pixels, decoded sooner."""
        ready = self.frames.get(self.values())
        self.picture = ready or self._now(False)
        if ready is None:
            show(self._image, self.picture)
        self._wait()

    def _wait(self) -> None:
        """Begin to wait anew for a rest."""
        self._moves += 1
        now = self.values()
        changed = (i for i, pair in enumerate(zip(now, self._last, strict=True)) if pair[0] != pair[1])
        self._moved, self._last = next(changed, self._moved), now
        self._timer.cancel()
        self._timer = threading.Timer(REST, self._rested)
        self._timer.daemon = True
        self._timer.start()

    def _rested(self) -> None:
        moves = self._moves
        with ALONE, self._lock:
            now = self.values()
            if self._page:
                self._keep(now)
            self.picture = self.frames.get(now) or self._now(True)
            show(self._image, self.picture)
        if not self._page:
            return
        for values in self._near():
            with ALONE, self._lock:  # drawing would disturb what is timed
                if self._moves != moves:
                    return
                self._keep(values)

    def _keep(self, values: State) -> None:
        """Draw the frame for these values and send it, in place of the one not wanted for longest if there are many."""
        if values in self.frames:
            self.frames[values] = self.frames.pop(values)  # wanted again
            return
        png = self._draw(values)
        if png is None:
            return
        drop = next(iter(self.frames)) if len(self.frames) >= KEPT else None
        if drop is not None:
            del self.frames[drop]
        self.frames[values] = png
        self._store.send({"at": self._places(values), "drop": drop and self._places(drop)}, [url(png)])

    def _places(self, values: State) -> list[Any]:
        return [place(made, value) for made, value in zip(self._controls, values, strict=True)]

    def _near(self) -> Iterator[State]:
        """What one control's move leads to: of the one that moved last first, then nearest first."""
        now = self.values()
        moves = [
            (i != self._moved, distance, i, value)
            for i, made in enumerate(self._controls)
            for distance, value in steps(made, FAR if i == self._moved else NEAR)
        ]
        for _, _, i, value in sorted(moves, key=lambda move: move[:3]):
            yield (*now[:i], value, *now[i + 1 :])


def place(made: Any, value: Any) -> Any:
    """Where the browser says that a control stands when its value is `value`: its place in the list, if it has one."""
    return _listed(made).index(value) if hasattr(made, "options") else value


def steps(made: Any, reach: int) -> Iterator[tuple[int, Any]]:
    """The values that a control may move to, `reach` steps away at most, with how many steps it takes."""
    if hasattr(made, "options"):
        listed = _listed(made)
        here = listed.index(made.value)
        near = range(max(here - reach, 0), min(here + reach + 1, len(listed)))
        yield from ((abs(i - here), listed[i]) for i in near if i != here)
    elif hasattr(made, "step"):
        for i in range(1, reach + 1):
            for value in (made.value - i * made.step, made.value + i * made.step):
                if made.min <= value <= made.max:
                    yield i, value
    else:
        yield 1, not made.value


def _listed(made: Any) -> list[Any]:
    return [value for _, value in made.options]
