"""Panels in a real JupyterLab: sliders moved by keyboard change the figure and the facts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

nbformat = pytest.importorskip("nbformat")
pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
labpage = pytest.importorskip("labpage")

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(labpage.chromium() is None, reason="no Chromium on this machine"),
]
TESTS = Path(__file__).resolve().parents[1]
CELLS = (
    f"import sys\nsys.path.insert(0, {str(TESTS)!r})\nimport fakes\nfrom labkit.panel import panel, predict",
    "guess = predict('share of copy at stride 8, %', 1, 100)\nguess",
    "strided = fakes.Experiment()\npanel(strided, guess=guess)",
    "slow = fakes.Experiment(delay=0.5, known=False, impossible=512)\npanel(slow)",
)


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[labpage.Lab]:
    """A notebook with a panel of recorded numbers and one that has to measure, run to its end."""
    notebook = tmp_path_factory.mktemp("notebooks") / "panels.ipynb"
    cells = [nbformat.v4.new_code_cell(source) for source in CELLS]
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3"}}
    nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata=kernel), notebook)
    with labpage.opened(notebook) as opened:
        opened.run_all()
        yield opened


def test_each_slider_changes_the_figure(lab: labpage.Lab) -> None:
    panel = lab.panel(0)
    facts = panel.facts
    for setting in ("stride", "block"):
        panel.moved(setting)
        facts = panel.other_facts(facts)
    panel.moved("guess")


def test_going_back_shows_the_same_again(lab: labpage.Lab) -> None:
    panel = lab.panel(0)
    lab.page.wait_for_timeout(RESTS)
    facts, pixels = panel.facts, panel.pixels
    panel.moved("stride")
    panel.moved("stride", "ArrowLeft")
    lab.page.wait_for_timeout(RESTS)
    assert (panel.facts, panel.pixels) == (facts, pixels)


RESTS = 2500  # ms; until the figure is sharp and the next ones are there
HOLD = """() => {
    const send = WebSocket.prototype.send, held = [];
    WebSocket.prototype.send = function (message) { held.push([this, message]); };
    window.release = () => {
        WebSocket.prototype.send = send;
        for (const [socket, message] of held) send.call(socket, message);
    };
}"""
CHANGES = """image => {
    window.changes = 0;
    new MutationObserver(() => window.changes++).observe(image, {attributes: true, attributeFilter: ['src']});
}"""


def test_after_a_rest_a_press_needs_no_answer_and_a_late_one_changes_nothing(lab: labpage.Lab) -> None:
    panel = lab.panel(0)
    panel.moved("stride")
    lab.page.wait_for_timeout(RESTS)
    lab.page.evaluate(HOLD)
    before = panel.facts
    panel.moved("stride")
    panel.moved("stride")
    panel.figure.evaluate(CHANGES)
    assert panel.facts == before  # the kernel has not heard of it
    lab.page.evaluate("window.release()")
    lab.page.wait_for_timeout(RESTS)
    assert panel.facts != before
    assert lab.page.evaluate("window.changes") == 0


def test_a_panel_measures_what_it_does_not_know_and_survives_what_is_impossible(lab: labpage.Lab) -> None:
    panel = lab.panel(1)
    panel.moved("stride")
    panel.press("block", "End")
    panel.place.locator(".labkit-error", has_text="asked:").wait_for(timeout=20_000)
    panel.press("block", "Home")
    panel.wait_facts("GB/s")
    panel.moved("stride")


def test_the_sweep_can_be_stopped(lab: labpage.Lab) -> None:
    panel = lab.panel(1)
    panel.place.get_by_role("button", name="sweep").click()
    panel.place.get_by_role("button", name="stop").click()
    panel.place.get_by_role("button", name="sweep").wait_for(timeout=20_000)
