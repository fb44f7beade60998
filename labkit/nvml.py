"""NVML, asked so that a refusal is an answer: what driver, GPU or user may not have is said, not raised."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any

# NVML's reasons that mean "slower than it could be"; an idle GPU and a clock that somebody set are not.
REASONS = {
    0x04: "power cap",
    0x08: "hardware slowdown",
    0x20: "temperature (software)",
    0x40: "temperature (hardware)",
    0x80: "power brake",
}

NEVER = {  # refusals that will not change while we sample
    "NotSupported": "not offered by this GPU or driver",
    "NoPermission": "permission refused",
    "FunctionNotFound": "this driver is too old for it",
    "AttributeError": "this nvidia-ml-py is too old for it",
    "ArgumentVersionMismatch": "this driver is too old for it",
}
LOST = {
    "GpuIsLost": "the GPU is lost",
    "ResetRequired": "the GPU needs a reset",
    "GpuNotFound": "the GPU has vanished",
    "DriverNotLoaded": "the driver was unloaded",
    "Uninitialized": "NVML was shut down",
}


@dataclass(frozen=True)
class Answer:
    """What NVML said: a value, or the kind of refusal by the name of NVML's error ("NoPermission")."""

    value: Any = None
    refusal: str = ""


class Nvml:
    """NVML of this machine, opened; `silent` says why there is none, and is empty where there is one."""

    def __init__(self) -> None:
        self.module: Any = None
        self.silent = "nvidia-ml-py is not installed (pip install nvidia-ml-py)"
        try:
            self.module = importlib.import_module("pynvml")
        except ImportError:
            return
        opened = self.answer("nvmlInit")
        self.silent = f"no NVIDIA driver answers ({opened.refusal})" if opened.refusal else ""

    def answer(self, name: str, *args: Any, **more: Any) -> Answer:
        """Call an NVML function: its value, or the kind of its refusal."""
        if self.module is None:
            return Answer(refusal="LibraryNotFound")
        try:
            return Answer(getattr(self.module, name)(*args, **more))
        except self.module.NVMLError as error:
            return Answer(refusal=type(error).__name__.removeprefix("NVMLError_"))
        except (AttributeError, TypeError):  # a function or a constant that this nvidia-ml-py does not have
            return Answer(refusal="AttributeError")

    def ask(self, name: str, *args: Any, **more: Any) -> Any:
        """The value of an NVML function, or None where it is refused."""
        return self.answer(name, *args, **more).value

    def number(self, name: str) -> Any:
        """One of NVML's constants, or None where this nvidia-ml-py does not know it."""
        return getattr(self.module, name, None)


def reasons(bits: int) -> tuple[str, ...]:
    """What holds the clock back, by name."""
    return tuple(name for bit, name in REASONS.items() if bits & bit)
