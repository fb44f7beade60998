"""One call, three ways: live, recorded, modelled."""

import json
from dataclasses import replace

import numpy as np
import pytest

import labkit
from labkit import LabError, Work, experiment, recording
from labkit.device import known
from labkit.experiment import Experiment
from labkit.measurement import Measurement

pytestmark = pytest.mark.compiler
SOURCE = r"""
extern "C" __global__ void stride_read(const float* a, float* out, int n, int stride)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = a[(i * stride) % n];
}"""
N = 1 << 16
read = labkit.kernel(SOURCE)
a, out = np.ones(N, np.float32), np.zeros(N, np.float32)


@experiment(stride=[1, 2, 8], block=[128, 256])
def strided(stride, block):
    return Work(lambda: read(N // block, block, (a, out, N, stride)), bytes=8 * N)


@pytest.fixture
def recorded(tmp_path, monkeypatch):
    """A folder of recordings with one row for `strided`, stride=2, block=128."""
    gpu = known("nvidia-h200")
    target = recording.Recording(tmp_path / "recordings" / gpu.slug / "lab.json", gpu)
    row = {
        "settings": {"stride": 2, "block": 128},
        "seconds": 1e-5,
        "spread": 0.004,
        "bytes": 8 * N,
        "flops": 0,
    }
    row |= {
        "date": "2026-12-01",
        "checked": True,
        "launch_bound": False,
        "throttled": False,
        "clock_hz": None,
    }
    target.put("strided", strided.fingerprint, {**row, "counts": None})
    target.save()
    monkeypatch.setattr(recording, "DATA", tmp_path)
    strided._live.clear()
    yield target
    strided._live.clear()


def test_what_was_recorded_from_this_code_is_shown_without_running_it(recorded):
    m = strided(stride=2)
    assert (m.source, m.seconds, m.date) == ("recorded", 1e-5, "2026-12-01")
    assert m.facts().endswith("recorded, NVIDIA H200, 2026-12-01") and "± 0.4 %" in m.facts()


def test_what_was_not_recorded_is_modelled(recorded):
    m = strided(stride=8)
    assert m.source == "modelled" and m.counts.load_sectors_per_request == pytest.approx(32)
    assert "modelled for NVIDIA H200, usually within" in m.facts() and "±" not in m.facts()


def test_changed_code_is_never_shown_the_recording(recorded, monkeypatch):
    monkeypatch.setitem(globals(), "read", labkit.kernel(SOURCE.replace("a[(i", "2 * a[(i")))
    changed = experiment(stride=[1, 2, 8], block=[128, 256])(strided.function)
    assert changed(stride=2).source == "modelled"


def test_a_damaged_recording_spoils_only_itself(recorded):
    recorded.path.with_name("other.json").write_text("{")
    assert strided(stride=2).source == "recorded"
    recorded.path.write_text(json.dumps({"format": 0}))
    strided._live.clear()
    assert strided(stride=2).source == "modelled"


def test_known_lists_without_running_and_in_order(recorded):
    strided(stride=8)
    assert [(m.settings["stride"], m.source) for m in strided.known()] == [(2, "recorded"), (8, "modelled")]


def test_a_sweep_fills_the_grid_and_lists_what_failed(recorded):
    @experiment(n=[1, 2, 3])
    def odd(n):
        if n == 2:
            raise LabError("two", "is even", "an odd number")
        return Work(lambda: read(1, 128, (a, out, 128, n)), bytes=n)

    sweep = odd.sweep()
    assert [m.settings["n"] for m in sweep] == [1, 3] and sweep.failed[0][0] == {"n": 2}
    assert "is even" in sweep._repr_html_() and sweep.best.seconds == min(m.seconds for m in sweep)


@pytest.mark.parametrize(
    ("settings", "word"),
    [({"stride": 3}, r"1, 2, 8"), ({"stripe": 1}, "stride, block"), ({"block": "128"}, "128, 256")],
)
def test_a_setting_outside_the_grid_is_refused_with_the_grid(settings, word):
    with pytest.raises(LabError, match=word):
        strided(**settings)


def test_a_grid_must_match_the_function():
    with pytest.raises(LabError, match="block"):
        experiment(stride=[1])(strided.function)
    with pytest.raises(LabError, match="list"):
        experiment(stride=[], block=[1])(strided.function)


def test_what_is_no_kernel_says_which_settings_are_recorded():
    torch = pytest.importorskip("torch")
    x = torch.ones(8)

    @experiment(n=[1, 2])
    def plain(n):
        return Work(lambda: x * n, bytes=8)

    with pytest.raises(LabError, match=r"recorded|recording"):
        plain(n=1)


def test_a_function_that_returns_no_work_is_refused():
    @experiment(n=[1])
    def wrong(n):
        return n

    with pytest.raises(LabError, match="Work"):
        wrong(n=1)


def test_a_row_keeps_everything_but_the_source():
    m = strided(stride=8)
    back = Measurement.from_row("strided", m.device, json.loads(json.dumps(m.to_row())))
    assert (back.seconds, back.settings, back.bytes) == (m.seconds, m.settings, m.bytes)
    assert back.counts == replace(m.counts, by_line=())
    assert back.source == "recorded"


def test_recording_measures_once_and_then_reads(tmp_path, monkeypatch):
    target = recording.Recording(tmp_path / "gpu" / "lab.json", known("nvidia-h200"))
    calls = []

    def live(self, full, seconds=0.5):
        calls.append(full)
        return strided.model(full)

    monkeypatch.setattr(Experiment, "measure_live", live)
    monkeypatch.setattr(recording, "active", recording.Recorder(target))
    assert strided(stride=1).source == strided(stride=1).source == "recorded"
    assert len(calls) == 1 and strided.panel() is None
    assert [m.settings["stride"] for m in strided.known()] == [1]
    tuned = strided.tune(budget=1, block=128)
    assert tuned.best.settings == {"stride": 1, "block": 128} and len(calls) == 1 and len(tuned.unseen) == 2


def test_a_row_keeps_the_accesses_that_cost_most():
    unrolled = labkit.kernel(r"""extern "C" __global__ void many(const float* a, float* out) { float sum = 0;
      for (int k = 0; k < 24; k++) sum += a[threadIdx.x * (k + 1)]; out[threadIdx.x] = sum; }""")

    @experiment(block=[32])
    def many(block):
        return Work(lambda: unrolled(1, block, (a, out)))

    m = many()
    kept = m.to_row()["counts"]["lanes"]
    sectors = [len({x // 32 for x in access["addresses"]}) for access in kept]
    assert len(m.counts.lanes) > len(kept) == 8 and min(sectors) >= 32


def test_a_library_is_timed_in_turn_and_named_beside_the_speed():
    def slow():
        return sum(range(20_000))

    @experiment(n=[1])
    def beside(n):
        return Work(lambda: sum(range(5_000)), flops=1e6, library=("a library", slow))

    m = beside.measure_live({"n": 1}, 0.1)
    assert 2 < m.ratio_ci[0] <= m.ratio <= m.ratio_ci[1] < 8
    assert f"{m.ratio:.3f} ± " in m.facts() and "of a library" in m.facts()
    again = Measurement.from_row("beside", m.device, json.loads(json.dumps(m.to_row())))
    assert replace(again, source="live") == m


def test_the_ceiling_is_that_of_the_arithmetic():
    gpu = known("nvidia-h200")
    m = Measurement("product", {}, 1e-3, 0.0, 1.0, 1e12, "live", gpu, arithmetic="bf16")
    assert m.ceiling.name == "BF16" and m.share == pytest.approx(1e15 / gpu.bf16_flops)
    with pytest.raises(LabError, match="fp32, tf32, bf16"):
        replace(m, arithmetic="fp12").share  # noqa: B018 — the property raises
