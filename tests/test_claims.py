"""A claim is shown with a verdict, its evidence, and the origin of its numbers."""

import pytest

import labkit
from labkit import LabError
from labkit.device import known
from labkit.measurement import Measurement

M = Measurement("read", {"n": 1}, 1e-3, 0.01, 1e6, 0.0, "recorded", known("nvidia-h200"), "2026-12-01")


def test_a_claim_shows_where_its_numbers_are_from():
    claim = labkit.claim("C1", "Neighbours <read> neighbours.", "confirmed", "4 sectors", of=[M, M])
    assert str(claim).count("recorded, NVIDIA H200, 2026-12-01") == 1
    assert "&lt;read&gt;" in claim._repr_html_()


def test_a_verdict_is_one_of_three_and_rests_on_something():
    with pytest.raises(LabError, match="refuted"):
        labkit.claim("C1", "…", "plausible", "…", of=M)
    with pytest.raises(LabError, match="measure"):
        labkit.claim("C1", "…", "confirmed", "…", of=[])


def test_a_missing_number_makes_no_verdict():
    claim = labkit.claim("M1", "…", "confirmed", f"it reads {float('nan'):.0f} %", of=M)
    assert claim.verdict == "not measured" and "nan" not in claim._repr_html_()
    assert labkit.claim("M1", "…", "confirmed", "a nanosecond", of=M).verdict == "confirmed"
