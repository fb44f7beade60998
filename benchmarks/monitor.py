"""What NVML answers on this GPU, call by call, and what sampling it costs.

    python benchmarks/monitor.py

Prints each call's answer with its wall and CPU time, first idle and then under a bf16 product; GPM read at
several spacings (nvml.h asks for 100 ms); the share of one core that Monitor takes at 10 and 20 Hz.
Ends with status 1 if a series that this GPU should have is missing, or if 10 Hz cost 1 % of a core or more.
"""

from __future__ import annotations

import sys
import time
from statistics import median

import torch

from labkit import Work
from labkit.monitor import Monitor
from labkit.monitor.gpu import Gpu, gpus
from labkit.monitor.meters import METERS, PCIE
from labkit.monitor.quantities import ALL, GPM
from labkit.monitor.running import Runner
from labkit.monitor.workload import here
from labkit.nvml import Nvml

SPACINGS = (0.02, 0.05, 0.1, 0.2, 0.5)


def product() -> Work:
    """One 8192³ bf16 product."""
    a, b = torch.randn(2, 8192, 8192, device="cuda", dtype=torch.bfloat16)
    return Work(lambda: a @ b, flops=2 * 8192**3)


def calls(nvml: Nvml, gpu: Gpu) -> None:
    """Each call of a sample: answer, and median time of 20."""
    for meter in (*METERS, *PCIE):
        arguments, wall, cpu = meter.arguments(nvml), [], []
        for _ in range(20):
            began, spent = time.perf_counter(), time.thread_time()
            answer = nvml.answer(meter.function, gpu._handle, *arguments)
            wall.append(time.perf_counter() - began)
            cpu.append(time.thread_time() - spent)
        said = answer.refusal or dict(zip(meter.names, meter.take(answer.value), strict=True))
        print(f"  {meter.function}: {said}  {1e6 * median(wall):.0f} µs, CPU {1e6 * median(cpu):.0f} µs")


def gpm(gpu: Gpu) -> None:
    """GPM differenced over several spacings."""
    counters = gpu._gpm
    print("  GPM:", counters.missing or "supported")
    if counters.missing:
        return
    for spacing in SPACINGS:
        first = counters._sample()
        time.sleep(spacing)
        began, spent = time.perf_counter(), time.thread_time()
        found = counters._between(first, counters._sample())
        cost = f"{1e6 * (time.perf_counter() - began):.0f} µs, CPU {1e6 * (time.thread_time() - spent):.0f} µs"
        print(f"  {1e3 * spacing:.0f} ms:", {n: round(v, 2) for n, v in found.items()}, cost)
    print("  refused:", counters.refused)


def cost() -> float:
    """The share of one core at 10 and 20 Hz; that at 10 Hz is returned."""
    shares = {}
    for hertz in (20, 10):
        with Monitor(hertz, gpus=here()) as monitor:
            time.sleep(4)
        seen = monitor.samples
        shares[hertz] = seen.cpu_share
        print(f"  {hertz} Hz: {len(seen)} instants in {seen.seconds:.2f} s, {100 * seen.cpu_share:.2f} % of a core")
    print(seen.summary())
    missing = [n for n in (*(name for name, _ in GPM.values()), "power", "energy") if seen.mean(n) != seen.mean(n)]
    print("missing series:", ", ".join(ALL[name].label for name in missing) or "none")
    return 1.0 if len(missing) > 2 else shares[10]  # a GPU without NVLink misses two


def main() -> int:
    """Idle, then loaded."""
    nvml = Nvml()
    print("NVML:", nvml.silent or "answers", "· GPUs:", nvml.ask("nvmlDeviceGetCount"))
    gpu = gpus(nvml, here())[0]
    print(gpu.facts, gpu.processes(), sep="\n")
    print("idle")
    calls(nvml, gpu)
    gpm(gpu)
    runner = Runner(product)
    runner.ready()
    time.sleep(1.5)
    print("under a bf16 product")
    calls(nvml, gpu)
    gpm(gpu)
    since = runner.now()
    share = cost()
    print(f"the product meanwhile: {runner.rate(since) * 2 * 8192**3 / 1e12:.0f} TFLOP/s")
    runner.stop()
    return int(share >= 0.01)


if __name__ == "__main__":
    sys.exit(main())
