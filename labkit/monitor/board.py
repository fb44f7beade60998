"""The live panel: meters at 10 Hz, a button for each workload, its sliders; recorded ones are replayed."""

from __future__ import annotations

import html
import threading
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..device import is_live
from ..panel.attempt import told
from ..panel.controls import control
from ..panel.look import STYLE, image, show
from ..plots.meters import BACK, WIDTH, Meters
from .replay import Replay
from .sampler import Monitor
from .samples import Samples
from .view import facts, view

if TYPE_CHECKING:
    from .running import Runner
    from .workload import Workload

FRAMES = 10.0  # a second
LINGER = 5.0  # seconds the meters go on after a workload


class Board:
    """Shows itself as widgets, and as a picture where there are none. `close()` ends all it started."""

    def __init__(
        self, workloads: Sequence[Workload], hertz: float = FRAMES, gpus: Sequence[int | str] | None = None
    ) -> None:
        self.workloads = {w.name: w for w in workloads}
        self.live = is_live() or not workloads
        self.chosen: Workload | None = next(iter(workloads), None)
        self.error = ""
        self._monitor = Monitor(max(hertz, 1.0), gpus) if self.live else None
        self._meters, self._lock = Meters(), threading.RLock()
        self._runner: Runner | None = None
        self._replay: Replay | None = None
        self._gpu: str | None = None
        self._marking = False
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        self.picture, self._facts, self._awake = b"", "", 0.0
        self._build()
        self._begin()

    def _begin(self) -> None:
        if self._monitor is not None:
            self._monitor.start()
            labels = [f.label for f in self._monitor.samples.gpus]
            self.which.options, self.which.layout.display = labels, "" if len(labels) > 1 else "none"
        else:
            self._load()
        self._frame()
        self._mark()
        self._thread = threading.Thread(target=self._work, name="labkit board", daemon=True)
        self._thread.start()

    # What the reader does

    def _pressed(self, name: str) -> None:
        with self._lock:
            self.chosen = self.workloads[name]
            self._show_controls()
            self._start()

    def _start(self, _: Any = None) -> None:
        """Run the chosen workload at its settings, in place of the one before; or replay it."""
        with self._lock:
            self._stop()
            if self.chosen is not None and self.live:
                self._runner = self.chosen.start(self._wanted())
            elif self.chosen is not None:
                self._load()
                if self._replay is not None:
                    self._replay.play()
            self._awake = time.monotonic() + LINGER
            self._frame()
            self._mark()

    def _moved(self, _: Any = None) -> None:
        if self._runner is not None or not self.live:
            self._start()

    def _stop(self, _: Any = None) -> None:
        with self._lock:
            runner, self._runner, self.error = self._runner, None, ""
            if runner is not None:
                runner.end()
            if self._replay is not None:
                self._replay.pause()
            self._mark()

    def _paused(self, _: Any) -> None:
        with self._lock:
            if self._replay is not None:
                self._replay.toggle()
                self._mark()

    def _scrubbed(self, change: Any) -> None:
        with self._lock:
            if self._replay is not None and not self._marking:
                self._replay.seek(float(change["new"]))
                self._frame()

    def _looked(self, change: Any) -> None:
        self._gpu = change["new"]

    def _wanted(self) -> dict[str, Any]:
        given = {} if self.chosen is None else self.chosen.defaults
        return {**given, **{name: made.value for name, made in self.controls.items()}}

    def _load(self) -> None:
        """Fetch the recording of the chosen workload."""
        assert self.chosen is not None
        seen = self.chosen.recorded(self._wanted())
        self._replay = None if seen.samples is None else Replay(seen.samples)
        self.error = seen.why
        if self._replay is not None:
            self.slider.max = self._replay.samples.seconds

    # The thread that draws

    def _work(self) -> None:
        while not self._ended.wait(1 / FRAMES):
            with self._lock:
                self._watch()
                if self._moves():
                    self._frame()
                    self._mark()

    def _moves(self) -> bool:
        """Whether there is news: drawing for nothing would disturb what other cells measure."""
        if self._replay is not None:
            return self._replay.playing
        if self._runner is not None:
            self._awake = time.monotonic() + LINGER
        return self.live and (not self.workloads or time.monotonic() < self._awake)

    def _watch(self) -> None:
        """A workload that failed is shown as an error; the meters go on."""
        if self._runner is not None and not self._runner.running:
            error, self._runner = self._runner.error, None
            if error is not None and self.chosen is not None:
                self.error = str(told(f"run {self.chosen.name}", error)).strip()

    def _now(self) -> tuple[Samples | None, float | None]:
        if self._monitor is not None:
            latest = time.monotonic() - self._monitor.began
            return self._monitor.since(latest - BACK - 0.5), None
        return (None, None) if self._replay is None else (self._replay.samples, self._replay.at)

    def _frame(self) -> None:
        samples, at = self._now()
        if samples is None:
            self.image.layout.display = "none"
        else:
            self.picture = self._meters.frame(view(samples, self._gpu, at))
            show(self.image, self.picture)
            self.image.layout.display = ""
            self._facts = facts(samples, self._gpu, at)
        self._say()

    def _say(self) -> None:
        text = f"<div class='labkit-error'>{html.escape(self.error)}</div>" if self.error else ""
        shown = html.escape(" · ".join(part for part in (self._doing(), self._facts) if part))
        said = f"<div class='labkit-note'>{text}<span class='labkit-facts'>{shown}</span></div>"
        if said != self.note.value:
            self.note.value = said

    def _doing(self) -> str:
        if self._runner is not None and self.chosen is not None:
            return f"{self.chosen.name} runs" if self._runner.work is not None else f"{self.chosen.name} starts …"
        return "nothing of ours runs" if self.live and self.workloads else ""

    def _mark(self) -> None:
        """Show which workload is chosen and what the buttons do now."""
        for name, button in self.buttons.items():
            on = self.chosen is not None and name == self.chosen.name
            button.button_style = "info" if on and (self._runner is not None or not self.live) else ""
        if self._replay is not None:
            self.pause.icon = "pause" if self._replay.playing else "play"
            self._marking = True  # the slider follows the replay here, not the replay the slider
            self.slider.value = round(min(self._replay.at, self.slider.max), 1)
            self._marking = False

    # Widgets

    def _build(self) -> None:
        import ipywidgets as w

        self.buttons = {name: w.Button(description=name.replace("_", " "), layout={"width": "auto"})
                        for name in self.workloads}  # fmt: skip
        for name, button in self.buttons.items():
            button.on_click(lambda _, name=name: self._pressed(name))
            button.add_class(f"labkit-start-{name}")
        self.stopper = w.Button(description="stop", icon="stop", layout={"width": "auto"})
        self.stopper.on_click(self._stop)
        self.pause = w.Button(icon="play", tooltip="play or pause", layout={"width": "42px"})
        self.pause.add_class("labkit-pause")
        self.pause.on_click(self._paused)
        self.slider = w.FloatSlider(min=0, max=1, step=0.1, readout_format=".1f", description="seconds",
                                    layout={"width": "min(100%, 420px)"})  # fmt: skip
        self.slider.add_class("labkit-time")
        self.slider.observe(self._scrubbed, names="value")
        self.which = w.ToggleButtons(options=[], description="GPU", layout={"display": "none"})
        self.which.observe(self._looked, names="value")
        self.image = image(WIDTH)
        self.note = w.HTML(layout={"width": "calc(100% - 16px)", "margin": "4px 8px"})
        self.sliders = w.VBox([], layout={"max_width": "460px"})
        ends = [self.stopper] if self.live else []
        starts = w.HBox([*self.buttons.values(), *ends], layout={"flex_flow": "row wrap"})
        times = [] if self.live else [w.HBox([self.pause, self.slider])]
        parts = [starts, self.sliders] if self.workloads else []
        self.widget = w.VBox([*parts, self.which, self.image, *times, self.note, w.HTML(STYLE, layout={"height": "0"})])
        self.widget.add_class("labkit-panel")
        self._show_controls()

    def _show_controls(self) -> None:
        self.controls = {}
        if self.chosen is not None:
            given = self.chosen.defaults
            self.controls = {n: control(n, v, given[n]) for n, v in self.chosen.grid.items() if len(v) > 1}
        for made in self.controls.values():
            made.observe(self._moved, names="value")
        self.sliders.children = tuple(self.controls.values())

    def close(self) -> None:
        """Stop the workload, the sampling and the drawing."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        self._stop()
        if self._monitor is not None and self._monitor.running:
            self._monitor.stop()

    def _repr_mimebundle_(self, **_: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        with self._lock:
            bundle = {"text/plain": self.error or self._facts}
            if self.picture:
                bundle["image/png"] = self.picture  # type: ignore[assignment] # bytes, as IPython takes them
            return {**self.widget._repr_mimebundle_(), **bundle}, {"image/png": {"width": WIDTH}}
