"""One control for each setting of a grid: numbers slide, names toggle or drop down, a yes or no is ticked."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from labkit.plots.axis import is_number, short

LABEL = {"description_width": "78px"}
WIDE = {"width": "98%"}
ROW = {**WIDE, "display": "flex", "flex_flow": "row nowrap", "align_items": "baseline"}
TOGGLES = 26  # as many letters fit beside each other; longer lists of names drop down


def control(name: str, values: Sequence[Any], value: Any) -> Any:
    """Return the widget for setting `name` over its listed `values`; its `.value` is one of them."""
    made = _kind(values)(name.replace("_", " "), values, value)
    made.add_class(f"labkit-set-{name}")
    return made


def _kind(values: Sequence[Any]) -> Callable[[str, Sequence[Any], Any], Any]:
    if all(isinstance(value, bool) for value in values):
        return _check if len(set(values)) == 2 else _toggles
    if all(map(is_number, values)):
        return _slide
    return _toggles if sum(len(str(value)) + 2 for value in values) <= TOGGLES else _drop


def _slide(label: str, values: Sequence[Any], value: Any) -> Any:
    listed = [(short(v), v) for v in sorted(values)]
    return quiet("SelectionSlider")(description=label, options=listed, value=value, style=LABEL, layout=WIDE)


@functools.cache
def quiet(slider: str) -> Any:
    """A SelectionSlider or FloatSlider that doesn't echo its moves: a message less before the figure's."""
    import ipywidgets
    import traitlets

    traits: dict[str, tuple[str, Any]] = {
        "SelectionSlider": ("index", traitlets.Int(None, allow_none=True)),
        "FloatSlider": ("value", traitlets.CFloat(0.0)),
    }
    name, trait = traits[slider]
    return type(f"Quiet{slider}", (getattr(ipywidgets, slider),), {name: trait.tag(sync=True, echo_update=False)})


def _toggles(label: str, values: Sequence[Any], value: Any) -> Any:
    import ipywidgets

    look = {**LABEL, "button_width": "auto"}
    listed = [(str(v), v) for v in values]
    return ipywidgets.ToggleButtons(description=label, options=listed, value=value, style=look, layout=ROW)


def _drop(label: str, values: Sequence[Any], value: Any) -> Any:
    import ipywidgets

    listed = [(str(v), v) for v in values]
    return ipywidgets.Dropdown(description=label, options=listed, value=value, style=LABEL, layout=WIDE)


def _check(label: str, values: Sequence[Any], value: Any) -> Any:
    import ipywidgets

    return ipywidgets.Checkbox(description=label, value=value, style=LABEL, layout=WIDE)
