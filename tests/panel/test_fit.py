"""The drawing of an occupancy and its sliders: what stands where, and that nothing ends them."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labkit.device import known
from labkit.occupancy import occupancy
from labkit.plots import paper
from labkit.plots.occupancy import Frames, Places, draw

pytest.importorskip("ipywidgets")
H200 = known("nvidia-h200")


def boxes(path):
    return len(path.get_path().vertices) // 5


@given(registers=st.integers(1, 64), shared=st.integers(0, 200_000), block=st.integers(1, 1024))
@settings(max_examples=20, deadline=None)
def test_every_resident_warp_fills_a_place_and_the_marks_stand_on_the_stairs(registers, shared, block):
    fit = occupancy(H200, registers, shared, block)
    places = Places(paper.figure(640, 330, 1), occupancy(H200, 32, 0, 256))
    places.show(fit)
    assert sum(map(boxes, places.filled)) == fit.warps
    line, here, _ = places.by_registers
    at = {int(x): y for x, y in zip(*line.get_data(), strict=True)}
    assert at[registers] == here.get_ydata()[0] == pytest.approx(100 * fit.share)
    assert len(at) == 255 and list(at.values()) == sorted(at.values(), reverse=True)


def test_the_words_name_the_limit_and_the_next_steps():
    fit = occupancy(H200, 72, 0, 256)
    text = draw(fit)._repr_mimebundle_()[0]["text/plain"]
    assert "24 of 64 warps (38%), limited by registers" in text
    assert "81 would leave 2 blocks; 64 would make it 4" in text
    assert occupancy(H200, 81, 0, 256).blocks == 2 and occupancy(H200, 80, 0, 256).blocks == 3
    assert occupancy(H200, 64, 0, 256).blocks == 4 and occupancy(H200, 65, 0, 256).blocks == 3
    assert "one more would leave no block; 32 would make it 2" in str(occupancy(H200, 64, 0, 1024))
    assert "fewer would not help" in str(occupancy(H200, 16, 0, 1024))


def test_a_fast_frame_is_the_frame_of_a_fresh_sheet():
    frames = Frames(occupancy(H200, 32, 0, 256), 1.0)
    for registers, shared, block in ((72, 0, 256), (40, 60_000, 128), (128, 0, 512)):
        fit = occupancy(H200, registers, shared, block)
        assert frames.frame(fit) == Frames(fit, 1.0).frame(fit)


def test_sliders_move_the_drawing_and_an_impossible_kernel_is_explained():
    panel = occupancy(H200, 72, 0, 256).panel()
    before = panel.picture
    panel.controls["registers"].value = 33
    assert panel.current.blocks == 6 and panel.picture != before and "6 blocks" in panel.note.value
    panel.controls["block"].value = 1024
    panel.controls["registers"].value = 128
    assert all(word in panel.note.value for word in ("asked:", "registers", "try:"))
    panel.controls["shared_KiB"].value = 64
    panel.controls["registers"].value = 32
    assert panel.current.shared == 64 * 1024 and "labkit-error" not in panel.note.value
    data, _ = panel._repr_mimebundle_()
    assert data["image/png"].startswith(b"\x89PNG") and "2 blocks of 1024" in data["text/plain"]
