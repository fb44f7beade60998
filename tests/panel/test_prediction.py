"""A prediction is a number, with a slider where there are widgets."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from labkit.errors import LabError
from labkit.panel import predict


@given(st.floats(-1e6, 1e6), st.floats(1e-3, 1e6))
def test_the_default_is_inside_the_range(low, width):
    p = predict("how many?", low, low + width)
    assert p.low <= float(p) <= p.high


def test_the_middle_is_geometric_where_the_range_is_wide():
    assert float(predict("q", 1, 100)) == pytest.approx(10)
    assert float(predict("q", 10, 30)) == 20
    assert float(predict("q", 0, 100)) == 50


def test_it_counts_as_its_number():
    p = predict("q", 0, 100, default=30)
    assert (p + 1, 1 + p, p - 1, 1 - p, p * 2, p / 2, 60 / p, p**2, -p) == (
        31,
        31,
        29,
        -29,
        60,
        15,
        2,
        900,
        -30,
    )
    assert p == 30
    assert p < 31
    assert p > predict("q", 0, 10)
    assert round(p) == 30
    assert f"{p:.1f}" == "30.0"
    assert np.array_equal(np.array([1.0, 2.0]) * p, [30, 60])


def test_it_follows_its_slider_and_tells_who_watches():
    p = predict("q", 1, 100)
    seen = []
    p.watch(seen.append)
    p.slider.value = 25
    assert float(p) == pytest.approx(25)
    assert seen == [pytest.approx(25)]
    assert "application/vnd.jupyter.widget-view+json" in p._repr_mimebundle_()


def test_without_widgets_it_is_text(monkeypatch):
    monkeypatch.setitem(sys.modules, "ipywidgets", None)
    p = predict("share", 1, 100)
    assert p._repr_mimebundle_() == {"text/plain": "share: 10 (your prediction, between 1 and 100)"}


@pytest.mark.parametrize("arguments", [(3, 3), (5, 1), (0, float("nan")), (0, 1, 2)])
def test_an_empty_range_or_a_default_outside_is_refused(arguments):
    with pytest.raises(LabError):
        predict("q", *arguments)
