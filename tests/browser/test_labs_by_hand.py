"""The labs in a real JupyterLab: run to the end, then a slider moved by keyboard."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
labpage = pytest.importorskip("labpage")

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(labpage.chromium() is None, reason="no Chromium on this machine"),
]
NOTEBOOKS = Path(__file__).resolve().parents[2] / "notebooks"


@pytest.mark.parametrize(("notebook", "setting"), [("04_coalescing.ipynb", "stride")])
def test_a_slider_of_a_lab_changes_its_figure(notebook: str, setting: str) -> None:
    with labpage.opened(NOTEBOOKS / notebook) as opened:
        opened.run_all()
        panel = opened.panel(0)
        before = panel.facts
        after = panel.moved(setting)
        assert before != after
        assert "sectors per request" in after
