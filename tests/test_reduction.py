"""The ladder of sums: every rung is right for any n, clean of races, and does what its head comment says."""

from pathlib import Path

import numpy as np
import pytest

import labkit
from labkit import LabError

pytestmark = pytest.mark.compiler
FILES = sorted((Path(labkit.__file__).parent / "cuda" / "reduction").glob("*.cu"))
KERNELS = {file.stem: labkit.kernel(file) for file in FILES}
BLOCKS = 3  # of the rungs whose grid does not follow n
N = 50_003


def shape(rung, n):
    """Grid and block: rung 1 has a thread for each float, rungs 2 to 4 one for two, the others a fixed grid."""
    block = 512 if rung == "6_tuned" else 256
    floats = {"1": 256, "2": 512, "3": 512, "4": 512}.get(rung[0])
    return (max(1, -(-n // floats)) if floats else BLOCKS), block


def run(rung, x, n, before=0.0):
    """The sum as the emulator finds it with every check of memory on, and the counts."""
    out = np.full(1, before, np.float32)
    counts = KERNELS[rung].run_emulated(*shape(rung, n), (x, out, n))
    return out[0], counts


def agrees(found, x):
    """Is it the sum in double precision, to 1e-6 of what was added?"""
    wide = x.astype(np.float64)
    return abs(found - wide.sum()) <= 1e-6 * np.abs(wide).sum()


@pytest.fixture(scope="module")
def floats():
    return np.random.default_rng(5).normal(1, 3, N + 8).astype(np.float32)


@pytest.fixture(scope="module")
def counts(floats):
    return {rung: run(rung, floats, N)[1] for rung in KERNELS}


@pytest.mark.parametrize("n", [0, 1, 31, 512, 513, 4_099, N])
@pytest.mark.parametrize("rung", KERNELS)
def test_every_rung_sums_any_number_of_floats(rung, n, floats):
    found, _ = run(rung, floats, n)
    assert agrees(found, floats[:n])


@pytest.mark.parametrize("n", [0, 1, 2, 5, 16_384, 20_001])
@pytest.mark.parametrize("start", [1, 2, 3, 4])
def test_the_last_rung_takes_any_address_and_overwrites_what_was_there(start, n, floats):
    x = floats[start : start + max(n, 1)]
    found, _ = run("6_tuned", x, n, before=np.nan)
    assert agrees(found, x[:n])


def test_wide_loads_need_an_aligned_address(floats):
    with pytest.raises(LabError, match="multiple of 16"):
        run("5_grid_stride", floats[1:], 1000)


@pytest.mark.parametrize("defines", [{"BLOCK": 96, "UNROLL": 1}, {"BLOCK": 1024, "UNROLL": 4, "RESIDENT": 1}])
def test_the_last_rung_can_be_tuned(defines, floats):
    tuned, out = labkit.kernel(KERNELS["6_tuned"].source, defines={**defines, "LOAD": "__ldg"}), np.zeros(1, np.float32)
    tuned.run_emulated(5, defines["BLOCK"], (floats, out, N))
    assert agrees(out[0], floats[:N])


def test_more_blocks_than_threads_of_the_last_one(floats):
    out = np.zeros(1, np.float32)
    labkit.kernel(KERNELS["6_tuned"].source, defines={"BLOCK": 32}).run_emulated(100, 32, (floats, out, N))
    assert agrees(out[0], floats[:N])


def test_every_rung_reads_each_sector_once(counts):
    sectors = -(-4 * N // 32)
    assert all(sectors <= c.global_load_sectors <= sectors + 1 for c in counts.values())


def test_only_the_first_rung_has_an_atomic_for_each_float(counts):
    added = {rung: sum(x.thread_instructions for x in c.by_line if "atomic" in x.text) for rung, c in counts.items()}
    blocks = {rung: shape(rung, N)[0] for rung in KERNELS}
    assert added.pop("1_atomic") >= 2 * N
    assert all(added[rung] < 10 * blocks[rung] for rung in added)


def test_the_tree_conflicts_and_diverges_and_the_next_rung_does_neither(counts):
    tree, sequential = counts["2_tree"], counts["3_sequential"]
    assert tree.shared_load_conflicts > 0.5 * tree.shared_load_requests
    assert tree.shared_store_conflicts > 0
    assert sequential.shared_load_conflicts == sequential.shared_store_conflicts == 0
    assert tree.lane_efficiency < 0.8 < 0.95 < sequential.lane_efficiency
    assert tree.divergent_branches > 5 * sequential.divergent_branches
    assert tree.warp_instructions > 1.3 * sequential.warp_instructions


def test_shuffles_leave_one_shared_float_a_warp_and_one_barrier(counts):
    blocks, warps = shape("4_shuffle", N)[0], 256 // 32
    assert counts["4_shuffle"].shared_store_requests == blocks * warps
    assert counts["3_sequential"].shared_load_requests > 20 * counts["4_shuffle"].shared_load_requests
    assert KERNELS["4_shuffle"].ptx.count("bar") < KERNELS["3_sequential"].ptx.count("bar")


def test_a_fixed_grid_pays_for_its_end_once_a_block(counts):
    wide, shuffle = counts["5_grid_stride"], counts["4_shuffle"]
    assert wide.warp_instructions < 0.2 * shuffle.warp_instructions
    assert wide.global_load_requests < 0.26 * shuffle.global_load_requests


def test_the_last_rung_waits_once_for_many_loads():
    tile, n = 512 * 8 * 4, 12 * 512 * 8 * 4
    x = np.ones(n, np.float32)
    tuned, wide = run("6_tuned", x, n), run("5_grid_stride", x, n)
    assert tuned[0] == wide[0] == n and n % tile == 0
    assert wide[1].load_waits >= wide[1].global_load_requests - 1
    assert tuned[1].load_waits < 0.2 * tuned[1].global_load_requests
    assert KERNELS["6_tuned"].resources.registers > 4 * 8  # eight loads of four floats each have their own
    assert all(k.resources.spill_bytes == 0 for k in KERNELS.values())
