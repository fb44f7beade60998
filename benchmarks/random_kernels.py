"""Random kernels on the GPU, in the emulator and in plain Python: every output compared, bit for bit.

    python benchmarks/random_kernels.py --count 4096 --minutes 5 --processes 16 --failures build/failures
    python benchmarks/random_kernels.py --count 64 --compile-only      # without a GPU: emulator and Python

The kernels come from tests/kernels/generate.py.  Each process takes one module of kernels after the other:
one compilation for the GPU, one to PTX for the emulator, then all launches.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sys
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "tests/kernels"), str(ROOT / "tests/emulator")]
sys.path.append(str(ROOT))  # where labkit is not installed
os.environ.setdefault("CUPY_CACHE_IN_MEMORY", "1")  # no source is met twice

import numpy as np  # noqa: E402 — after the path
from arguments import prepare  # noqa: E402
from generate import Kernel, compile_program, differences, program  # noqa: E402

from labkit.emulator import Compiled, launch  # noqa: E402
from labkit.errors import LabError  # noqa: E402

PER_MODULE = 16
PARTS = ("PTX", "GPU compiler", "Python", "emulator", "GPU")
Outputs = tuple[np.ndarray, ...]


@dataclass
class Batch:
    """What became of the kernels of one module."""

    seed: int
    kernels: int = 0
    thread_instructions: int = 0
    divergent: int = 0
    seconds: dict[str, float] = field(default_factory=lambda: dict.fromkeys(PARTS, 0.0))
    failures: list[tuple[str, str, str, str]] = field(default_factory=list)  # kernel, kind, what, source
    lost: bool = False  # an illegal access has ended this process's CUDA context


def batch(seed: int, count: int, gpu: bool) -> Batch:
    """Generate, compile and run one module."""
    done, clock = Batch(seed), Clock()
    made = program(seed, count)
    compiled = compile_program(made)
    done.seconds["PTX"] += clock.lap()
    module = gpu_module(made.source) if gpu else None
    done.seconds["GPU compiler"] += clock.lap()
    for kernel, ready in zip(made.kernels, compiled, strict=True):
        want = kernel.expected()
        done.seconds["Python"] += clock.lap()
        emulated = in_emulator(kernel, ready, done)
        done.seconds["emulator"] += clock.lap()
        measured = on_gpu(kernel, module, done) if gpu and not done.lost else None
        done.seconds["GPU"] += clock.lap()
        compare(kernel, done, want, emulated, measured)
        done.kernels += 1
    return done


class Clock:
    """Seconds since the last lap."""

    def __init__(self) -> None:
        self.last = time.perf_counter()

    def lap(self) -> float:
        before, self.last = self.last, time.perf_counter()
        return self.last - before


def gpu_module(source: str) -> Any:
    """The source as cubin: CuPy's own compiler would flush subnormal numbers, which plain Python does not."""
    from cuda.bindings import nvrtc
    from cupy.cuda import function

    _, program = nvrtc.nvrtcCreateProgram(source.encode(), b"random.cu", 0, [], [])
    flags = [b"--gpu-architecture=sm_90", b"--std=c++17", b"-default-device", b"--ftz=false"]
    (status,) = nvrtc.nvrtcCompileProgram(program, len(flags), flags)
    assert int(status) == 0, status
    cubin = b" " * nvrtc.nvrtcGetCUBINSize(program)[1]
    nvrtc.nvrtcGetCUBIN(program, cubin)
    module = function.Module()
    module.load(cubin)
    return module


def on_gpu(kernel: Kernel, module: Any, done: Batch) -> Outputs | None:
    import cupy

    try:
        arrays = [cupy.asarray(a) for a in kernel.args]
        module.get_function(kernel.name)(kernel.grid, kernel.block, tuple(arrays))
        return tuple(a.get() for a in arrays[4:])
    except (cupy.cuda.driver.CUDADriverError, cupy.cuda.runtime.CUDARuntimeError) as error:
        fail(done, kernel, "the GPU refused", str(error))
        done.lost = True
    return None


def in_emulator(kernel: Kernel, compiled: Compiled, done: Batch) -> Outputs | None:
    arrays, args = prepare(list(kernel.args))
    try:
        counts = launch(compiled, kernel.grid, kernel.block, args)
    except LabError as error:
        fail(done, kernel, "the emulator refused", error.found)
        return None
    except Exception as error:  # a fault of the emulator is a result here
        fail(done, kernel, "the emulator failed", f"{type(error).__name__}: {error}")
        return None
    done.thread_instructions += counts.thread_instructions
    done.divergent += counts.divergent_branches
    return tuple(arrays[4:])


def compare(kernel: Kernel, done: Batch, want: Outputs, emulated: Outputs | None, measured: Outputs | None) -> None:
    pairs = {
        "emulator ≠ Python": (want, emulated),
        "GPU ≠ Python": (want, measured),
        "emulator ≠ GPU": (measured, emulated),
    }
    for kind, (one, other) in pairs.items():
        if one is not None and other is not None and (what := differences(one, other)):
            fail(done, kernel, kind, what)


def fail(done: Batch, kernel: Kernel, kind: str, what: str) -> None:
    done.failures.append((kernel.name, kind, what, f"// grid {kernel.grid}, block {kernel.block}\n{kernel.alone()}"))


def finished(batches: Iterable[Batch], folder: Path, minutes: float) -> list[Batch]:
    """Batches until the time is over; sources that failed go to `folder` at once."""
    out, end = [], time.monotonic() + 60 * minutes
    for done in batches:
        out.append(done)
        for name, kind, what, source in done.failures:
            folder.mkdir(parents=True, exist_ok=True)
            (folder / f"seed{done.seed}_{name}.cu").write_text(f"// {kind}: {what}\n{source}")
            print(f"seed {done.seed} {name}: {kind}: {what}", flush=True)
        if time.monotonic() > end:
            break
    return out


def summary(batches: list[Batch], gpu: bool, wall: float) -> dict[str, Any]:
    kinds = Counter(kind for b in batches for _, kind, _, _ in b.failures)
    asked = ["emulator ≠ Python", "the emulator refused", "the emulator failed"]
    asked += ["emulator ≠ GPU", "GPU ≠ Python", "the GPU refused"] if gpu else []
    return {
        "device": device() if gpu else "none",
        "kernels": sum(b.kernels for b in batches),
        **{kind: kinds[kind] for kind in asked},
        "thread instructions": sum(b.thread_instructions for b in batches),
        "divergent branches": sum(b.divergent for b in batches),
        "seconds": round(wall, 1),
        **{f"seconds in {p}": round(sum(b.seconds[p] for b in batches), 1) for p in PARTS},
    }


def device() -> str:
    import cupy

    return str(cupy.cuda.runtime.getDeviceProperties(0)["name"].decode())


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Random kernels: GPU, emulator and Python compared bit for bit.")
    parser.add_argument("--count", type=int, default=1024, help="kernels")
    parser.add_argument("--minutes", type=float, default=5, help="stop after this time, whatever the count")
    parser.add_argument("--seed", type=int, default=1, help="the first module's seed")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--failures", type=Path, default=ROOT / "build/failures", help="folder for failing sources")
    parser.add_argument("--json", type=Path, help="file for the summary")
    parser.add_argument("--compile-only", action="store_true", help="no GPU: compare the emulator with Python")
    return parser.parse_args()


def main() -> int:
    asked, started = options(), time.monotonic()
    seeds = range(asked.seed, asked.seed + -(-asked.count // PER_MODULE))
    work = partial(batch, count=min(PER_MODULE, asked.count), gpu=not asked.compile_only)
    with multiprocessing.get_context("spawn").Pool(asked.processes, maxtasksperchild=1) as pool:
        batches = finished(pool.imap_unordered(work, seeds), asked.failures, asked.minutes)
        pool.terminate()
    total = summary(batches, not asked.compile_only, time.monotonic() - started)
    for name, value in total.items():
        print(f"{name:32}{value if not isinstance(value, int) else format(value, ',')}")
    if asked.json:
        asked.json.parent.mkdir(parents=True, exist_ok=True)
        asked.json.write_text(json.dumps(total, indent=1, ensure_ascii=False) + "\n")
    return int(any(b.failures for b in batches))


if __name__ == "__main__":
    sys.exit(main())
