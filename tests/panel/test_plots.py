"""Drawings: what stands where, checked on the artists; and that a fast frame equals a whole drawing."""

from __future__ import annotations

import io
import sys

import fakes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from labkit import plots
from labkit.panel.scene import scene
from labkit.plots import axis, banks, paper
from labkit.plots.banks import Banks
from labkit.plots.lanes import Lanes
from labkit.plots.warp import LINE, SECTOR, WIDTH, layout


def pixels(data: bytes) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(data)).convert("RGB"), dtype=int)


def axes():
    return paper.figure(640, 300, 1).add_axes((0.1, 0.2, 0.8, 0.7))


lanes = st.lists(st.one_of(st.none(), st.integers(0, 1 << 20)), min_size=32, max_size=32)


@given(lanes, st.sampled_from([1, 2, 4, 8, 16]))
def test_the_layout_holds_every_byte_asked_for_inside_the_drawing(elements, width):
    touched = fakes.Access(1, "load", width, tuple(None if e is None else e * width for e in elements))
    plan = layout(touched)
    asked = {a + k for a in touched.addresses if a is not None for k in range(width)}
    assert sum(plan.used.values()) == len(asked)
    assert set(plan.used) == {byte // SECTOR for byte in asked}
    places = [plan.place(byte) for byte in sorted(asked)]
    assert places == sorted(places)
    assert all(0 <= place <= WIDTH + 1e-6 for place in places)
    assert len(plan.breaks) == sum(b - a > 1 for a, b in zip(sorted(plan.lines), sorted(plan.lines)[1:], strict=False))


@given(st.integers(0, 5), st.sampled_from([4, 8, 16]))
def test_the_caption_counts_sectors_as_the_hardware_does(power, width):
    touched = fakes.access(stride=1 << power, width=width)
    sectors = {a // SECTOR for a in touched.addresses}
    text = plots.caption(touched)
    assert text.startswith(f"32 lanes touch {len(sectors)} sector")
    assert f"{len(sectors) * SECTOR} B moved for {32 * width} B used" in text


def test_one_address_for_all_lanes_is_one_sector():
    assert plots.caption(fakes.access(stride=0)) == "32 lanes touch 1 sector: 32 B moved for 4 B used"


@pytest.mark.parametrize("stride", [0, 1, 2, 8, 32, 1000])
def test_lanes_draw_every_sector_of_each_line(stride):
    touched = fakes.access(stride=stride)
    drawn = Lanes(axes())
    drawn.show(touched)
    lines = {a // LINE for a in touched.addresses}
    boxes = drawn.paths["frames"].get_path().vertices.reshape(-1, 5, 2)
    assert len(boxes) == 4 * len(lines)
    assert len(drawn.paths["wires"].get_path().vertices) == 2 * 32
    drawn.show(None)
    assert len(drawn.paths["frames"].get_path().vertices) == 0


@pytest.mark.parametrize(
    ("stride", "width", "words", "cost"),
    [
        (1, 4, "words 0, 1, 2 … of 32 banks", "1 pass, no conflict"),
        (2, 4, "words 0, 2, 4 … of 16 banks", "2 passes where 1 would do"),
        (32, 4, "words 0, 32, 64 … of 1 bank", "32 passes where 1 would do"),
        (33, 4, "words 0, 33, 66 … of 32 banks", "1 pass, no conflict"),
        (0, 4, "word 0 of 1 bank", "1 pass, no conflict"),
        (1, 16, "words 0–3, 4–7 … of 32 banks", "4 passes, no conflict"),
        (2, 8, "words 0–1, 4–5 … of 16 banks", "4 passes where 2 would do"),
    ],
)
def test_the_caption_names_words_banks_and_passes(stride, width, words, cost):
    assert banks.caption(fakes.access(stride, width)) == f"32 lanes ask for {words}: {cost}"


def outlines(drawn, name, corners=5):
    return drawn.paths[name].get_path().vertices.reshape(-1, corners, 2)


@pytest.mark.parametrize(("stride", "width", "passes"), [(1, 4, 1), (4, 4, 4), (32, 4, 32), (33, 4, 1), (1, 16, 4)])
def test_banks_draw_a_row_a_pass_and_fill_what_serves(stride, width, passes):
    drawn = Banks(axes())
    drawn.show(fakes.access(stride, width))
    groups = max(width // 4, 1)
    filled = np.concatenate([outlines(drawn, "even"), outlines(drawn, "odd")])
    assert len(filled) == 32 * groups
    assert len(outlines(drawn, "first")) == groups
    assert len(outlines(drawn, "extra")) == passes - groups
    assert len(np.unique(filled[:, 2, 1])) == passes
    wires = np.concatenate([outlines(drawn, name, 2) for name in ("even wires", "odd wires")])
    lanes, ends = wires[:, 0, 0] - 0.5, wires[:, 1, 0]
    assert np.allclose(ends, lanes * stride * groups % 32 + groups / 2)
    drawn.show(None)
    assert not any(path.get_path().vertices.size for path in drawn.paths.values())
    assert "shared memory" in drawn.caption.text


def test_lanes_served_together_share_a_colour():
    drawn = Banks(axes())
    touched = fakes.access(1, 16)
    drawn.show(fakes.Access(7, "load", 16, tuple(a if lane // 8 in (1, 2) else None
                                                 for lane, a in enumerate(touched.addresses))))  # fmt: skip
    assert [len(outlines(drawn, f"{name} wires", 2)) for name in ("even", "odd")] == [8, 8]
    assert outlines(drawn, "odd lanes")[:, 0, 0].round().tolist() == list(range(8, 16))
    assert outlines(drawn, "odd").max() > outlines(drawn, "even").max() - 1  # all banks, each its own row
    assert outlines(drawn, "odd")[:, :, 1].min() >= outlines(drawn, "even")[:, :, 1].max()
    assert "8 at a time" in drawn.what.text


def test_numbers_stand_evenly_by_their_ratio_steps_evenly_and_names_in_a_row():
    assert list(axis.scale([1, 2, 4, 8]).places.values()) == [0, 1, 2, 3]
    assert list(axis.scale([0, 4, 8, 12]).places.values()) == [0, 4, 8, 12]
    assert list(axis.scale([0, 1, 2, 4, 8]).places.values()) == [0, 1, 2, 3, 4]
    assert axis.scale(["row", "column"]).names
    assert axis.scale([True, False]).names


@pytest.mark.parametrize(
    ("value", "text"),
    [(64, "64"), (8192, "8192"), (1 << 26, "64 Mi"), (0.5, "0.5"), ("AoS", "AoS"), (5000, "5000")],
)
def test_ticks_are_short(value, text):
    assert axis.short(value) == text


def test_a_curve_goes_through_its_measurements_and_names_its_ceiling():
    experiment = fakes.Experiment()
    track = [m for m in experiment.known() if m.settings["block"] == 256 and m.settings["aligned"]]
    track = [m for m in track if m.settings["width"] == "4 B"]
    place = axes()
    drawn = plots.curve(place, track, "stride", current=track[2], ceiling=track[0].ceiling, guess=1000.0)
    assert list(drawn.line.get_ydata()) == [m.bandwidth_gbs for m in track]
    assert list(drawn.here.get_ydata()) == [track[2].bandwidth_gbs]
    assert any("copy: 4,270 GB/s" in text.get_text() for text in place.texts)
    assert "log scale" in place.get_xlabel()
    assert place.get_ylabel() == "GB/s"


def test_names_are_bars_and_by_draws_a_curve_each():
    known = fakes.Experiment().known()
    drawn = plots.curve(axes(), known[:3], "width")
    assert not list(drawn.line.get_xdata())
    assert isinstance(plots.plot(known, "stride", by="width")._repr_mimebundle_()[0]["image/png"], bytes)


def test_kinds_of_numbers_are_told_apart_in_the_legend():
    made = [fakes.Measurement({"n": 2**k}, 1.0, 1e9, source) for k, source in enumerate(paper.MARKERS)]
    place = axes()
    plots.curve(place, made, "n")
    assert [text.get_text() for text in place.get_legend().get_texts()] == ["live", "recorded", "modelled"]


@pytest.mark.parametrize("flops", [0.0, 1e9, 1e13])
def test_the_roofline_names_every_ceiling(flops):
    place = axes()
    plots.roofline(place, fakes.Device(), [fakes.Measurement({"n": 1}, 1.0, 1e9, flops=flops)])
    words = " ".join(text.get_text() for text in place.texts)
    assert all(name in words for name in ("copy", "FP32", "TF32", "BF16"))


@pytest.mark.parametrize("under", ["sectors", "banks", None])
def test_a_fast_frame_is_the_frame_of_a_fresh_sheet(under):
    experiment = fakes.Experiment()
    known = experiment.known()
    sheet = plots.Sheet(under, scale=1)
    for m in known[:40:7]:
        shown = scene(experiment, known, {"other": known}, m, "stride", 0.3, under)
        assert (shown.access is None) == (under is None)
        assert np.array_equal(pixels(sheet.frame(shown)), pixels(plots.Sheet(under, scale=1).frame(shown)))


def test_the_palette_keeps_colours():
    sheet = paper.figure(100, 100, 1)
    sheet.canvas.draw()
    true = np.asarray(sheet.canvas.buffer_rgba())[:, :, :3].astype(int)
    assert np.abs(pixels(plots.png(sheet, 1)) - true).max() <= 8


def test_no_pyplot():
    plots.png(paper.figure(), 1)
    assert "matplotlib.pyplot" not in sys.modules
