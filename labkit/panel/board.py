"""Sliders over an experiment's grid, beside the measured curve and the memory that a warp touches."""

from __future__ import annotations

import html
import threading
from typing import TYPE_CHECKING, Any

from labkit.errors import LabError
from labkit.panel.attempt import Surroundings, attempt
from labkit.panel.controls import LABEL, WIDE, control, quiet
from labkit.panel.look import STYLE, image, widgets
from labkit.panel.prediction import Prediction
from labkit.panel.scene import axis, costliest, scene, strip
from labkit.plots import Sheet
from labkit.plots.sheet import QUICK, SHARP, WIDTH
from labkit.timing import ALONE

if TYPE_CHECKING:
    from labkit.measurement import Measurement
    from labkit.panel.scene import Experiment

Settings = dict[str, Any]


class Panel:
    """What `experiment.panel()` returns; shows itself as widgets, and as a picture where there are none."""

    def __init__(self, experiment: Experiment, x: str | None, guess: Any, lanes: bool | str) -> None:
        self.experiment, self.x = experiment, axis(experiment.grid, x)
        self.current: Measurement | None = None
        self.error: LabError | None = None
        self._news = 0  # how often a measurement was added: older frames show less
        self._known = {self._key(m.settings): m for m in experiment.known()}
        self._others = experiment.others()
        self._guess = None if guess is None or guess is False else 50.0 if guess is True else float(guess)
        self._surroundings = Surroundings()
        self._lock = threading.RLock()
        self._worker: threading.Thread | None = None
        self._job: tuple[Settings, bool] | None = None  # the latest wish; an older one not begun is forgotten
        self._queue: list[Settings] = []  # what a sweep has still to measure
        self._wanted: Settings = dict(experiment.defaults)
        self._under, first = strip(lanes), self._first()
        if lanes is True and first is not None and costliest(first.counts) is None:
            self._under = None
        self._quick, self._sharp = Sheet(self._under, QUICK), Sheet(self._under, SHARP)
        self._build(guess)

    def _key(self, settings: Settings) -> tuple[Any, ...]:
        return tuple(settings[name] for name in self.experiment.grid)

    def _first(self) -> Measurement | None:
        """Measure the defaults in the cell's own thread, so that the picture is there when the cell ends."""
        result = self._known.get(self._key(self._wanted)) or self._measured(self._wanted, False)
        if isinstance(result, LabError):
            self.error = result
            return None
        self.current = self._known[self._key(result.settings)] = result
        return result

    def _measured(self, settings: Settings, again: bool) -> Measurement | LabError:
        with ALONE, self._surroundings.here():
            return attempt(self.experiment, settings, again)

    # What the reader does

    def _moved(self, _: Any = None) -> None:
        with self._lock:
            self._wanted = {name: made.value for name, made in self.controls.items()}
            found = self._known.get(self._key(self._wanted))
            if found is None:
                self._ask(self._wanted, False)
            else:
                self._job = None
                self._stand(found)

    def _guessed(self, change: Any) -> None:
        with self._lock:
            self._guess = float(change["new"])
            self._ahead.moved()

    def _again(self, _: Any) -> None:
        with self._lock:
            self._ask(dict(self._wanted), True)

    def _swept(self, _: Any) -> None:
        with self._lock:
            if self._queue:
                self._queue.clear()
                return
            missing = [s for s in self.experiment.settings() if self._key(s) not in self._known]
            here = {name: value for name, value in self._wanted.items() if name != self.x}
            self._queue = sorted(missing, key=lambda s: any(s[name] != value for name, value in here.items()))
            self.progress.max, self.progress.value = max(len(missing), 1), 0
            self._start()

    # Measuring, in a thread of the panel's own, so that the sliders answer meanwhile

    def _ask(self, settings: Settings, again: bool) -> None:
        self._job = (settings, again)
        self._say("measuring " + ", ".join(f"{name} = {value}" for name, value in settings.items()) + " …")
        self._start()

    def _start(self) -> None:
        self._shown_sweep()
        if self._worker is None and (self._job or self._queue):
            self._worker = threading.Thread(target=self._work, name="labkit panel", daemon=True)
            self._worker.start()

    def _work(self) -> None:
        while True:
            with self._lock:
                swept = self._job is None
                if swept and not self._queue:
                    self._worker = None
                    self._shown_sweep()
                    return
                settings, again = self._job or (self._queue[0], False)
                self._job = None
            result = self._measured(settings, again)
            with ALONE, self._lock:
                self._arrived(settings, result, swept)

    def _arrived(self, settings: Settings, result: Measurement | LabError, swept: bool) -> None:
        if swept and self._queue:
            self._queue.pop(0)
            self.progress.value += 1
        if not isinstance(result, LabError):
            self._known[self._key(settings)] = result
            self._news += 1
            self._ahead.forget()
        if self._key(settings) == self._key(self._wanted):
            self._stand(result)
        elif not isinstance(result, LabError):
            self._ahead.moved()

    # What the reader sees

    def _stand(self, result: Measurement | LabError) -> None:
        """Show a result; after an error the figure keeps the last good one."""
        self.error = result if isinstance(result, LabError) else None
        if not isinstance(result, LabError):
            self.current = result
            self._ahead.moved()
        self._say()

    def _now(self, sharp: bool) -> bytes:
        return self._frame(self._sharp if sharp else self._quick, self.current, self._guess)

    def _drawn(self, values: tuple[Any, ...]) -> bytes | None:
        """The frame of these values of the controls, if that setting is known."""
        found = self._known.get(values[: len(self.controls)])
        guess = None if self._guess is None else values[-1]
        return None if found is None else self._frame(self._sharp, found, guess)

    def _frame(self, sheet: Sheet, current: Measurement | None, guess: float | None) -> bytes:
        """The figure as it is when the reader stands on `current`."""
        point = None if current is None else self._key(current.settings)
        share = None if guess is None else guess / 100
        known = list(self._known.values())
        shown = scene(self.experiment, known, self._others, current, self.x, share, self._under)
        return sheet.frame(shown, (point, self._news))

    def _say(self, busy: str = "") -> None:
        self.note.value = f"<div class='labkit-note'>{self._told(busy)}</div>"

    def _told(self, busy: str) -> str:
        if busy:
            return f"<span class='labkit-busy'>{html.escape(busy)}</span>"
        if self.error is not None:
            return f"<div class='labkit-error'>{html.escape(str(self.error).strip(chr(10)))}</div>"
        return f"<span class='labkit-facts'>{html.escape(self.facts())}</span>"

    @property
    def picture(self) -> bytes:
        """The figure as it stands, a PNG."""
        return self._ahead.picture

    def facts(self) -> str:
        """Return the line under the figure."""
        return "" if self.current is None else self.current.facts()

    def _shown_sweep(self) -> None:
        self.sweep.description = "stop" if self._queue else "sweep"
        self.progress.layout.visibility = "visible" if self._queue else "hidden"

    def _build(self, guess: Any) -> None:
        import ipywidgets as w

        from labkit.panel.ahead import Ahead

        grid = self.experiment.grid
        self.controls = {name: control(name, values, self._wanted[name]) for name, values in grid.items()}
        for made in self.controls.values():
            made.observe(self._moved, names="value")
        self.image = image(WIDTH)
        self.note = w.HTML(layout={"width": "calc(100% - 16px)", "margin": "4px 8px"})
        self.sweep, again = (w.Button(description=text, layout={"width": "110px"}) for text in ("sweep", "time again"))
        self.sweep.on_click(self._swept)
        again.on_click(self._again)
        self.progress = w.IntProgress(layout={"width": "98%", "height": "12px", "visibility": "hidden"})
        self._slider = self._guess_slider(guess)
        left = [
            *self.controls.values(),
            *(w.HBox([slider, w.Label("%")], layout=WIDE) for slider in self._slider),
            w.HBox([self.sweep, again]),
            self.progress,
        ]
        beside = w.HBox(
            [w.VBox(left, layout={"flex": "0 1 285px", "min_width": "230px"}),
             w.VBox([self.image], layout={"flex": "1 1 380px", "max_width": f"{WIDTH + 8}px"})],
            layout={"flex_flow": "row wrap", "align_items": "center"},
        )  # fmt: skip
        # A style of its own: sent with the facts it would restyle the whole page at every move.
        self.widget = w.VBox([beside, self.note, w.HTML(STYLE, layout={"height": "0"})])
        self.widget.add_class("labkit-panel")
        moving = [*self.controls.values(), *self._slider]
        self._ahead = Ahead(self.image, moving, self._now, self._drawn, self._lock)
        self._say()

    def _guess_slider(self, guess: Any) -> list[Any]:
        if self._guess is None:
            return []
        high = max(100.0, self._guess)
        slider = quiet("FloatSlider")(description="your guess", value=self._guess, min=0, max=high, step=1,
                                      readout_format=".0f", style=LABEL, layout=WIDE)  # fmt: skip
        slider.add_class("labkit-guess")
        slider.observe(self._guessed, names="value")
        if isinstance(guess, Prediction):
            guess.watch(lambda value: slider.set_trait("value", min(max(value, 0.0), high)))
        return [slider]

    def _repr_mimebundle_(self, **_: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        """The widgets, and for views without a kernel the figure and the facts as they stand."""
        with self._lock:
            text = str(self.error).strip() if self.error else self.facts()
            bundle = {"text/plain": text, "image/png": self.picture}
            return {**self.widget._repr_mimebundle_(), **bundle}, {"image/png": {"width": WIDTH}}


def panel(experiment: Experiment, x: str | None = None, guess: Any = None, lanes: bool | str = True) -> Panel:
    """Sliders over `experiment`'s grid beside the curve of its measurements.

    x: the setting along the axis; the first numeric one if left out.
    guess: the reader's, in % of the ceiling: a number or a Prediction; True for a slider that begins in the middle.
    lanes: what to draw of a warp under the curve: "sectors", the global memory that its costliest access touches
    (so also True, where there is one); "banks", the shared memory that its most conflicted one touches; or False.
    Raises LabError if `x` is no setting, `lanes` none of these, or ipywidgets or anywidget is not installed.
    """
    widgets()
    return Panel(experiment, x, guess, lanes)
