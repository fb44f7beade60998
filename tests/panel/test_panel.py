"""Panels without a browser: what the controls are, what is shown, and that nothing ends them."""

from __future__ import annotations

import io
import sys
import threading
import time
from dataclasses import replace

import fakes
import numpy as np
import pytest
from PIL import Image

from labkit.errors import LabError
from labkit.panel import panel, predict
from labkit.panel.attempt import Surroundings, attempt
from labkit.panel.scene import axis, beside, costliest, scene, upright

w = pytest.importorskip("ipywidgets")


def settled(shown, seconds=10.0):
    """Wait for the panel's thread to end."""
    end = time.monotonic() + seconds
    while shown._worker is not None:
        assert time.monotonic() < end, "the panel is still measuring"
        time.sleep(0.005)


def test_controls_follow_from_the_grid():
    shown = panel(fakes.Experiment())
    kinds = {name: type(made).__name__ for name, made in shown.controls.items()}
    assert kinds == {
        "stride": "QuietSelectionSlider",
        "block": "QuietSelectionSlider",
        "width": "ToggleButtons",
        "aligned": "Checkbox",
    }
    assert [value for _, value in shown.controls["stride"].options] == [1, 2, 4, 8, 16, 32]


def test_a_slider_moves_the_figure_and_the_facts():
    shown = panel(fakes.Experiment())
    before, figure = shown.note.value, shown.image.value
    shown.controls["stride"].value = 8
    assert shown.image.value != figure
    assert shown.note.value != before
    assert shown.current.settings["stride"] == 8
    assert "sectors per request" in shown.note.value


def test_the_bundle_holds_widgets_and_picture():
    data, metadata = panel(fakes.Experiment())._repr_mimebundle_()
    assert data["image/png"].startswith(b"\x89PNG")
    assert "application/vnd.jupyter.widget-view+json" in data
    assert "GB/s" in data["text/plain"]
    assert metadata["image/png"]["width"] > 0


def test_what_is_unknown_is_measured_in_another_thread_and_the_latest_wish_wins():
    experiment = fakes.Experiment(delay=0.05, known=False)
    shown = panel(experiment)
    began = time.monotonic()
    for stride in (2, 4, 8, 16, 32):
        shown.controls["stride"].value = stride
    assert time.monotonic() - began < 0.2 or experiment.calls < 5
    assert "measuring" in shown.note.value
    settled(shown)
    assert shown.current.settings["stride"] == 32
    assert experiment.calls <= 3


def test_an_error_shows_its_three_lines_and_the_sliders_go_on():
    shown = panel(fakes.Experiment(known=False, impossible=256))
    figure = shown.image.value
    shown.controls["block"].value = 256
    settled(shown)
    assert all(word in shown.note.value for word in ("asked:", "found:", "try:"))
    assert shown.image.value == figure
    shown.controls["block"].value = 512
    settled(shown)
    assert "GB/s" in shown.note.value


def test_a_panel_whose_first_setting_fails_still_comes():
    shown = panel(fakes.Experiment(known=False, impossible=64))
    assert "asked:" in shown.note.value
    shown.controls["block"].value = 128
    settled(shown)
    assert shown.current.settings["block"] == 128


class Failing(fakes.Experiment):
    def __init__(self, error: Exception) -> None:
        super().__init__(known=False)
        self.error = error

    def measure(self, settings, again=False):
        held = np.zeros(10)
        raise self.error if held.any() is not None else AssertionError


class OutOfMemoryError(RuntimeError):
    """What torch and CuPy call theirs."""


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ZeroDivisionError("division by zero"), "ZeroDivisionError: division by zero"),
        (OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB. GPU 0 has"), "20.00 GiB"),
        (MemoryError("Unable to allocate 7.45 GiB for an array with shape (1000000000,)"), "7.45 GiB"),
        (
            OutOfMemoryError("Out of memory allocating 1,024 bytes (allocated so far: 12 bytes)."),
            "1,024 bytes",
        ),
        (LabError("a", "b", "c"), "b"),
    ],
)
def test_every_failure_comes_back_as_three_lines(error, said):
    result = attempt(Failing(error), {"stride": 1})
    assert isinstance(result, LabError)
    assert said in result.found
    assert result.__cause__ is None


def test_the_sweep_measures_all_and_stops_when_told():
    experiment = fakes.Experiment(known=False)
    shown = panel(experiment)
    shown.sweep.click()
    settled(shown)
    assert len(experiment.known()) == len(list(experiment.settings()))
    assert shown.sweep.description == "sweep"
    slow = fakes.Experiment(delay=0.05, known=False)
    stopped = panel(slow)
    stopped.sweep.click()
    assert stopped.sweep.description == "stop"
    stopped.sweep.click()
    settled(stopped)
    assert slow.calls < 5


def test_time_again_measures_anew():
    experiment = fakes.Experiment()
    shown = panel(experiment)
    next(b for b in _all(shown.widget) if getattr(b, "description", "") == "time again").click()
    settled(shown)
    assert experiment.calls == 1


def _all(widget):
    yield widget
    for child in getattr(widget, "children", ()):
        yield from _all(child)


def test_the_guess_is_drawn_and_follows_the_prediction():
    guess = predict("share, %", 1, 100, default=20)
    shown = panel(fakes.Experiment(), guess=guess)
    figure = shown.image.value
    guess.slider.value = 60
    assert shown._guess == pytest.approx(60)
    assert shown.image.value != figure
    bare = panel(fakes.Experiment(), guess=False)
    assert not any("labkit-guess" in getattr(part, "_dom_classes", ()) for part in _all(bare.widget))


def test_the_axis_must_be_a_setting():
    grid = fakes.Experiment().grid
    assert axis(grid) == "stride"
    assert axis(grid, "width") == "width"
    assert axis({"flag": (True, False), "layout": ("row", "column")}) == "flag"
    with pytest.raises(LabError):
        panel(fakes.Experiment(), x="speed")


def test_what_stands_under_the_curve_can_be_chosen():
    shapes = {lanes: Image.open(io.BytesIO(panel(fakes.Experiment(), lanes=lanes).picture))
              for lanes in (True, "sectors", "banks", False)}  # fmt: skip
    assert shapes[True].tobytes() == shapes["sectors"].tobytes() != shapes["banks"].tobytes()
    assert shapes["banks"].size == shapes[True].size
    assert shapes[False].height < shapes[True].height
    with pytest.raises(LabError, match="banks"):
        panel(fakes.Experiment(), lanes="rows")


def test_sectors_are_left_out_where_there_are_none_but_not_where_they_are_asked_for():
    class Library(fakes.Experiment):
        def make(self, settings):
            return replace(super().make(settings), counts=None)

    heights = [Image.open(io.BytesIO(panel(Library(), lanes=lanes).picture)).height for lanes in (True, False, "banks")]
    assert heights[0] == heights[1] < heights[2]


def test_the_track_differs_in_the_axis_only():
    experiment = fakes.Experiment()
    current = experiment.measure({"stride": 4, "block": 128, "width": "8 B", "aligned": False})
    track = beside(experiment.known(), current, "stride")
    assert [m.settings["stride"] for m in track] == list(experiment.grid["stride"])
    shown = scene(experiment, experiment.known(), {}, current, "stride", 0.5)
    assert shown.guess == pytest.approx(0.5 * 4270)
    assert shown.top >= 4270
    assert shown.access is costliest(current.counts)


def test_without_declared_work_time_is_shown():
    assert upright(fakes.Measurement({"n": 1}, 1e-3, 0.0)) == "seconds"
    assert upright(fakes.Measurement({"n": 1}, 1e-3, 1.0)) == "bandwidth"


def test_the_thread_that_measures_has_the_callers_grad_mode():
    torch = pytest.importorskip("torch")
    seen = []
    with torch.no_grad():
        surroundings = Surroundings()

    def look():
        with surroundings.here():
            seen.append(torch.is_grad_enabled())
        seen.append(torch.is_grad_enabled())

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    assert seen == [False, True]


@pytest.mark.parametrize("package", ["ipywidgets", "anywidget"])
def test_without_widgets_it_says_so(monkeypatch, package):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(LabError, match=f"{package} is not installed"):
        panel(fakes.Experiment())


SOURCE = """
extern "C" __global__ void strided(const float* a, float* out, unsigned n, unsigned stride) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = a[(unsigned long long)i * stride % n];
}"""


@pytest.mark.compiler
def test_a_panel_over_a_kernel_counts_what_its_settings_do():
    import labkit

    n = 1 << 16
    read = labkit.kernel(SOURCE)
    a, out = labkit.xp.ones(n, "float32"), labkit.xp.zeros(n, "float32")

    @labkit.experiment(stride=[1, 2, 4, 8], block=[64, 2048])
    def strided(stride, block):
        return labkit.Work(lambda: read(n // block, block, (a, out, n, stride)), bytes=8 * n)

    shown = strided.panel()
    shown.controls["stride"].value = 8
    settled(shown)
    assert shown.current.counts.load_sectors_per_request == 32
    assert "32.0 sectors per request" in shown.note.value
    shown.controls["block"].value = 2048
    settled(shown)
    assert "2048" in shown.note.value
    assert "asked:" in shown.note.value
