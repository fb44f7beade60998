"""Ranges: names for stretches of code, seen by nsys and by torch's profiler alike."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager


@contextmanager
def mark(name: str) -> Iterator[None]:
    """Open an NVTX range and, where torch is loaded, a torch profiler range of the same name.

    >>> with mark("load batch"):
    ...     batch = next(loader)
    """
    import nvtx

    with ExitStack() as stack:
        stack.enter_context(nvtx.annotate(name))
        if "torch" in sys.modules:
            stack.enter_context(sys.modules["torch"].profiler.record_function(name))
        yield
