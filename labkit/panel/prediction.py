"""predict(): a slider that keeps the reader's number, and is that number in arithmetic."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from labkit.errors import LabError

LOG_FROM = 20.0  # a range that spans more than this factor gets a logarithmic slider


class Prediction:
    """The reader's number: `float(p)`, `p * 2`, `p < 30` read the slider as it stands."""

    def __init__(self, question: str, low: float, high: float, value: float, log: bool) -> None:
        self.question, self.low, self.high, self.log = question, low, high, log
        self._value = value
        self.slider: Any = None

    @property
    def value(self) -> float:
        """The number as it stands."""
        return self._value if self.slider is None else float(self.slider.value)

    def watch(self, changed: Callable[[float], None]) -> None:
        """Call `changed` with the number whenever the reader moves the slider."""
        if self._widget() is not None:
            self.slider.observe(lambda change: changed(float(change["new"])), names="value")

    def _widget(self) -> Any:
        if self.slider is None:
            try:
                import ipywidgets
            except ImportError:
                return None
            self.slider = _slider(ipywidgets, self)
        return self.slider

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        text = {"text/plain": repr(self)}
        widget = self._widget()
        return text if widget is None else {**widget._repr_mimebundle_(), **text}

    def __repr__(self) -> str:
        return f"{self.question}: {self.value:.3g} (your prediction, between {self.low:g} and {self.high:g})"

    def __float__(self) -> float:
        return self.value

    def __int__(self) -> int:
        return int(self.value)

    def __round__(self, digits: int | None = None) -> float:
        return round(self.value, digits)

    def __format__(self, spec: str) -> str:
        return format(self.value, spec)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        import numpy

        return numpy.asarray(self.value, dtype=dtype)

    def __hash__(self) -> int:
        return id(self)


def _forward(name: str) -> Callable[..., Any]:
    def operate(self: Prediction, *other: Any) -> Any:
        plain = [o.value if isinstance(o, Prediction) else o for o in other]
        if plain and not isinstance(plain[0], int | float):
            return NotImplemented  # an array or a unit knows better what to do with a float
        return getattr(float, name)(self.value, *map(float, plain))

    return operate


_TWO = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow")
_OPERATIONS = (
    *_TWO,
    *(f"r{name}" for name in _TWO),
    "eq",
    "ne",
    "lt",
    "le",
    "gt",
    "ge",
    "neg",
    "pos",
    "abs",
    "bool",
)
for _name in _OPERATIONS:
    setattr(Prediction, f"__{_name}__", _forward(f"__{_name}__"))


def _slider(widgets: Any, p: Prediction) -> Any:
    look = {
        "style": {"description_width": "initial"},
        "layout": {"width": "min(100%, 640px)"},
        "description": p.question,
        "readout_format": ".3g",
    }
    if p.log:
        ends = {"min": math.log10(p.low), "max": math.log10(p.high)}
        slider = widgets.FloatLogSlider(value=p._value, step=(ends["max"] - ends["min"]) / 100, **ends, **look)
    else:
        slider = widgets.FloatSlider(value=p._value, min=p.low, max=p.high, step=(p.high - p.low) / 100, **look)
    slider.add_class("labkit-predict")
    return slider


def predict(question: str, low: float, high: float, default: float | None = None) -> Prediction:
    """Ask the reader for a number before it is measured.

    question: what is asked, with its unit. low, high: the ends of the slider; logarithmic where both are
    positive and far apart. default: where it stands at first; the middle of the scale if left out.
    Returns a Prediction, usable as a number. Raises LabError if the range is empty or the default outside it.

    >>> guess = predict("share of the copy ceiling at stride 8, %", 1, 100)
    """
    asked = f"predict({question!r}, {low!r}, {high!r})"
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise LabError(asked, "the range is empty", "a low end below the high end")
    log = low > 0 and high / low >= LOG_FROM
    middle = math.sqrt(low * high) if log else (low + high) / 2
    value = float(middle if default is None else default)
    if not low <= value <= high:
        raise LabError(asked, f"default={default!r} is outside it", f"a default between {low!r} and {high!r}")
    return Prediction(question, float(low), float(high), value, log)
