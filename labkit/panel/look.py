"""What panels share: their style, and a figure whose pixels change fast."""

from __future__ import annotations

import base64
from typing import Any

from labkit.errors import LabError

STYLE = (
    # What changes inside a panel must not make the browser lay out or paint the whole notebook again.
    "<style>.labkit-panel{contain:content;will-change:transform}.labkit-figure{border-radius:6px}"
    ".labkit-note{line-height:1.5;font-size:var(--jp-ui-font-size1,13px)}"
    ".labkit-busy{opacity:.75;font-style:italic}"
    ".labkit-error{white-space:pre-wrap;margin:0;padding:6px 10px;border-left:4px solid #d55e00;"
    "font-family:var(--jp-code-font-family,monospace)}</style>"
)


def widgets() -> Any:
    """ipywidgets; LabError if it, or anywidget, which keeps the next figures in the browser, is not installed."""
    try:
        import anywidget  # noqa: F401 — asked for here, so that the message comes before any measuring
        import ipywidgets
    except ImportError as error:
        raise LabError("a panel", f"{error.name} is not installed", f"pip install {error.name}; or .plot()") from error
    return ipywidgets


def image(width: int) -> Any:
    """Return the widget for a figure of `width` CSS pixels, less where there is no room."""
    import ipywidgets

    made = ipywidgets.Image(format="url", layout={"width": "100%", "max_width": f"{width}px"})
    made.add_class("labkit-figure")
    return made


def show(widget: Any, png: bytes) -> None:
    """Show `png` in a widget of `image`."""
    widget.value = url(png)


def url(png: bytes) -> bytes:
    """A PNG as a data URL, which the browser has sooner than a blob."""
    return b"data:image/png;base64," + base64.b64encode(png)
