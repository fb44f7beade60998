"""The monitoring lab in a real JupyterLab: a recorded workload is played, paused, and moved through."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
labpage = pytest.importorskip("labpage")

ROOT = Path(__file__).resolve().parents[2]
RECORDED = sorted(ROOT.glob("data/recordings/*/01_monitoring.json"))
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(labpage.chromium() is None, reason="no Chromium on this machine"),
    pytest.mark.skipif(not RECORDED, reason="the monitoring lab is not recorded yet"),
]


@pytest.fixture(scope="module")
def monitoring() -> Iterator[labpage.Lab]:
    """The monitoring lab, run to its end."""
    with labpage.opened(ROOT / "notebooks" / "01_monitoring.ipynb") as lab:
        lab.run_all()
        yield lab


def test_a_recording_plays_and_pauses(monitoring: labpage.Lab) -> None:
    panel, page = monitoring.panel(0), monitoring.page
    assert "recorded" in panel.facts
    before = panel.pixels
    panel.place.locator(".labkit-start-bursts").click()
    page.wait_for_timeout(2500)
    assert panel.pixels != before
    panel.place.locator(".labkit-pause").click()
    page.wait_for_timeout(500)
    time = panel.place.locator(".labkit-time .widget-readout")
    assert 1.0 < float(time.text_content()) < 9.0
    here, frame = time.text_content(), panel.pixels
    page.wait_for_timeout(500)
    assert time.text_content() == here and panel.pixels == frame
    panel.place.locator(".labkit-time .noUi-handle").press("ArrowRight")
    page.wait_for_timeout(500)
    assert panel.pixels != frame


def test_every_claim_has_a_verdict(monitoring: labpage.Lab) -> None:
    claims = monitoring.page.locator(".labkit-claim").all_text_contents()
    assert [text[:2] for text in claims] == ["M1", "M2", "M3", "M4"]
    assert all("recorded" in text and "not measured" not in text for text in claims)
