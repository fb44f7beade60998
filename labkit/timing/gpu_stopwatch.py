"""The GPU's stopwatch: events around each window, in a stream that is blocked until all is queued.

How a window is measured. The stream is first held by a kernel that waits for a word in host memory; the
windows are queued behind it; then the word is written. The GPU thus finds event, work, event, … ready one
after the other, and the CPU's launch overhead cannot be inside a window. What a window holds beyond the
work (an event's own time, a launch on an idle stream) is measured by the rulers, two spins of N and 2N
cycles of the SM's clock in windows of the same kind: 2 × the first - the second is the window without work.
"""

from __future__ import annotations

import functools
import linecache
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any, Literal

import numpy as np

from ..device import cupy, current_stream
from ..errors import LabError
from .clock import Gauge, Health
from .stopwatch import CpuStopwatch, Fn, Stopwatch, Windows

PULSE = 0.02  # seconds between two readings of the clock
HERE, STDLIB = str(Path(__file__).parent), str(Path(threading.__file__).parent)
LIBRARIES = ("site-packages", "dist-packages", HERE, STDLIB)

SOURCE = r"""
typedef unsigned long long u64;

__device__ u64 nanoseconds() {
    u64 t;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(t));
    return t;
}

// Holds the stream until the host writes the ticket, or patience ends: a lost host must not hang the GPU.
extern "C" __global__ void hold(volatile unsigned* flag, unsigned ticket, u64 patience) {
    u64 start = nanoseconds();
    while (flag[0] != ticket)
        if (nanoseconds() - start > patience) {
            flag[1] = ticket;
            break;
        }
}

// Empties L2 by reading: dirty lines left by a write would be written back inside the window that is timed.
extern "C" __global__ void sweep(const uint4* data, u64 count) {
    u64 stride = (u64)gridDim.x * blockDim.x;
    #pragma unroll 4
    for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += stride) {
        uint4 v;
        asm volatile("ld.global.cg.v4.u32 {%0, %1, %2, %3}, [%4];"
                     : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(data + i));
    }
}

extern "C" __global__ void spin(long long cycles) {
    long long start = clock64();
    while (clock64() - start < cycles) {}
}

extern "C" __global__ void nothing() {}
"""


class GpuStopwatch:
    """Events around each window, on the stream that labkit's kernels use; needs CuPy."""

    kind: Literal["gpu", "cpu"] = "gpu"
    queue = 500  # the driver takes about 1,024 launches before it makes the caller wait

    def __init__(self) -> None:
        cp: Any = cupy()
        if cp is None:
            raise LabError("time GPU work", "CuPy is not there, or sees no GPU", "pip install cupy-cuda13x")
        self._cp = cp
        device = cp.cuda.Device()
        facts = device.attributes
        self.name = cp.cuda.runtime.getDeviceProperties(device.id)["name"].decode()
        self._kernels = _kernels(device.id)
        self._blocks = 8 * facts["MultiProcessorCount"]
        self._gauge = Gauge(device.pci_bus_id)
        self._readings: list[Health] = []
        self._read_at = float("-inf")
        self._swept = cp.empty(2 * facts["L2CacheSize"] // 16 * 16, dtype=cp.uint8)
        self._flag = _pinned_words(cp, 2)
        self._ticket, self._events = 0, _Events(cp)
        cycles = 5 * facts.get("ClockRate", 1_500_000) // 1000  # the rate is in kHz: about 5 µs
        one, two = (functools.partial(self.spin, n * cycles) for n in (1, 2))
        self.rulers: tuple[Fn, Fn] | None = (one, two)
        self._warm_up(one)

    def _warm_up(self, ruler: Fn) -> None:
        """Load every kernel before anything blocks: lazy loading may wait for the whole context."""
        self.windows([(self.nothing, 1), (ruler, 1)], cold=True, blocked=False, patience=0.0)
        self.windows([(self.nothing, 1)], cold=True, blocked=True, patience=0.1)

    def now(self) -> float:
        return time.perf_counter()

    def host(self) -> Stopwatch:
        return CpuStopwatch()

    def spin(self, cycles: int) -> None:
        """Launch one thread that counts `cycles` of the SM's clock."""
        self._kernels["spin"]((1,), (1,), (np.int64(cycles),))

    def nothing(self) -> None:
        """Launch an empty kernel."""
        self._kernels["nothing"]((1,), (1,), ())

    def call(self, fn: Fn) -> tuple[float, bool]:
        stream = current_stream()
        with stream:
            self._cp.cuda.runtime.deviceSynchronize()
            start = self.now()
            fn()
            stream.synchronize()
            done = self.now()
            self._cp.cuda.runtime.deviceSynchronize()
        return done - start, self.now() - done > max(1e-4, 0.1 * (done - start))

    def windows(self, calls: Sequence[tuple[Fn, int]], cold: bool, blocked: bool, patience: float) -> Windows:
        stream = current_stream()
        with stream:
            block = _Block(self._flag, self._hold(patience), patience) if blocked else None
            try:
                cpu = tuple(self._window(i, fn, times, cold, stream) for i, (fn, times) in enumerate(calls))
                if block is not None:
                    block.release()
                self._watch_clock()
                stream.synchronize()
            except BaseException:
                _abandon(block, stream)
                raise
        device = tuple(self._events.seconds(i) for i in range(len(calls)))
        return Windows(device, cpu, block.stuck() if block is not None else None)

    def _window(self, index: int, fn: Fn, times: int, cold: bool, stream: Any) -> float:
        if cold:
            count = np.uint64(self._swept.nbytes // 16)
            self._kernels["sweep"]((self._blocks,), (256,), (self._swept, count))
        before, after = self._events.pair(index)
        before.record(stream)
        start = self.now()
        for _ in range(times):
            fn()
        took = self.now() - start
        after.record(stream)
        return took

    def _hold(self, patience: float) -> int:
        """Queue the kernel that blocks the stream; its own deadline is the last resort, after the host's."""
        self._ticket = self._ticket % 0xFFFFFFF0 + 1
        limit = np.uint64((patience + 1.0) * 1e9)
        pointer = np.uint64(self._flag.ctypes.data)
        self._kernels["hold"]((1,), (1,), (pointer, np.uint32(self._ticket), limit))
        return self._ticket

    def _watch_clock(self) -> None:
        """Read NVML while the queue runs, so that the reading is of the work and disturbs no launch."""
        if self.now() - self._read_at > PULSE:
            self._readings.append(self._gauge.read())
            self._read_at = self.now()

    def health(self) -> list[Health]:
        readings, self._readings = self._readings, []
        return readings


class _Events:
    """Pairs of CUDA events, made when first needed and used again."""

    def __init__(self, cp: Any) -> None:
        self._cp = cp
        self._pairs: list[tuple[Any, Any]] = []

    def pair(self, index: int) -> tuple[Any, Any]:
        while len(self._pairs) <= index:
            self._pairs.append((self._cp.cuda.Event(), self._cp.cuda.Event()))
        return self._pairs[index]

    def seconds(self, index: int) -> float:
        return float(self._cp.cuda.get_elapsed_time(*self._pairs[index])) / 1e3


class _Block:
    """The host's side of a blocked stream: lets go when told, or when the caller waits for the GPU."""

    def __init__(self, flag: Any, ticket: int, patience: float) -> None:
        self._flag, self._ticket, self._place = flag, ticket, ""
        self._caller, self._done = threading.get_ident(), False
        self._timer = threading.Timer(patience, self._give_up)
        self._timer.daemon = True
        self._timer.start()

    def _give_up(self) -> None:
        if not self._done:
            self._place = place(sys._current_frames().get(self._caller)) or "an unknown place"
        self.release()

    def release(self) -> None:
        self._done = True
        self._flag[0] = self._ticket
        self._timer.cancel()

    def stuck(self) -> str | None:
        """Where the caller waited for the GPU, None if it did not; asked when the stream is idle again."""
        timed_out = int(self._flag[1]) == self._ticket
        return self._place or ("an unknown place" if timed_out else None)


def _abandon(block: _Block | None, stream: Any) -> None:
    """Leave the stream free and idle after an exception, which is the news, whatever the stream says now."""
    if block is not None:
        block.release()
    with suppress(Exception):
        stream.synchronize()


def place(frame: FrameType | None) -> str | None:
    """The line of the reader's own code that a thread is in, as "file.py:12 (code)"."""
    frames = []
    while frame is not None:
        frames.append((frame.f_code.co_filename, frame.f_lineno))
        frame = frame.f_back
    own = [f for f in frames if not any(part in f[0] for part in LIBRARIES)]
    if not frames:
        return None
    name, line = (own or frames)[0]
    code = linecache.getline(name, line).strip()
    return f"{Path(name).name}:{line}" + (f" ({code})" if code else "")


def _pinned_words(cp: Any, count: int) -> Any:
    """Words that the CPU writes and a running kernel sees: pinned memory, the same address on both sides."""
    memory = cp.cuda.alloc_pinned_memory(4 * count)
    words = np.frombuffer(memory, dtype=np.uint32, count=count)
    words[:] = 0
    return words


@functools.cache
def _kernels(device_id: int) -> dict[str, Any]:
    cp: Any = cupy()
    module = cp.RawModule(code=SOURCE, options=("-std=c++17",))
    return {name: module.get_function(name) for name in ("hold", "sweep", "spin", "nothing")}
