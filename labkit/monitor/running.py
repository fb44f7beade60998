"""A piece of work run again and again in a thread and a CUDA stream of its own, and counted."""

from __future__ import annotations

import gc
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, Protocol

from ..device import cupy, current_stream, torch_if
from ..errors import LabError
from ..experiment import Work

BURST = 0.005  # seconds of work queued at once; two bursts are in flight, so a stop takes that long
MOST = 2000  # steps of a burst


class Queue(Protocol):
    """What the runner needs of a device: a mark behind all that is queued, and waiting for one."""

    def here(self) -> AbstractContextManager[Any]:
        """Within this block work is queued here."""

    def mark(self) -> Any:
        """A mark behind the work queued so far."""

    def wait(self, mark: Any) -> None:
        """Return when all before the mark is done."""

    def free(self) -> None:
        """Give memory that nothing holds back to the driver, so that the memory meter shows it."""


class CudaQueue:
    """A stream of torch's; waiting sleeps, so that the CPU meter shows the work and not the wait."""

    def __init__(self, torch: Any) -> None:
        self._torch, self._stream = torch, torch.cuda.Stream()

    @contextmanager
    def here(self) -> Iterator[None]:
        self._stream.wait_stream(self._torch.cuda.current_stream())
        with self._torch.cuda.stream(self._stream), current_stream() if cupy() is not None else nullcontext():
            yield

    def mark(self) -> Any:
        made = self._torch.cuda.Event(blocking=True)
        made.record(self._stream)
        return made

    def wait(self, mark: Any) -> None:
        mark.synchronize()

    def free(self) -> None:
        gc.collect()
        self._torch.cuda.empty_cache()


class CpuQueue:
    """Work that is done when its call returns."""

    def here(self) -> AbstractContextManager[Any]:
        return nullcontext()

    def mark(self) -> Any:
        return None

    def wait(self, mark: Any) -> None:
        pass

    def free(self) -> None:
        pass


def queue() -> Queue:
    """A queue of this machine's GPU, or of the CPU."""
    torch = torch_if(loaded=False)
    return CpuQueue() if torch is None else CudaQueue(torch)


_turn = threading.Lock()  # one workload at a time in the process: two would be seen as one by the meters
_current: Runner | None = None


class Runner:
    """Runs what `make()` returns until stopped, and counts the steps that have ended.

    Starting one ends the one before. `work` is there once the first step has run and its check, if any, has passed.
    """

    def __init__(self, make: Callable[[], Work], on: Queue | None = None) -> None:
        self.work: Work | None = None
        self._tick = (time.monotonic(), 0)
        self.error: BaseException | None = None
        self._make, self._on = make, on or queue()
        self._ended, self._ready = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="labkit workload", daemon=True)
        global _current
        if _current is not None:
            _current.end()
        _current = self
        self._thread.start()

    def ready(self, seconds: float = 120.0) -> Work:
        """Wait for the first step. Raises what it raised."""
        self._ready.wait(seconds)
        if self.error is not None:
            raise self.error
        if self.work is None:
            raise LabError("start a workload", f"its first step is not done after {seconds:.0f} s", "a smaller one")
        return self.work

    def end(self) -> None:
        """Ask it to end, without waiting."""
        self._ended.set()

    def stop(self) -> None:
        """End after what is queued. Raises what ended it early."""
        self.end()
        self._thread.join()
        if self.error is not None:
            raise self.error

    @property
    def running(self) -> bool:
        """Whether it goes on."""
        return self._thread.is_alive()

    def rate(self, since: tuple[float, int]) -> float:
        """Steps per second since a `now()`; nan if none has ended since."""
        at, done = self.now()
        return (done - since[1]) / (at - since[0]) if done > since[1] else math.nan

    def now(self) -> tuple[float, int]:
        """When the last step ended, in seconds, and how many have ended."""
        return self._tick

    def _run(self) -> None:
        try:
            with _turn, self._on.here():
                self._work_on()
        except BaseException as error:  # raised again in the thread that waits for it
            self.error = error
        finally:
            self.work = None
            self._ready.set()

    def _work_on(self) -> None:
        if self._ended.is_set():
            return
        self._on.free()  # what the workload before held may have been let go only now
        try:
            self._first_then_on()
        finally:  # the arrays are out of reach now
            self.work = None
            self._on.free()

    def _first_then_on(self) -> None:
        work, seconds = self._first()
        self.work, self._tick = work, (time.monotonic(), 0)
        self._ready.set()
        self._go_on(work, min(max(int(BURST / seconds), 1), MOST))

    def _first(self) -> tuple[Work, float]:
        """Make the work, run it, check it; then time one step."""
        work = self._make()
        self._step(work)
        if work.check is not None and work.check() is False:
            raise LabError("start a workload", "its check says the result is wrong", "mend it before watching it")
        began = time.monotonic()
        self._step(work)
        return work, max(time.monotonic() - began, 1e-6)

    def _step(self, work: Work) -> None:
        work.run()
        self._on.wait(self._on.mark())

    def _go_on(self, work: Work, burst: int) -> None:
        flying: deque[Any] = deque()
        while not self._ended.is_set():
            for _ in range(burst):
                work.run()
            flying.append(self._on.mark())
            if len(flying) > 2:
                self._ended_by(flying.popleft(), burst)
        while flying:
            self._ended_by(flying.popleft(), burst)

    def _ended_by(self, mark: Any, steps: int) -> None:
        self._on.wait(mark)
        self._tick = (time.monotonic(), self._tick[1] + steps)
