"""Streams and graphs: launches beside each other, and launches kept and replayed.

labkit's kernels are launched on torch's current stream where torch uses CUDA, else on CuPy's; what is made here
is made for both. On a machine without a GPU the functions run what they are given, in order.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, Literal

from .device import cupy, current_stream, is_live, torch_if
from .errors import LabError
from .kernel import being_counted

if TYPE_CHECKING:
    from collections.abc import Iterator

Fn = Callable[[], object]


class Side:
    """A stream that waits for no other one, for labkit's kernels and CuPy, and for torch if it uses CUDA."""

    def __init__(self, torch: Any) -> None:
        cp: Any = cupy()
        self._torch = torch
        self._own = torch.cuda.Stream() if torch else cp.cuda.Stream(non_blocking=True)
        with torch.cuda.stream(self._own) if torch else self._own:
            self.stream = current_stream()  # as CuPy's

    @contextmanager
    def here(self) -> Iterator[None]:
        """Within this block kernels are launched on it."""
        with ExitStack() as stack:
            if self._torch is not None:
                stack.enter_context(self._torch.cuda.stream(self._own))
            stack.enter_context(self.stream)
            yield


@functools.cache
def _kept(index: int, torch: Any) -> Side:
    return Side(torch)


def _side(index: int) -> Side:
    """The side stream of that number; they are kept, for making one takes longer than a launch."""
    torch = torch_if()
    return _kept(index, torch if torch is not None and torch.cuda.is_initialized() else None)


def awaited(fn: Fn) -> None:
    """Run `fn` and wait until the GPU has done what it launched on the current stream."""
    fn()
    if is_live():
        current_stream().synchronize()


def spread(calls: Sequence[Fn], count: int) -> None:
    """Run `calls` in turn on `count` streams, which start after the current stream and which it waits for.

    Raises LabError where it would have to be modelled: the emulator counts kernels, not what overlaps.
    """
    if being_counted() is not None:
        found = "not recorded, and the emulator counts kernels, not what runs beside what"
        raise LabError(f"model {len(calls)} calls on {count} streams", found, "a recorded setting, or a GPU")
    if not is_live() or count == 1:
        for call in calls:
            call()
        return
    now, cp, sides = current_stream(), cupy(), [_side(index) for index in range(count)]
    assert cp is not None
    start = now.record(cp.cuda.Event(disable_timing=True))
    for side in sides:
        side.stream.wait_event(start)
    for index, call in enumerate(calls):
        with sides[index % count].here():
            call()
    for side in sides:
        now.wait_event(side.stream.record(cp.cuda.Event(disable_timing=True)))


def graph(fn: Fn, by: Literal["torch", "CuPy"] = "torch") -> Fn:
    """Keep what `fn` launches as a CUDA graph; returns a function that launches all of it at once.

    by: whose graph it is. `fn` is run once before, so that kernels are loaded; it may neither wait nor allocate,
    and the arrays it uses have to stay. The graph runs on the stream that is current when it is launched.
    Raises LabError if torch is asked and sees no GPU.
    """
    if not is_live():
        return fn
    side = _side(0)
    with side.here():
        fn()
        side.stream.synchronize()
    return _torch_graph(fn) if by == "torch" else _cupy_graph(fn, side)


def _torch_graph(fn: Fn) -> Fn:
    torch = torch_if(loaded=False)
    if torch is None:
        raise LabError("a graph by torch", "torch sees no GPU", 'graph(fn, by="CuPy")')
    kept = torch.cuda.CUDAGraph()
    with torch.cuda.graph(kept):
        fn()
    replay: Fn = kept.replay
    return replay


def _cupy_graph(fn: Fn, side: Side) -> Fn:
    with side.here():
        side.stream.begin_capture()
        try:
            fn()
        finally:
            kept: Any = side.stream.end_capture()
    return lambda: kept.launch(current_stream())
