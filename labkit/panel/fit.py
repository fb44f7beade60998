"""Sliders for what a block needs, beside the places it leaves on an SM."""

from __future__ import annotations

import html
import threading
from typing import TYPE_CHECKING, Any

from labkit.errors import LabError
from labkit.occupancy import Occupancy, occupancy
from labkit.panel.controls import control
from labkit.panel.look import STYLE, image, widgets
from labkit.plots.occupancy import WIDTH, Frames
from labkit.plots.sheet import QUICK, SHARP

if TYPE_CHECKING:
    from labkit.device import Device

SHARED = "shared_KiB"


class Fit:
    """What `occupancy.panel()` returns; shows itself as widgets, and as a picture where there are none."""

    def __init__(self, fit: Occupancy) -> None:
        w = widgets()
        from labkit.panel.ahead import Ahead

        self.device: Device = fit.device
        self.current = fit
        self._quick, self._sharp = Frames(fit, QUICK), Frames(fit, SHARP)
        self._lock = threading.RLock()
        self.controls = {name: control(name, values, values[-1]) for name, values in _values(fit).items()}
        self.image = image(WIDTH)
        self.note = w.HTML(layout={"width": "calc(100% - 16px)", "margin": "4px 8px"})
        for name, now in (("registers", fit.registers), (SHARED, fit.shared / 1024), ("block", fit.block)):
            self.controls[name].value = now
            self.controls[name].observe(self._moved, names="value")
        beside = w.HBox(
            [w.VBox(list(self.controls.values()), layout={"flex": "0 1 285px", "min_width": "230px"}),
             w.VBox([self.image], layout={"flex": "1 1 380px", "max_width": f"{WIDTH + 8}px"})],
            layout={"flex_flow": "row wrap", "align_items": "center"},
        )  # fmt: skip
        self.widget = w.VBox([beside, self.note, w.HTML(STYLE, layout={"height": "0"})])
        self.widget.add_class("labkit-panel")
        self._ahead = Ahead(self.image, list(self.controls.values()), self._now, self._drawn, self._lock)
        self._say()

    def _moved(self, _: Any = None) -> None:
        with self._lock:
            try:
                self.current = self._at(self._ahead.values())
            except LabError as error:
                self.note.value = f"<div class='labkit-error'>{html.escape(str(error).strip())}</div>"
                return
            self._ahead.moved()
            self._say()

    def _at(self, values: tuple[Any, ...]) -> Occupancy:
        registers, shared, block = values
        return occupancy(self.device, registers, round(1024 * shared), block)

    def _drawn(self, values: tuple[Any, ...]) -> bytes | None:
        try:
            return self._sharp.frame(self._at(values))
        except LabError:
            return None

    def _now(self, sharp: bool) -> bytes:
        return (self._sharp if sharp else self._quick).frame(self.current)

    @property
    def picture(self) -> bytes:
        """The figure as it stands, a PNG."""
        return self._ahead.picture

    def _say(self) -> None:
        self.note.value = f"<span class='labkit-facts'>{html.escape(str(self.current))} · {self.device.name}</span>"

    def _repr_mimebundle_(self, **_: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        """The widgets, and for views without a kernel the figure and the sentence as they stand."""
        bundle = {"text/plain": str(self.current), "image/png": self.picture}
        return {**self.widget._repr_mimebundle_(), **bundle}, {"image/png": {"width": WIDTH}}


def _values(fit: Occupancy) -> dict[str, list[Any]]:
    limit = fit.device.limits
    return {
        "registers": list(range(1, limit.registers_per_thread + 1)),
        SHARED: sorted({*range(limit.shared_per_block // 1024 + 1), fit.shared / 1024}),
        "block": sorted({*range(32, 1025, 32), fit.block}),
    }
