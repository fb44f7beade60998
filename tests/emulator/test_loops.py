"""Loops of a sample are counted on their first rounds: the counts are those of all rounds."""

import numpy as np
import pytest

import labkit
from labkit.emulator import loops
from labkit.kernel import counting

pytestmark = pytest.mark.compiler
SAME = ("global_load_requests", "global_load_sectors", "global_store_requests", "global_store_sectors",
        "shared_load_requests", "shared_load_conflicts", "shared_store_requests", "thread_instructions",
        "warp_instructions", "flops", "divergent_branches", "load_waits", "global_store_bytes")  # fmt: skip
ARGS = (np.zeros(1 << 16, np.float32), np.zeros(1 << 16, np.float32), 3000)


@pytest.fixture
def rounds(monkeypatch):
    """How many rounds the launches of a test have skipped so far, as a function."""
    kept = []
    original = loops.Loops.__init__

    def init(self, run, skipped):
        original(self, run, skipped)
        kept.append(skipped)

    monkeypatch.setattr(loops.Loops, "__init__", init)
    return lambda: sum({id(s): s.rounds for s in kept}.values())


def counted(source, monkeypatch, grid=1, block=64, args=ARGS):
    """The counts with rounds skipped, and those of all rounds."""
    kernel = labkit.kernel('extern "C" __global__ void k(float* out, const float* in, int n)\n{ ' + source + " }")
    both = []
    for tried in (loops.TRIED, 0):
        monkeypatch.setattr(loops, "TRIED", tried)
        with counting(10**9) as log:
            kernel(grid, block, args)
        both.append(log.launches[0].counts)
    return both


BEGIN = "int t = threadIdx.x; float s = 0;"
EVEN = {
    "less": "for (int i = 0; i < n; i++) s += in[i * 8 + t];",
    "less or equal": "for (int i = 1; i <= n; i += 3) s += in[i + t];",
    "down": "for (int i = n; i > 0; i -= 2) s += in[i + t];",
    "down to zero": "for (int i = n; i >= 0; i--) s += in[i * 4 + t];",
    "unequal": "for (int i = 0; i != n; i++) s += in[i * 8 + t];",
    "unsigned": "for (unsigned i = t; i < 60000u; i += 32) s += in[i];",
    "wide": "for (long long i = t; i < (long long)n * 16; i += 64) s += in[i];",
    "by thread": "for (int i = t; i < n * 16; i += 65) s += in[i];",
    "bottom": "int i = t; do { s += in[i]; i += 64; } while (i < n * 10);",
    "break": "for (int i = 0;; i++) { if (i >= n) break; s += in[i * 8 + t]; }",
    "stores": "for (int i = t; i < n * 16; i += 64) out[i] = in[i] * 2;",
    "nested": "for (int j = 0; j < 40; j++) for (int i = 0; i < 200; i++) s += in[i * 32 + t] * j;",
    "shared": """__shared__ float part[64]; for (int i = 0; i < n; i++) {
        part[t] = in[i + t]; __syncthreads(); s += part[t * 2 % 64]; __syncthreads(); }""",
    "two": "for (int i = 0; i < n; i++) s += in[i + t]; for (int i = n; i > 0; i--) s *= in[i * 2 + 20000];",
}


@pytest.mark.parametrize("name", EVEN)
def test_even_loops_are_skipped_and_count_the_same(name, monkeypatch, rounds):
    few, whole = counted(f"{BEGIN} {EVEN[name]} out[t] = s;", monkeypatch)
    assert rounds() > 10
    assert {n: getattr(few, n) for n in SAME} == {n: getattr(whole, n) for n in SAME}
    assert few.sampled and not whole.sampled
    for kind in ("unique_load_bytes", "unique_store_bytes"):
        assert getattr(few, kind) == pytest.approx(getattr(whole, kind), rel=0.05)


UNEVEN = {
    "halving": "for (int i = n; i > 0; i /= 2) s += in[i + t];",
    "by data": "for (int i = 0; i < n && in[i] < 1; i++) s += in[i * 8 + t];",
    "by float": "for (float x = 0; x < 3000; x += 1) s += in[(int)x + t];",
    "shift": "for (int i = 0; i < 400; i++) s += in[i + t + i % 7];",
    "short": "for (int i = 0; i < 9; i++) s += in[i + t];",
    "triangle": "for (int j = 0; j < 60; j++) for (int i = 0; i < j; i++) s += in[i * 32 + t];",
}


@pytest.mark.parametrize("name", UNEVEN)
def test_other_loops_are_counted_as_they_are(name, monkeypatch):
    few, whole = counted(f"{BEGIN} {UNEVEN[name]} out[t] = s;", monkeypatch)
    assert {n: getattr(few, n) for n in SAME} == {n: getattr(whole, n) for n in SAME}


def test_what_is_not_a_sample_runs_every_round(rounds):
    source = (
        'extern "C" __global__ void k(int* out, int n) { int s = 0; for (int i = 0; i < n; i++) s ^= i; *out = s; }'
    )
    out = np.zeros(1, np.int32)
    kernel = labkit.kernel(source)
    kernel(1, 1, (out, 1000))
    assert out[0] == np.bitwise_xor.reduce(np.arange(1000))
    kernel.count(1, 1, (out, 1000))
    assert rounds() == 0


def test_arrays_are_left_as_they_were(monkeypatch):
    out, into = np.full(1 << 16, 3, np.float32), np.ones(1 << 16, np.float32)
    counted(f"{BEGIN} {EVEN['stores']}", monkeypatch, args=(out, into, 3000))
    assert (out == 3).all() and (into == 1).all()
