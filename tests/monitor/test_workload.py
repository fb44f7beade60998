"""Workloads: run and counted in the background, watched, kept in a recording, replayed."""

from __future__ import annotations

import io
import math
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import labkit
from labkit import LabError, recording
from labkit.device import known
from labkit.monitor import Monitor, Observation, beside, workload
from labkit.monitor.replay import Replay
from labkit.monitor.running import CpuQueue, Runner
from labkit.monitor.terminal import screen, watch
from labkit.monitor.view import facts, view

sys.path.insert(0, str(Path(__file__).parent))
from fakenvml import Card, FakeNvml

module = sys.modules["labkit.monitor.workload"]


@pytest.fixture
def h200(monkeypatch):
    fake = FakeNvml(Card())
    monkeypatch.setitem(sys.modules, "pynvml", fake)
    monkeypatch.setattr(module, "WARM", 0.05)
    return fake


@workload(seconds=0.3, pause=[0.001, 0.01])
def naps(pause):
    return labkit.Work(lambda: time.sleep(pause), flops=1e6, bytes=10.0)


@pytest.fixture
def seen(h200):
    return naps.watch({"pause": 0.001})


def test_a_runner_counts_steps_and_stops_when_told():
    runner = Runner(lambda: labkit.Work(lambda: time.sleep(0.002)), CpuQueue())
    runner.ready(5)
    since = runner.now()
    time.sleep(0.3)
    assert 200 < runner.rate(since) < 510
    began = time.monotonic()
    runner.stop()
    assert time.monotonic() - began < 0.2 and not runner.running


def test_a_new_runner_ends_the_one_before():
    first = Runner(lambda: labkit.Work(lambda: time.sleep(0.001)), CpuQueue())
    first.ready(5)
    second = Runner(lambda: labkit.Work(lambda: time.sleep(0.001)), CpuQueue())
    second.ready(5)
    assert not first.running and second.running
    second.stop()


def test_what_a_workload_raises_comes_back():
    with pytest.raises(ZeroDivisionError):
        Runner(lambda: labkit.Work(lambda: 1 / 0), CpuQueue()).ready(5)
    wrong = labkit.Work(lambda: None, check=lambda: False)
    with pytest.raises(LabError, match="wrong"):
        Runner(lambda: wrong, CpuQueue()).ready(5)


def test_watching_gives_meters_and_energy_per_useful_operation(seen):
    assert seen.mean("sm_active") == 82 and seen.samples.gpus[0].name == "NVIDIA H200"
    watts = seen.samples.joules() / seen.samples.seconds
    assert seen.joules_per_flop == pytest.approx(watts / (seen.rate * 1e6))
    assert seen.joules_per_byte == pytest.approx(watts / (seen.rate * 10))
    assert "/FLOP" in seen.energy() and seen.held_back() == "power cap"
    assert str(seen).startswith("naps (pause 0.001): utilisation")


def test_without_a_recording_it_says_so_and_every_number_is_nan():
    blank = naps(pause=0.001)
    assert blank.samples is None and "not recorded" in str(blank)
    assert math.isnan(blank.mean("power")) and math.isnan(blank.joules_per_flop)
    assert np.isnan(blank.values("power")).all() and blank.held_back() == ""
    assert "not recorded" in beside(blank)._repr_html_() and blank.plot() is None
    assert labkit.claim("M1", "…", "confirmed", f"{blank.mean('power'):.0f} W", of=blank).verdict == "not measured"


def test_a_setting_outside_the_grid_is_refused():
    with pytest.raises(LabError, match="not in the grid"):
        naps(pause=3)


def test_recording_keeps_a_row_and_it_is_found_again(h200, tmp_path, monkeypatch):
    monkeypatch.setattr(recording, "DATA", tmp_path)
    kept = recording.Recording(tmp_path / "recordings/nvidia-h200/lab.json", known("nvidia-h200"))
    monkeypatch.setattr(recording, "active", recording.Recorder(kept))
    first = naps(pause=0.001)
    assert naps(pause=0.001).rate == first.rate, "measured once"
    kept.save()
    monkeypatch.setattr(recording, "active", None)
    again = naps(pause=0.001)
    assert again.source == "recorded" and "recorded, NVIDIA H200" in again.origin
    assert again.mean("sm_active") == 82 and again.rate == first.rate
    assert "cpu0" not in again.samples.tracks["host"] and not again.samples.processes


def test_a_damaged_row_is_refused(seen):
    row = seen.to_row()
    del row["rate"]
    with pytest.raises(LabError, match="recorded row"):
        Observation.from_row("naps", row)


def test_a_replay_moves_with_the_clock(seen):
    now = [0.0]
    replay = Replay(seen.samples, lambda: now[0])
    assert replay.at == seen.samples.seconds and not replay.playing
    replay.play()
    now[0] = 0.1
    assert replay.at == pytest.approx(0.1) and replay.playing
    replay.pause()
    now[0] = 5.0
    assert replay.at == pytest.approx(0.1)
    replay.toggle()
    replay.seek(0.05)
    now[0] = 5.1
    assert replay.at == pytest.approx(0.15)
    now[0] = 99.0
    assert replay.at == seen.samples.seconds
    assert replay.playing and not replay.playing, "one more frame at the end"


def test_the_view_has_a_dial_for_every_meter_and_says_what_is_missing(seen):
    dials = {dial.name: dial for dial in view(seen.samples).dials}
    assert dials["sm_active"].share == pytest.approx(0.82)
    assert dials["power"].text == "650 of 700 W" and dials["power"].share == pytest.approx(650 / 700)
    assert dials["pcie_received"].share == pytest.approx(2048 * 2**20 / 63e9, rel=0.01)
    assert "power cap" in facts(seen.samples) and "57 °C (slows down at 90 °C)" in facts(seen.samples)
    early = view(seen.samples, at=0.0)
    assert next(d for d in early.dials if d.name == "sm_active").text == "missing"


def test_a_table_holds_every_observation_and_the_origin(seen):
    shown = beside(seen, naps(pause=0.01))
    assert "82.0 %" in str(shown) and str(shown).count("NVIDIA H200") == 1
    assert shown._repr_html_().count("<tr>") == 3


def test_drawings_are_pictures(seen):
    from labkit.plots import png
    from labkit.plots.meters import Meters

    meters = Meters()
    frames = [meters.frame(view(seen.samples, at=at)) for at in (0.1, 0.25)]
    assert frames[0] != frames[1] and all(f.startswith(b"\x89PNG") for f in frames)
    assert png(seen.plot().figure).startswith(b"\x89PNG")
    assert png(seen.plot("power", "sm_clock").figure).startswith(b"\x89PNG")


def test_the_terminal_shows_the_meters_and_saves(h200, tmp_path):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    out = Terminal()
    assert watch(20, 0.7, tmp_path / "run.json", out) == 0
    assert "SM activity ████" in out.getvalue() and "Ctrl-C ends" in out.getvalue()
    assert "power cap, 100 % of the time" in out.getvalue()
    assert Monitor.load(tmp_path / "run.json").mean("tensor") == 79


def test_ctrl_c_ends_the_terminal_cleanly(h200, monkeypatch):
    out = io.StringIO()

    def interrupted(_):
        raise KeyboardInterrupt

    monkeypatch.setattr("labkit.monitor.terminal.time.sleep", interrupted)
    assert watch(20, out=out) == 0 and "instants" in out.getvalue()


def test_the_terminal_without_a_gpu(monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", None)
    with Monitor(20) as monitor:
        time.sleep(0.1)
    assert "no GPU: nvidia-ml-py is not installed" in "\n".join(screen(monitor.samples))


def test_the_command_line_watches_and_saves(h200, tmp_path, capsys):
    from labkit.__main__ import main

    path = tmp_path / "run.json"
    assert main(["monitor", "--seconds", "0.2", "--hertz", "20", "--save", str(path)]) == 0
    assert "SM activity: 82.0 %" in capsys.readouterr().out and Monitor.load(path).mean("power") == 650
    assert main(["monitor", "--hertz", "0"]) == 1
