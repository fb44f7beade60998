"""JupyterLab in headless Chromium: start it, run a notebook, move a panel's controls, see what shows."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

TOKEN = "labkit-browser-test"
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
SETTINGS = {
    "@jupyterlab/apputils-extension/notification": {"fetchNews": "false"},
}
READY = """() => {
    const context = window.jupyterapp?.shell?.currentWidget?.context;
    const session = context?.sessionContext;
    return Boolean(context?.isReady && session?.isReady && session.session?.kernel?.status === 'idle');
}"""


def chromium() -> str | None:
    """The path of a Chromium on this machine, or None."""
    names = ("chromium", "chromium-browser", "google-chrome", "chrome")
    return next((path for path in map(shutil.which, names) if path), None)


@contextlib.contextmanager
def server(folder: Path, home: Path) -> Iterator[str]:
    """JupyterLab on `folder`, at a free port of 127.0.0.1, its own settings and run files under `home`."""
    for plugin, value in SETTINGS.items():
        path = home / "settings" / f"{plugin}.jupyterlab-settings"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(value))
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    places = {"JUPYTER_CONFIG_DIR": "config", "JUPYTER_RUNTIME_DIR": "run", "IPYTHONDIR": "ipython"}
    environment = {**os.environ, **{name: str(home / place) for name, place in places.items()}}
    environment["JUPYTERLAB_SETTINGS_DIR"] = str(home / "settings")
    options = [
        "--ServerApp.ip=127.0.0.1", f"--ServerApp.port={port}", "--ServerApp.port_retries=0",
        f"--IdentityProvider.token={TOKEN}", "--LabApp.expose_app_in_browser=True", "--no-browser",
        f"--ServerApp.root_dir={folder}", "--allow-root",
    ]  # fmt: skip
    with (home / "server.log").open("w") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "jupyterlab", *options], env=environment, stdout=log, stderr=log
        )
        try:
            url = f"http://127.0.0.1:{port}"
            _answers(f"{url}/api?token={TOKEN}", process, home / "server.log")
            yield url
        finally:
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(20)
            process.kill()


def _answers(url: str, process: subprocess.Popen[bytes], log: Path, seconds: float = 90) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end and process.poll() is None:
        with contextlib.suppress(OSError), urllib.request.urlopen(url, timeout=5):
            return
        time.sleep(0.3)
    raise RuntimeError(f"JupyterLab did not start:\n{log.read_text()[-3000:]}")


@contextlib.contextmanager
def browser(width: int = 1280, height: int = 1000, scale: float = 1) -> Iterator[Any]:
    """A page of headless Chromium."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=chromium(), args=FLAGS)
        try:
            yield started.new_page(viewport={"width": width, "height": height}, device_scale_factor=scale)
        finally:
            started.close()


class Lab:
    """One notebook open in JupyterLab."""

    def __init__(self, page: Any, url: str, notebook: str) -> None:
        self.page = page
        page.goto(f"{url}/lab/tree/{notebook}?token={TOKEN}&reset")
        self.wait_idle(60)

    def wait_idle(self, seconds: float = 60) -> None:
        """Wait until the notebook has a kernel and that is idle."""
        self.page.wait_for_function(READY, timeout=1000 * seconds)

    def run_all(self, seconds: float = 300) -> None:
        """Run every cell and wait; an error raises with its text, unless the cell says that it raises."""
        self.page.set_default_timeout(1000 * seconds)
        self.page.evaluate("() => window.jupyterapp.commands.execute('notebook:run-all-cells')")
        self.page.set_default_timeout(30_000)
        self.wait_idle(seconds)
        errors = self.page.evaluate("""() => window.jupyterapp.shell.currentWidget.content.widgets
            .filter(cell => !(cell.model.getMetadata('tags') ?? []).includes('raises-exception'))
            .flatMap(cell => cell.model.outputs ? cell.model.outputs.toJSON() : [])
            .filter(out => out.output_type === 'error').map(out => out.traceback.join('\\n'))""")
        if errors:
            raise RuntimeError("\n".join(errors))

    def replace(self, old: str, new: str) -> None:
        """Replace `old` by `new` in the one cell that holds it."""
        changed = self.page.evaluate(
            """([old, new_]) => {
                const cells = window.jupyterapp.shell.currentWidget.content.widgets
                    .map(cell => cell.model.sharedModel).filter(model => model.getSource().includes(old));
                cells.forEach(model => model.setSource(model.getSource().replace(old, () => new_)));
                return cells.length;
            }""",
            [old, new],
        )
        if changed != 1:
            raise RuntimeError(f"{changed} cells hold {old!r}")

    def panel(self, index: int = 0) -> Panel:
        """The notebook's `index`-th panel, scrolled into view, once its figure is there."""
        return Panel(self.page.locator(".labkit-panel").nth(index))

    def theme(self, name: str) -> None:
        """Change the theme: "JupyterLab Light" or "JupyterLab Dark"."""
        self.page.evaluate("name => window.jupyterapp.commands.execute('apputils:change-theme', {theme: name})", name)
        self.page.wait_for_timeout(1500)


class Panel:
    """One panel on the page."""

    def __init__(self, place: Any) -> None:
        self.place = place
        self.figure = place.locator("img.labkit-figure")
        self.figure.wait_for(timeout=60_000)
        self.figure.scroll_into_view_if_needed()
        self.page = place.page

    @property
    def facts(self) -> str:
        """The line of facts."""
        return str(self.place.locator(".labkit-facts").text_content(timeout=30_000) or "")

    @property
    def pixels(self) -> str:
        """Something that differs when the figure does."""
        return str(
            self.figure.evaluate("""async img => {
                await img.decode();
                const canvas = document.createElement('canvas');
                canvas.width = img.naturalWidth; canvas.height = img.naturalHeight;
                canvas.getContext('2d').drawImage(img, 0, 0);
                return canvas.toDataURL();
            }""")
        )

    def handle(self, setting: str) -> Any:
        """The handle of the slider of a setting ("guess" for the reader's guess)."""
        name = ".labkit-guess" if setting == "guess" else f".labkit-set-{setting}"
        return self.place.locator(f"{name} .noUi-handle")

    def press(self, setting: str, key: str = "ArrowRight") -> None:
        """Press a key on the slider of a setting."""
        self.handle(setting).press(key)

    def at_end(self, setting: str, key: str = "ArrowRight") -> bool:
        """Whether the slider of a setting is at the end that `key` leads to."""
        end = "aria-valuemax" if key == "ArrowRight" else "aria-valuemin"
        return bool(self.handle(setting).evaluate(f"h => h.getAttribute('aria-valuenow') === h.getAttribute('{end}')"))

    def moved(self, setting: str, key: str = "ArrowRight", seconds: float = 20) -> None:
        """Press a key and wait until the figure has changed; the line of facts may come later, from the kernel."""
        before = self.pixels
        self.press(setting, key)
        self._until(lambda: self.pixels != before, f"{key} on {setting} changed nothing", seconds)

    def other_facts(self, before: str, seconds: float = 20) -> str:
        """Wait until the line of facts is no longer `before`."""
        self._until(lambda: self.facts != before, f"the facts are still {before!r}", seconds)
        return self.facts

    def _until(self, true: Callable[[], bool], otherwise: str, seconds: float) -> None:
        end = time.monotonic() + seconds
        while not true():
            if time.monotonic() > end:
                raise TimeoutError(f"{otherwise} in {seconds} s")
            self.page.wait_for_timeout(50)

    def wait_facts(self, text: str, seconds: float = 60) -> str:
        """Wait until the line of facts holds `text`."""
        self.place.locator(".labkit-facts", has_text=text).wait_for(timeout=1000 * seconds)
        return self.facts

    def screenshot(self, path: Path | str) -> None:
        """Save a picture of the whole panel."""
        self.place.screenshot(path=str(path))


@contextlib.contextmanager
def opened(notebook: Path, scale: float = 1) -> Iterator[Lab]:
    """A copy of `notebook`, with its folder, open in a JupyterLab of its own; not yet run."""
    with tempfile.TemporaryDirectory() as name:
        folder, home = Path(name, "notebooks"), Path(name, "home")
        shutil.copytree(notebook.parent, folder)
        with server(folder, home) as url, browser(scale=scale) as page:
            yield Lab(page, url, notebook.name)
