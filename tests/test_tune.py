"""Tuning: the winner is found, ties are called ties, what is impossible or hopeless costs no time."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace

import pytest
from fakegpu import FakeGpu
from hypothesis import given, settings
from hypothesis import strategies as st

from labkit import LabError, Work, experiment
from labkit.device import known
from labkit.measurement import Measurement
from labkit.tune import Race, ranked, tune

H200 = known("nvidia-h200")


def raced(times, budget=2.0, noise=0.0, impossible=(), work=lambda k: 1e6, seed=7):
    """Race kernels of these seconds on a fake GPU; returns the tuning, the GPU and how often each was called."""
    gpu, calls = FakeGpu(noise=noise, rng=random.Random(seed)), [0] * len(times)

    @experiment(k=list(range(len(times))))
    def kernels(k):
        if k in impossible:
            raise LabError("launch", "2,048 threads in a block", "a smaller block")
        launch = gpu.kernel(times[k])

        def run():
            calls[k] += 1
            launch()

        return Work(run, bytes=work(k))

    found = Race(kernels, gpu, gpu.now, budget).run(list(kernels.settings()))
    return found, gpu, calls


def chosen(measurements):
    return {m.settings["k"] for m in measurements}


@given(st.lists(st.floats(1e-5, 1e-2), min_size=1, max_size=12, unique_by=lambda x: round(x, 7)))
@settings(max_examples=40, deadline=None)
def test_without_noise_the_true_winner_is_among_the_best(times):
    found, _, _ = raced(times)
    winner = times.index(min(times))
    assert winner in chosen([found.best, *found.ties])
    assert all(times[k] <= 1.011 * min(times) for k in chosen(found.ties))
    assert chosen(found.ranking) == set(range(len(times)))


@given(st.integers(2, 8), st.floats(1e-5, 1e-3))
@settings(max_examples=20, deadline=None)
def test_equal_kernels_are_a_tie(count, seconds):
    found, _, _ = raced([seconds] * count, budget=1.0)
    assert len(found.ties) == count - 1 and not found.dropped
    assert f"a tie of {count}" in str(found) and "among equals" in found._repr_html_()


def test_noise_makes_a_winner_of_equals_once_in_a_hundred_times_at_most():
    tunings = [raced([3e-4] * 5, noise=0.02, budget=0.5, seed=seed)[0] for seed in range(40)]
    assert sum(len(found.ties) < 4 for found in tunings) <= 2


def test_a_clear_winner_is_said_to_be_sure_and_a_noisy_one_less():
    clear, _, _ = raced([1.00e-3, 1.05e-3, 3e-3], noise=0.01)
    assert chosen([clear.best]) == {0} and not clear.ties
    assert (clear.confidence > 0.99 and "% sure" in str(clear)) or not clear.rivals
    close, _, _ = raced([1.000e-3, 1.002e-3], noise=0.05, budget=0.3)
    assert close.ties and close.confidence < 0.999


def test_what_is_impossible_is_left_out_with_its_reason():
    found, _, _ = raced([1e-3, 1e-4, 2e-3], impossible={1})
    assert chosen([found.best]) == {0}
    assert found.skipped[0][0] == {"k": 1} and "left out k=1: 2,048 threads" in str(found)
    with pytest.raises(LabError, match="2,048 threads"):
        raced([1e-3], impossible={0})


def test_what_is_hopeless_is_called_twice_and_no_more():
    found, gpu, calls = raced([1e-3, 0.5, 1.1e-3], budget=2.0)
    assert calls[1] == 2 and chosen(found.dropped) >= {1}
    assert gpu.time < 2.0 + 2 * 0.5


def test_the_budget_is_kept():
    found, gpu, _ = raced([1e-3 * (1 + k / 50) for k in range(40)], budget=3.0, noise=0.02)
    assert gpu.time < 4.0 and found.seconds == pytest.approx(gpu.time)
    late, _, _ = raced([0.2] * 20, budget=1.0)
    assert late.unseen and "the time was over" in str(late)


def test_settings_that_do_different_work_are_refused():
    with pytest.raises(LabError, match="fix what changes it"):
        raced([1e-3, 2e-3], work=lambda k: 1e6 * (k + 1))


class Recorded:
    """An experiment of which some settings are recorded and the others are modelled."""

    name = "recorded"

    def __init__(self, seconds, modelled=None):
        self.rows, self.modelled, self.calls = seconds, modelled or {}, 0

    def point(self, k, seconds, source):
        return Measurement("recorded", {"k": k}, seconds, 0.004, 1e6, 0.0, source, H200, date="2026-12-01")

    def known(self):
        return [self.point(k, seconds, "recorded") for k, seconds in self.rows.items()]

    def measure(self, full):
        self.calls += 1
        if full["k"] not in self.modelled:
            raise LabError("model it", "not recorded", "a GPU")
        return replace(self.point(full["k"], self.modelled[full["k"]], "modelled"), spread=0.0)


def test_without_a_gpu_the_recorded_is_ranked_and_the_rest_modelled():
    stub = Recorded({0: 1e-3, 1: 1.001e-3, 2: 2e-3}, {3: 1.1e-3, 4: 9e-3})
    found = ranked(stub, [{"k": k} for k in range(6)], 5.0, itertools.count().__next__)
    assert chosen([found.best]) == {0} and chosen(found.ties) == {1, 3}
    assert chosen(found.dropped) == {2, 4} and found.skipped[0][0] == {"k": 5}
    assert "3 recorded" in str(found) and "2 modelled" in str(found) and "2026-12-01" in str(found)


def test_when_the_time_is_over_what_is_not_recorded_is_not_modelled():
    stub = Recorded({0: 1e-3}, dict.fromkeys(range(1, 50), 0.001))
    found = ranked(stub, [{"k": k} for k in range(50)], 10.0, itertools.count().__next__)
    assert len(found.unseen) + stub.calls == 49 and stub.calls <= 11


def test_bad_arguments_are_refused():
    @experiment(block=[64, 128])
    def copies(block):
        return Work(lambda: None)

    with pytest.raises(LabError, match="budget"):
        tune(copies, 0, {})
    with pytest.raises(LabError, match="64, 128"):
        copies.tune(block=100)
