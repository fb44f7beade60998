"""The FP32 ladder: right at any shape in the emulator, each rung's idea seen in its counts, and misuse refused."""

import numpy as np
import pytest

from labkit import LabError
from labkit.cuda import Rung, sgemm

pytestmark = pytest.mark.compiler
_SQUARE = {"BM": 32, "BN": 32, "TM": 4, "TN": 4}
_WARPED = _SQUARE | {"WM": 16, "WN": 32}
SMALL = {  # tiles that the emulator walks quickly
    "tiled": {"BM": 16, "BN": 16, "BK": 16},
    "strip": {"BM": 32, "BN": 32, "TM": 8},
    "square": _SQUARE,
    "vectorised": _SQUARE,
    "double_buffered": _SQUARE,
    "async": _SQUARE,
    "warp_tiled": _WARPED,
    "tuned": _WARPED | {"GROUP": 2},
}
WHOLE, ALIGNED, ODD, DOT, OUTER = (64, 96, 64), (45, 68, 36), (37, 53, 29), (1, 1, 70), (70, 67, 1)  # M, N, K


def matrices(m, n, k, offset=0):
    """A, B and a C of NaN; offset: floats by which they miss a 16-byte boundary."""
    rng = np.random.default_rng()
    made = []
    for shape in ((m, k), (k, n), (m, n)):
        flat = rng.standard_normal(offset + shape[0] * shape[1]).astype(np.float32)
        made.append(flat[offset:].reshape(shape))
    made[2].fill(np.nan)
    return made


def error(a, b, c):
    """The largest, in units of the sum of absolute products."""
    exact = a.astype(float) @ b.astype(float)
    return (abs(c - exact) / (abs(a).astype(float) @ abs(b).astype(float))).max()


@pytest.fixture(scope="module", params=list(sgemm))
def rung(request) -> Rung:
    return sgemm[request.param].with_(**SMALL.get(request.param, {}))


@pytest.mark.parametrize("shape", [WHOLE, ALIGNED, ODD, DOT, OUTER], ids=str)
def test_the_product_is_right_with_every_check_on(rung, shape):
    a, b, c = matrices(*shape)
    rung.kernel.run_emulated(*rung.launch(a, b, c))
    assert error(a, b, c) < 1e-6


def test_rows_that_miss_a_16_byte_boundary(rung):
    a, b, c = matrices(*ALIGNED, offset=1)
    rung.kernel.run_emulated(*rung.launch(a, b, c))
    assert error(a, b, c) < 1e-6


@pytest.mark.parametrize("name", ["async", "warp_tiled", "tuned"])
def test_a_ring_of_another_length(name):
    rung = sgemm[name].with_(**SMALL[name], STAGES=4)
    for k in (16, 97):
        a, b, c = matrices(32, 32, k)
        rung.kernel.run_emulated(*rung.launch(a, b, c))
        assert error(a, b, c) < 1e-6


def test_groups_of_rows_that_do_not_divide_the_tiles_cover_c():
    rung = sgemm["tuned"].with_(**SMALL["tuned"])
    a, b, c = matrices(96, 64, 16)
    rung.kernel.run_emulated(*rung.launch(a, b, c))
    assert error(a, b, c) < 1e-6


M, N, K = 128, 256, 64


@pytest.fixture(scope="module")
def counts():
    """Of every rung as it is, on a product of whole tiles."""
    return {name: rung.kernel.count(*rung.launch(*matrices(M, N, K))) for name, rung in sgemm.items()}


TILED = list(sgemm)[2:]


def test_the_arithmetic_is_the_same_on_every_rung(counts):
    assert {made.flops for made in counts.values()} == {2 * M * N * K}


def test_neighbours_along_a_row_share_sectors(counts):
    naive, coalesced = counts["naive"], counts["coalesced"]
    assert naive.global_load_requests == coalesced.global_load_requests
    assert naive.load_sectors_per_request == 8.5 and coalesced.load_sectors_per_request == 2
    assert naive.store_sectors_per_request == 16 and coalesced.store_sectors_per_request == 4


@pytest.mark.parametrize("name", TILED)
def test_a_larger_tile_fetches_less(counts, name):
    """A float of A comes once for BN columns of C, a float of B once for BM rows."""
    rows, columns = sgemm[name].tile
    assert counts[name].global_load_sectors == M * N * K * (1 / rows + 1 / columns) / 8


@pytest.mark.parametrize("name", TILED[:-1])
def test_a_larger_thread_tile_reads_less_shared_memory(counts, name):
    """TM + TN floats for TM · TN multiply-adds, four a request from `vectorised` on."""
    d = {"TM": 1, "TN": 1, **dict(sgemm[name].defines)}
    floats = 4 if TILED.index(name) >= TILED.index("vectorised") else 1
    requests = M * N * K / 32 * (d["TM"] + d["TN"]) / (d["TM"] * d["TN"]) / floats
    assert counts[name].shared_load_requests == requests


def test_the_tuned_rung_reads_one_k_ahead(counts):
    """Once more at the start: a thread's floats of the first k. Its larger thread tile saves a quarter."""
    d = dict(sgemm["tuned"].defines)
    ahead = sgemm["tuned"].threads / 32 * (d["TM"] + d["TN"]) / 4
    assert counts["tuned"].shared_load_requests - ahead == 0.75 * counts["warp_tiled"].shared_load_requests


@pytest.mark.parametrize("name", TILED)
def test_no_rung_has_bank_conflicts(counts, name):
    assert counts[name].shared_load_conflicts == counts[name].shared_store_conflicts == 0


def test_sixteen_bytes_an_access(counts):
    assert counts["vectorised"].global_load_requests * 4 == counts["square"].global_load_requests
    assert counts["vectorised"].store_sectors_per_request == 16


def test_asynchronous_copies_are_not_waited_for_in_registers(counts):
    assert counts["async"].load_waits == counts["warp_tiled"].load_waits == 0 < counts["double_buffered"].load_waits


def test_no_rung_spills():
    for rung in sgemm.values():
        assert rung.kernel.resources.spill_bytes == rung.kernel.resources.local_bytes == 0


@pytest.mark.parametrize(
    ("name", "defines", "found"),
    [
        ("tiled", {"BM": 0}, "below one"),
        ("tiled", {"BM": 128, "BN": 128}, "1,024"),
        ("square", {"BM": 100}, "no multiple"),
        ("square", {"BK": 64}, "shared memory"),
        ("vectorised", {"TM": 2}, "by 4"),
        ("vectorised", {"BM": 64, "BN": 64, "TM": 4, "TN": 4, "BK": 8}, "by fours"),
        ("async", {"STAGES": 1}, "one stage"),
        ("async", {"STAGES": 99}, "shared memory"),
        ("warp_tiled", {"WM": 64}, "32 lanes"),
        ("warp_tiled", {"WM": 8, "WN": 256, "BN": 256}, "pairs of rows"),
        ("tuned", {"WM": 32, "TN": 8}, "whole rows"),
    ],
    ids=str,
)
def test_defines_that_the_kernel_is_not_made_for(name, defines, found):
    with pytest.raises(LabError, match=found):
        sgemm[name].with_(**defines)


def test_a_define_that_a_rung_does_not_have():
    with pytest.raises(LabError, match="no such define"):
        sgemm["naive"].with_(TM=4)


def test_arrays_that_are_no_product():
    rung = sgemm["naive"]
    a, b, c = matrices(8, 8, 4)
    for wrong in ((a, b.T, c), (a, b, c[:4]), (a[0], b, c), (a[:0], b, c[:0])):
        with pytest.raises(LabError, match="naive"):
            rung.launch(*wrong)
    with pytest.raises(LabError, match="float64"):
        rung.launch(a.astype(float), b, c)
    with pytest.raises(LabError, match="contiguous"):
        rung.launch(np.asfortranarray(a), b, c)


def test_sizes_that_32_bits_cannot_count():
    long = np.broadcast_to(np.float32(0), (1, (1 << 31) - 8))
    with pytest.raises(LabError, match="32 bits"):
        sgemm["tuned"].launch(long, long.T, np.zeros((1, 1), np.float32))
