"""labkit: measure what makes a GPU fast, on one or without one. Do not guess, measure.

import labkit
copy = labkit.kernel(source)                       # CUDA C; runs on a GPU, or in the emulator
copy(grid, block, (a, b, n))
copy.count(grid, block, (a, b, n))                 # sectors, bank conflicts, by source line

@labkit.experiment(stride=[1, 2, 4, 8])
def strided(stride): return labkit.Work(run, bytes=…)
strided.panel()                                    # sliders over real measurements
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

from .errors import LabError

if TYPE_CHECKING:
    from .claims import claim
    from .device import device, use
    from .doctor import doctor
    from .exercise import check
    from .experiment import Work, experiment
    from .kernel import kernel
    from .marks import mark
    from .model import forecast
    from .monitor import Monitor
    from .panel import predict
    from .timing import benchmark, compare

    xp: Any

# name → module that holds it; imported when first used, so that `import labkit` stays instant.
_ROOMS = {
    "benchmark": "timing",
    "check": "exercise",
    "claim": "claims",
    "compare": "timing",
    "device": "device",
    "doctor": "doctor",
    "experiment": "experiment",
    "forecast": "model",
    "kernel": "kernel",
    "mark": "marks",
    "Monitor": "monitor",
    "predict": "panel",
    "use": "device",
    "Work": "experiment",
}

__all__ = [
    "LabError",
    "Monitor",
    "Work",
    "benchmark",
    "check",
    "claim",
    "compare",
    "device",
    "doctor",
    "experiment",
    "forecast",
    "kernel",
    "mark",
    "predict",
    "use",
    "xp",
]


class _Face(ModuleType):
    """`labkit.kernel` is the function, though a module of that name holds it.

    Importing a submodule sets it as an attribute of the package; here the function keeps the name.
    """

    def __setattr__(self, name: str, value: Any) -> None:
        if not (name in _ROOMS and isinstance(value, ModuleType)):
            super().__setattr__(name, value)

    def __getattr__(self, name: str) -> Any:
        if name == "xp":
            from .device import array_module

            value: Any = array_module()
        elif name in _ROOMS:
            value = getattr(importlib.import_module(f".{_ROOMS[name]}", __name__), name)
        else:
            raise AttributeError(f"module 'labkit' has no attribute {name!r}")
        setattr(self, name, value)
        return value

    def __dir__(self) -> list[str]:
        return sorted(__all__)


sys.modules[__name__].__class__ = _Face
