"""Frames sent ahead of the press: which, in what order, and when they are forgotten."""

from __future__ import annotations

import subprocess
import sys
import threading
import time

import fakes
import pytest

w = pytest.importorskip("ipywidgets")
pytest.importorskip("anywidget")

from labkit.panel import panel  # noqa: E402
from labkit.panel.ahead import FAR, NEAR, Ahead, place, steps  # noqa: E402
from labkit.panel.look import url  # noqa: E402


class Page:
    """A browser's side: keeps what is sent to it."""

    def __init__(self, ahead):
        self.frames, self.ahead = {}, ahead
        ahead._store.send = self.take
        ahead._store._handle_custom_msg({"ready": True}, [])

    def take(self, content, buffers):
        if content["at"] is None:
            self.frames.clear()
            return
        if content["drop"] is not None:
            del self.frames[tuple(content["drop"])]
        self.frames[tuple(content["at"])] = buffers[0]

    def wait(self, count, seconds=20):
        end = time.monotonic() + seconds
        while len(self.frames) < count:
            assert time.monotonic() < end, f"{len(self.frames)} of {count} frames came"
            time.sleep(0.01)

    def settled(self, seconds):
        """Wait until nothing has come for a while."""
        before = None
        while before != list(self.frames):
            before = list(self.frames)
            time.sleep(seconds)


def controls():
    return [
        w.SelectionSlider(options=[(str(v), v) for v in (1, 2, 4, 8, 16)], value=4),
        w.ToggleButtons(options=[("a", "a"), ("b", "b")], value="b"),
        w.Checkbox(value=True),
        w.FloatSlider(value=99, min=0, max=100, step=1),
    ]


def drawn(values):
    return None if values[0] == 8 else repr(values).encode()


@pytest.fixture
def ahead():
    return Ahead(
        w.Image(format="url"), controls(), lambda sharp: b"sharp" if sharp else b"quick", drawn, threading.RLock()
    )


def test_the_values_one_move_away_are_those_the_controls_can_reach():
    slider, toggles, check, guess = controls()
    assert sorted(steps(slider, 1)) == [(1, 2), (1, 8)]
    assert sorted(steps(slider, 9)) == [(1, 2), (1, 8), (2, 1), (2, 16)]
    assert list(steps(toggles, 2)) == [(1, "a")]
    assert list(steps(check, 2)) == [(1, False)]
    assert sorted(steps(guess, 2)) == [(1, 98), (1, 100), (2, 97)]
    assert [place(made, made.value) for made in controls()] == [2, 1, True, 99]


def test_a_page_that_opens_gets_the_neighbours_as_places_of_its_controls(ahead):
    page = Page(ahead)
    page.wait(9)
    assert set(page.frames) == {(2, 1, True, 99), (1, 1, True, 99), (0, 1, True, 99), (4, 1, True, 99),
                                (2, 0, True, 99), (2, 1, False, 99),
                                (2, 1, True, 98), (2, 1, True, 97), (2, 1, True, 100)}  # fmt: skip
    assert page.frames[1, 1, True, 99] == url(repr((2, "b", True, 99.0)).encode())
    assert NEAR == 2 < FAR


def test_what_moved_last_comes_first_and_farther(ahead):
    page = Page(ahead)
    ahead._controls[3].value = 50
    ahead.moved()
    page.wait(2 * FAR + 1)
    near = [at for at in page.frames if at[3] != 50]
    assert {abs(at[3] - 50) for at in near} >= set(range(1, FAR + 1))
    assert ahead._image.value == url(repr((4, "b", True, 50.0)).encode())


def test_nothing_is_shown_anew_where_the_browser_has_the_frame(ahead):
    page = Page(ahead)
    page.wait(9)
    before = ahead._image.value
    ahead._controls[0].value = 2
    ahead.moved()
    assert ahead._image.value == before
    assert ahead.picture == repr((2, "b", True, 99.0)).encode()
    ahead._controls[0].value = 8  # has no frame of its own
    ahead.moved()
    assert ahead._image.value == url(b"quick")


def test_without_the_browsers_side_every_move_is_answered(ahead):
    ahead._controls[0].value = 2
    ahead.moved()
    assert ahead._image.value == url(b"quick")
    end = time.monotonic() + 20
    while ahead._image.value != url(b"sharp"):
        assert time.monotonic() < end
        time.sleep(0.01)
    time.sleep(0.2)
    ahead._controls[0].value = 1
    ahead.moved()
    assert ahead._image.value == url(b"quick") and not ahead.frames


def test_a_page_that_opens_again_gets_them_again(ahead):
    Page(ahead).wait(9)
    Page(ahead).wait(9)


def test_of_many_frames_those_not_wanted_for_longest_go(ahead, monkeypatch):
    monkeypatch.setattr("labkit.panel.ahead.KEPT", 30)
    page = Page(ahead)
    page.wait(9)
    ahead._controls[3].value = 50
    ahead.moved()
    page.settled(1)
    guesses = {at[3] for at in page.frames if at[:3] == (2, 1, True)}
    assert guesses >= set(range(50 - FAR, 50 + FAR + 1))
    assert len(page.frames) == len(ahead.frames) == 30
    assert set(page.frames) == {tuple(ahead._places(values)) for values in ahead.frames}


def test_a_new_measurement_makes_the_old_frames_void():
    experiment = fakes.Experiment(known=False)
    shown = panel(experiment)
    page = Page(shown._ahead)
    page.wait(1)
    first = dict(page.frames)
    shown.controls["stride"].value = 2
    page.wait(2)
    assert set(page.frames) == {(0, 0, 0, True), (1, 0, 0, True)}
    assert page.frames[0, 0, 0, True] != first[0, 0, 0, True]  # one more point stands on the curve


LEAVES = """
import threading, time
import ipywidgets as w
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from labkit.panel.ahead import Ahead

begun = threading.Event()
canvas = FigureCanvasAgg(Figure((20, 20)))
canvas.figure.add_subplot().plot(range(50_000))

def draw(values):
    begun.set()
    end = time.monotonic() + 2
    while time.monotonic() < end:
        canvas.draw()
    return b""

slider = w.IntSlider(value=4, max=9)
ahead = Ahead(w.Image(format="url"), [slider], lambda sharp: b"", draw, threading.RLock())
ahead._store._handle_custom_msg({"ready": True}, [])
begun.wait()
time.sleep(0.5)
"""


def test_python_may_end_while_a_frame_is_drawn():
    done = subprocess.run([sys.executable, "-c", LEAVES], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
