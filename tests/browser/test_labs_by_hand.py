"""The labs in a real JupyterLab: run to the end, then a slider moved by keyboard."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
labpage = pytest.importorskip("labpage")

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(labpage.chromium() is None, reason="no Chromium on this machine"),
]
NOTEBOOKS = Path(__file__).resolve().parents[2] / "notebooks"


@pytest.fixture(scope="module")
def coalescing() -> Iterator[labpage.Lab]:
    """The coalescing lab, run to its end."""
    with labpage.opened(NOTEBOOKS / "04_coalescing.ipynb") as lab:
        lab.run_all()
        yield lab


def test_a_slider_changes_the_figure_and_the_facts(coalescing: labpage.Lab) -> None:
    panel = coalescing.panel(0)
    before = panel.facts
    panel.moved("stride")
    after = panel.other_facts(before)
    assert "sectors per request" in after
    assert "recorded" in after or "live" in after


def test_a_changed_kernel_is_modelled_and_counted(coalescing: labpage.Lab) -> None:
    """Neighbours swap places: the same sectors, the same result, but not the recorded code."""
    coalescing.replace("unsigned j = i * stride;", "i ^= 1;\n    unsigned j = i * stride;")
    coalescing.run_all()
    panel = coalescing.panel(0)
    assert "4.0 sectors per request" in panel.wait_facts("modelled")
    panel.moved("stride")
    panel.wait_facts("8.0 sectors per request")
