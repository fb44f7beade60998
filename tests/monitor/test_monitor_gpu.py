"""The monitor on a real GPU: busy is seen as busy, and idle as idle."""

from __future__ import annotations

import threading
import time

import pytest

import labkit
from labkit.monitor import workload

pytestmark = pytest.mark.gpu


@workload(n=[4096])
def product(n):
    import torch

    a, b = torch.randn(2, n, n, device="cuda", dtype=torch.bfloat16)
    return labkit.Work(lambda: a @ b, flops=2 * n**3)


@workload()
def idle():
    return labkit.Work(lambda: time.sleep(0.01))


def test_a_product_is_seen_and_costs_energy():
    busy, resting = product(), idle()
    assert busy.mean("utilisation") > 90 > 20 > resting.mean("utilisation")
    assert busy.watts > 1.3 * resting.watts
    assert 1e-14 < busy.joules_per_flop < 1e-9
    if "sm_active" not in busy.samples.missing.get(busy.samples.gpus[0].label, {}):
        assert busy.mean("sm_active") > 50 > 5 > resting.mean("sm_active")
        assert busy.mean("tensor") > 30


def test_monitors_in_many_threads_do_not_crash_the_driver():
    seen = []

    def watch():
        with labkit.Monitor(hertz=100) as monitor:
            time.sleep(5)
        seen.append(len(monitor.samples.time))

    threads = [threading.Thread(target=watch) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(seen) == 4 and min(seen) > 50


def test_sampling_costs_less_than_one_percent_of_a_core():
    with labkit.Monitor(hertz=10) as seen:
        time.sleep(5)
    assert seen.samples.cpu_share < 0.01
