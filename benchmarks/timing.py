"""How far labkit's timer is from kernels of known duration, and how often its comparisons are wrong.

    python benchmarks/timing.py results.json [--minutes 4] [--pairs 200] [--budget 2]

Needs an NVIDIA GPU with CuPy; torch and triton are timed beside it where they are installed.

The known duration is a spin of N cycles of the SM's clock, N ÷ frequency; the frequency is taken against
%globaltimer over spins of 100 ms, before and after each row, so that the timer's own step does not
matter. The step is measured and printed. A second kernel spins until a %globaltimer deadline: an
independent ruler.
"""

from __future__ import annotations

import argparse
import datetime
import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from labkit import benchmark, compare
from labkit.timing import readable
from labkit.timing.gpu_stopwatch import GpuStopwatch

DURATIONS = (5e-6, 10e-6, 20e-6, 50e-6, 100e-6, 1e-3, 10e-3, 100e-3)
Fn = Callable[[], object]

SOURCE = r"""
typedef unsigned long long u64;
__device__ u64 nanoseconds() {
    u64 t;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(t));
    return t;
}

extern "C" __global__ void step(u64* seen, int count) {
    for (int i = 0; i < count; i++) seen[i] = nanoseconds();
}

extern "C" __global__ void rate(u64* out, u64 wait) {
    u64 start = nanoseconds(), now = start;
    while (now == start) now = nanoseconds();
    long long cycles = clock64();
    start = now;
    while (now - start < wait) now = nanoseconds();
    out[0] = now - start;
    out[1] = clock64() - cycles;
}

extern "C" __global__ void until(u64 wait) {
    u64 start = nanoseconds();
    while (nanoseconds() - start < wait) {}
}

extern "C" __global__ void copy(const float4* from, float4* to, int count) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) to[i] = from[i];
}
"""


class Bench:
    """The kernels of known duration, and the rulers behind them."""

    def __init__(self) -> None:
        import cupy

        self.cp, self.watch = cupy, GpuStopwatch()
        module = cupy.RawModule(code=SOURCE, options=("-std=c++17",))
        self.kernels = {n: module.get_function(n) for n in ("step", "rate", "until", "copy")}
        self.array = cupy.ones(1 << 25, dtype=cupy.float32)
        self.target = cupy.empty_like(self.array)

    def globaltimer_step(self) -> float:
        """Seconds between two values of %globaltimer: the smallest difference a thread can see."""
        seen = self.cp.zeros(20_000, dtype=self.cp.uint64)
        self.kernels["step"]((1,), (1,), (seen, np.int32(seen.size)))
        steps = np.diff(seen.get().astype(np.int64))
        return float(steps[steps > 0].min()) * 1e-9

    def frequency(self, seconds: float = 0.1) -> float:
        """The SM's clock in hertz, counted over `seconds` of %globaltimer."""
        out = self.cp.zeros(2, dtype=self.cp.uint64)
        self.kernels["rate"]((1,), (1,), (out, np.uint64(seconds * 1e9)))
        elapsed, cycles = (int(x) for x in out.get())
        return cycles / elapsed * 1e9

    def spin(self, cycles: float) -> Fn:
        return lambda: self.watch.spin(int(cycles))

    def until(self, seconds: float) -> Fn:
        wait = np.uint64(seconds * 1e9)
        return lambda: self.kernels["until"]((1,), (1,), (wait,))

    def copy(self, elements: int) -> Fn:
        """A copy of that many float32 with 16-byte accesses."""
        grid, args = ((elements // 4 + 255) // 256,), (self.array, self.target, np.int32(elements // 4))
        return lambda: self.kernels["copy"](grid, (256,), args)


def by_hand(watch: GpuStopwatch, fn: Fn, seconds: float) -> dict[str, float]:
    """Four ways to read event windows in a blocked stream, hot: what each makes of the same kernel."""
    assert watch.rulers is not None
    many = 8
    calls = [(fn, 1), (watch.nothing, 1), (watch.rulers[0], 1), (watch.rulers[1], 1), (fn, many)]
    rounds = 40 if seconds < 1e-3 else 3
    taken = [watch.windows(calls, False, True, 0.1).device for _ in range(rounds)]
    one, empty, first, second, several = (median(t[i] for t in taken) for i in range(5))
    return {
        "raw events": one,
        "minus empty kernel": one - empty,
        "minus rulers": one - (2 * first - second),
        "slope of 1 and 8": (several - one) / (many - 1),
    }


def event_step(watch: GpuStopwatch) -> float:
    """The smallest difference between two readings of an event pair, in seconds."""
    taken = [w for _ in range(20) for w in watch.windows([(watch.nothing, 1)] * 32, False, True, 0.1).device]
    steps = np.diff(np.unique(np.round(np.array(taken) * 1e9)))
    return float(steps.min()) * 1e-9 if len(steps) else 0.0


def others(fn: Fn, seconds: float) -> dict[str, float]:
    """What the usual helpers say, each called as its documentation does; missing ones are left out."""
    found: dict[str, float] = {}
    with suppress(ImportError):
        from triton.testing import do_bench

        found["triton do_bench"] = float(do_bench(fn, return_mode="median")) / 1e3
    with suppress(ImportError):
        from cupyx.profiler import benchmark as cupy_benchmark

        repeat = max(5, min(500, int(0.2 / seconds)))
        found["cupyx benchmark"] = float(cupy_benchmark(fn, n_repeat=repeat).gpu_times.mean())
    with suppress(ImportError):
        from torch.utils.benchmark import Timer

        found["torch Timer"] = float(Timer("fn()", globals={"fn": fn}).blocked_autorange(min_run_time=0.2).median)
    return found


def accuracy(bench: Bench, deadline: float) -> Iterator[dict[str, Any]]:
    """One row for each duration: what is true, and what every timer says."""
    for seconds in DURATIONS:
        if time.monotonic() > deadline:
            return
        before = bench.frequency()
        cycles = round(seconds * before)
        fn = bench.spin(cycles)
        ours = {cold: benchmark(fn, cold=cold) for cold in (True, False)}
        said = {"labkit cold": ours[True].median, "labkit hot": ours[False].median}
        said |= by_hand(bench.watch, fn, seconds) | others(fn, seconds)
        deadline_spin = benchmark(bench.until(seconds)).median
        after = bench.frequency()
        yield {
            "seconds": cycles / ((before + after) / 2),
            "clock_drift": after / before - 1,
            "said": said,
            "until_deadline": {"asked": seconds, "labkit cold": deadline_spin},
            "timings": [repr(t) for t in ours.values()],
            "overhead": {"cold": ours[True].overhead, "hot": ours[False].overhead},
        }


def comparisons(bench: Bench, pairs: int, budget: float, deadline: float) -> list[dict[str, Any]]:
    """A/A and 1 % slower in turn, on a spin of 50 µs, one of 10 µs, and a copy of 64 MB."""
    rate, size = bench.frequency(), 1 << 24
    spins = {f"spin {us} µs": tuple(bench.spin(us * 1e-6 * rate * longer) for longer in (1, 1.01)) for us in (50, 10)}
    cases = spins | {"copy 64 MB": (bench.copy(size), bench.copy(int(size * 1.01) // 4 * 4))}
    found: list[dict[str, Any]] = []
    for index in range(pairs):
        name = list(cases)[index % len(cases)]
        for kind, second in (("A/A", cases[name][0]), ("1 % slower", cases[name][1])):
            if time.monotonic() > deadline:
                return found
            start = time.monotonic()
            c = compare(cases[name][0], second, budget=budget)
            found.append(
                {
                    "case": name,
                    "kind": kind,
                    "ratio": c.ratio,
                    "ci": c.ci,
                    "verdict": c.verdict,
                    "pairs": len(c.timings[0].samples),
                    "seconds": time.monotonic() - start,
                }
            )
    return found


def show_accuracy(rows: list[dict[str, Any]]) -> None:
    """Errors in µs, a column for each timer."""
    names = list(rows[0]["said"])
    print("\nerror in µs against a spin of known duration (accept: max(0.5 µs, 2 %))")
    print(f"{'true':>9} " + " ".join(f"{n[:14]:>14}" for n in names) + f" {'overhead c/h':>13}")
    for row in rows:
        errors = [(row["said"].get(n, float("nan")) - row["seconds"]) * 1e6 for n in names]
        cost = "/".join(f"{x * 1e6:.2f}" for x in row["overhead"].values())
        print(f"{readable(row['seconds']):>9} " + " ".join(f"{e:14.3f}" for e in errors) + f" {cost:>13}")
    checks = [(r["until_deadline"]["labkit cold"] - r["until_deadline"]["asked"]) * 1e6 for r in rows]
    print("spin to a %globaltimer deadline, cold, error in µs: " + " ".join(f"{c:.3f}" for c in checks))
    print(f"largest clock drift within a row: {max(abs(r['clock_drift']) for r in rows):.2%}")
    for row in rows:
        print(row["timings"][0])


def show_comparisons(found: list[dict[str, Any]]) -> None:
    for kind in ("A/A", "1 % slower"):
        for case in [*dict.fromkeys(f["case"] for f in found), "all"]:
            some = [f for f in found if f["kind"] == kind and case in (f["case"], "all")]
            if some:
                counts, middle = Counter(f["verdict"] for f in some), median(f["ratio"] for f in some)
                took = median(f["seconds"] for f in some)
                print(f"{kind:>10} {case:>11}: {dict(counts)}, median ratio {middle:.4f}, {took:.2f} s each")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("out", type=Path, help="JSON file to write")
    parser.add_argument("--minutes", type=float, default=4.0, help="stop cleanly after this long")
    parser.add_argument("--pairs", type=int, default=200, help="A/A comparisons, and as many of 1 %%")
    parser.add_argument("--budget", type=float, default=2.0, help="seconds for one comparison at most")
    args = parser.parse_args()
    deadline = time.monotonic() + 60 * args.minutes - 2 * args.budget
    with suppress(ImportError):
        import torch

        torch.cuda.init()
    bench = Bench()
    result: dict[str, Any] = {
        "device": bench.watch.name,
        "date": datetime.date.today().isoformat(),
        "python": sys.version.split()[0],
        "cupy": bench.cp.__version__,
        "torch": getattr(sys.modules.get("torch"), "__version__", None),
        "driver": bench.cp.cuda.runtime.driverGetVersion(),
        "globaltimer_step": bench.globaltimer_step(),
        "event_step": event_step(bench.watch),
        "frequency": bench.frequency(),
    }
    print(", ".join(f"{key} {value}" for key, value in result.items()))
    result["accuracy"] = list(accuracy(bench, deadline))
    args.out.write_text(json.dumps(result, indent=1, ensure_ascii=False))
    if result["accuracy"]:
        show_accuracy(result["accuracy"])
    result["comparisons"] = comparisons(bench, args.pairs, args.budget, deadline)
    show_comparisons(result["comparisons"])
    args.out.write_text(json.dumps(result, indent=1, ensure_ascii=False))


if __name__ == "__main__":
    main()
