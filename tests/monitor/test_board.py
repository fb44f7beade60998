"""The live panel without a browser: buttons, sliders, errors, replay."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

import labkit
from labkit import Monitor, recording
from labkit.device import known
from labkit.monitor import board as boards
from labkit.monitor import panel, workload

pytest.importorskip("ipywidgets")
sys.path.insert(0, str(Path(__file__).parent))
from fakenvml import Card, FakeNvml


@workload(seconds=0.6, pause=[0.001, 0.01], kind=["long", "short"])
def naps(pause, kind):
    return labkit.Work(lambda: time.sleep(pause))


@workload()
def broken():
    return labkit.Work(lambda: 1 / 0)


def until(true, seconds=5.0):
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end
        time.sleep(0.02)


@pytest.fixture
def live(monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", FakeNvml(Card(), Card("NVIDIA L4", "00000000:2A:00.0", gpm=None)))
    monkeypatch.setattr(boards, "is_live", lambda: True)
    shown = panel(naps, broken)
    yield shown
    shown.close()


def test_a_button_starts_a_workload_and_stop_ends_it(live):
    live.buttons["naps"].click()
    until(lambda: "naps runs" in live.note.value)
    first, before = live._runner, live.image.value
    until(lambda: live.image.value != before)
    live.controls["pause"].value = 0.01
    until(lambda: "naps runs" in live.note.value and live._runner is not first)
    until(lambda: not first.running)
    runner = live._runner
    live.stopper.click()
    until(lambda: not runner.running)
    assert live._runner is None


def test_a_workload_that_fails_is_shown_and_the_meters_go_on(live):
    live.buttons["broken"].click()
    until(lambda: "ZeroDivisionError" in live.note.value)
    live.buttons["naps"].click()
    until(lambda: "naps runs" in live.note.value and "ZeroDivisionError" not in live.note.value)


def test_several_gpus_are_chosen_by_a_toggle(live):
    assert live.which.options == ("0", "1") and live.which.layout.display == ""
    live.buttons["naps"].click()
    live.which.value = "1"
    until(lambda: "NVIDIA L4" in live.note.value)


def test_nothing_is_drawn_while_nothing_runs(live):
    assert not live._moves()
    live.buttons["naps"].click()
    assert live._moves()


@pytest.fixture
def replayed(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "pynvml", FakeNvml(Card()))
    monkeypatch.setattr(sys.modules["labkit.monitor.workload"], "WARM", 0.05)
    monkeypatch.setattr(recording, "DATA", tmp_path)
    kept = recording.Recording(tmp_path / "recordings/nvidia-h200/lab.json", known("nvidia-h200"))
    kept.put("naps", naps.fingerprint, naps.watch({"pause": 0.001, "kind": "long"}).to_row())
    kept.save()
    monkeypatch.setattr(boards, "is_live", lambda: False)
    shown = panel(naps)
    yield shown
    shown.close()


def test_a_recording_is_replayed_with_pause_and_a_time_slider(replayed):
    assert "recorded, NVIDIA H200" in replayed.note.value and replayed.picture
    end = replayed.slider.value
    replayed.buttons["naps"].click()
    until(lambda: 0 < replayed.slider.value < end)
    replayed.pause.click()
    here = replayed.slider.value
    time.sleep(0.3)
    assert replayed.slider.value == here
    replayed.slider.value = end
    late = replayed.picture
    replayed.slider.value = 0.0
    assert replayed.picture != late and replayed._replay.at == 0.0
    replayed.pause.click()
    until(lambda: replayed.slider.value >= end - 0.11)


def test_what_is_not_recorded_says_so(replayed):
    replayed.controls["kind"].value = "short"
    assert "not recorded" in replayed.note.value
    replayed.controls["kind"].value = "long"
    assert "not recorded" not in replayed.note.value and replayed.picture


def test_the_bundle_holds_widgets_and_picture(replayed):
    data, _ = replayed._repr_mimebundle_()
    assert data["image/png"].startswith(b"\x89PNG") and "NVIDIA H200" in data["text/plain"]


def test_a_monitor_has_a_panel_without_workloads(monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", FakeNvml(Card()))
    shown = Monitor().panel()
    try:
        before = shown.image.value
        until(lambda: shown.image.value != before)
    finally:
        shown.close()


def test_no_panel_while_recording(monkeypatch):
    monkeypatch.setattr(recording, "active", recording.Recorder(None))
    assert panel(naps) is None
