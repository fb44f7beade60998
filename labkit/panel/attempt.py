"""Measuring where it may fail: whatever goes wrong comes back as a LabError, and memory is given back."""

from __future__ import annotations

import gc
import re
import sys
import traceback
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from labkit.errors import LabError

if TYPE_CHECKING:
    from labkit.measurement import Measurement
    from labkit.panel.scene import Experiment

AMOUNT = re.compile(r"allocat\w*\s+([\d.,]+\s*(?:[KMGT]i?B|bytes))", re.IGNORECASE)


def attempt(experiment: Experiment, settings: dict[str, Any], again: bool = False) -> Measurement | LabError:
    """Measure, or return what went wrong. After an out-of-memory all that can be freed is freed."""
    asked = f"{experiment.name}({', '.join(f'{name}={value!r}' for name, value in settings.items())})"
    try:
        return experiment.measure(settings, again=again)
    except Exception as error:
        failure, memory = told(asked, error), _is_memory(error)
        _let_go(error)
    if memory:
        free()
    return failure


def told(asked: str, error: BaseException) -> LabError:
    """What went wrong, as a LabError: a memory shortage with its amount, else the line of the cell."""
    if isinstance(error, LabError):
        return LabError(error.asked, error.found, error.try_)
    if _is_memory(error):
        amount = AMOUNT.search(str(error))
        needed = f"{amount[1]} more were needed than there are" if amount else str(error)
        return LabError(asked, f"out of memory: {needed}", "a smaller setting: the memory is freed")
    message = str(error).strip().splitlines()
    found = f"{type(error).__name__}: {message[0]}" if message else type(error).__name__
    return LabError(asked, found + _where(error), "mend the experiment's cell and run it again")


def _where(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if "ipykernel" in frame.filename or frame.filename.startswith("<")]
    return f", in line {own[-1].lineno} of the cell: {own[-1].line}" if own else ""


def _is_memory(error: BaseException) -> bool:
    chain = (error, error.__cause__, error.__context__)
    return any(isinstance(e, MemoryError) or type(e).__name__ == "OutOfMemoryError" for e in chain)


def _let_go(error: BaseException) -> None:
    """Empty the frames of a traceback: they would keep the experiment's arrays alive."""
    for link in (error, error.__cause__, error.__context__):
        if link is not None:
            traceback.clear_frames(link.__traceback__)


def free() -> None:
    """Give back what nothing holds any more: Python's cycles, torch's and CuPy's pools."""
    gc.collect()
    torch, cupy = sys.modules.get("torch"), sys.modules.get("cupy")
    if torch is not None and torch.cuda.is_available():
        torch.cuda.empty_cache()
    if cupy is not None and cupy.is_available():
        cupy.get_default_memory_pool().free_all_blocks()
        cupy.get_default_pinned_memory_pool().free_all_blocks()


class Surroundings:
    """The CUDA device, stream and grad mode of the thread that made it, for the thread that measures.

    Widget callbacks come on another thread than cells, and all three are per thread.
    """

    def __init__(self) -> None:
        torch, cupy = sys.modules.get("torch"), sys.modules.get("cupy")
        self._settings: list[Any] = []  # each makes a fresh context manager
        if torch is not None:
            grad = torch.is_grad_enabled()
            self._settings.append(lambda: torch.set_grad_enabled(grad))
        if torch is not None and torch.cuda.is_available() and torch.cuda.is_initialized():
            stream = torch.cuda.current_stream()
            self._settings.append(lambda: torch.cuda.stream(stream))  # sets the device of the stream too
        if cupy is not None and cupy.is_available():
            device, queue = cupy.cuda.Device(), cupy.cuda.get_current_stream()
            self._settings += [lambda: device, lambda: queue]

    @contextmanager
    def here(self) -> Iterator[None]:
        """Within this block the thread has them."""
        with ExitStack() as stack:
            for setting in self._settings:
                stack.enter_context(setting())
            yield
