"""From a key press on a panel's slider to changed pixels, in headless Chromium.

    python benchmarks/slider.py notebooks/04_coalescing.ipynb --panel 0 --presses 60

The time runs from the browser's keydown event to the first frame after the figure's new image is decoded.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import statistics
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "browser"))

import labpage  # noqa: E402 — found through the line above

RESTS = 2000  # ms
WATCH = """image => {
    window.presses = [];
    let pressed = null;
    document.addEventListener('keydown', () => { pressed = performance.now(); }, true);
    new MutationObserver(async () => {
        const since = pressed;
        pressed = null;
        if (since === null) return;
        await image.decode();
        requestAnimationFrame(() => {
            const after = new MessageChannel();
            after.port1.onmessage = () => window.presses.push(performance.now() - since);
            after.port2.postMessage(0);
        });
    }).observe(image, {attributes: true, attributeFilter: ['src']});
}"""


def latencies(panel: labpage.Panel, setting: str, presses: int) -> list[float]:
    """Milliseconds of `presses` key presses, to and fro along a slider, each after the last one's figure.

    The panel has rested before, as it has when a reader comes to it. A press that changes nothing has no time.
    """
    from playwright.sync_api import TimeoutError as Missed

    key, page = "ArrowRight", panel.page
    page.wait_for_timeout(RESTS)
    page.evaluate("window.presses = []")
    for _ in range(presses):
        if panel.at_end(setting, key):  # a press there would change nothing
            key = "ArrowLeft" if key == "ArrowRight" else "ArrowRight"
        seen = page.evaluate("window.presses.length")
        panel.press(setting, key)
        page.wait_for_timeout(100)
        with contextlib.suppress(Missed):
            page.wait_for_function("n => window.presses.length > n", arg=seen, timeout=1500)
    return [float(ms) for ms in page.evaluate("window.presses")]


def main() -> None:
    """Print a table of p50 and p95 for each slider of a panel."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("notebook", type=Path)
    parser.add_argument("--panel", type=int, default=0)
    parser.add_argument("--presses", type=int, default=60)
    parser.add_argument("--scale", type=float, default=1, help="device pixels per CSS pixel of the browser")
    chosen = parser.parse_args()
    with labpage.opened(chosen.notebook, chosen.scale) as lab:
        lab.run_all()
        panel = lab.panel(chosen.panel)
        panel.figure.evaluate(WATCH)
        print(f"{chosen.notebook.name}, panel {chosen.panel}, Chromium headless, {os.cpu_count()} cores")
        print("{:<14}{:>8}{:>9}{:>9}{:>9}".format("slider", "presses", "p50 ms", "p95 ms", "max ms"))
        for setting in sliders(panel):
            times = latencies(panel, setting, chosen.presses)
            shown = (
                statistics.median(times),
                statistics.quantiles(times, n=20, method="inclusive")[18],
                max(times),
            )
            print(f"{setting:<14}{len(times):>8}" + "".join(f"{ms:>9.1f}" for ms in shown))


SLIDERS = """place => [...place.querySelectorAll('[class*=labkit-set-], .labkit-guess')]
    .filter(part => part.querySelector('.noUi-handle'))
    .map(part => [...part.classList].find(name => name.startsWith('labkit-')))"""


def sliders(panel: labpage.Panel) -> list[str]:
    """The settings of a panel that have a slider, and the guess."""
    return [str(name).removeprefix("labkit-").removeprefix("set-") for name in panel.place.evaluate(SLIDERS)]


if __name__ == "__main__":
    main()
