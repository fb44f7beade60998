"""The ladder on tensor cores: right at any shape in the emulator, without bank conflicts, and refused by name."""

import numpy as np
import pytest

import labkit
from labkit import LabError
from labkit.cuda import Rung, tensor
from labkit.cuda.tensor_map import tensor_map
from labkit.emulator import compile_kernel

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.compiler
WHOLE, EDGES, ODD = (128, 256, 128), (200, 136, 72), (37, 53, 29)
SMALL = {"wmma": {"BN": 64, "WM": 32, "WN": 64}, "mma": {"BM": 64, "BN": 64, "WM": 32, "WN": 32, "STAGES": 3}}


def matrices(m, n, k):
    rng = np.random.default_rng()
    a, b = (torch.tensor(rng.standard_normal(shape)).bfloat16() for shape in ((m, k), (k, n)))
    return a, b, torch.full((m, n), float("nan"), dtype=torch.bfloat16)


def relative_error(a, b, c):
    """Of the Frobenius norm, against the product in float64."""
    want = a.double() @ b.double()
    return float((c.double() - want).norm() / want.norm())


@pytest.fixture(scope="module", params=["wmma", "mma"])
def rung(request) -> Rung:
    return tensor[request.param]


@pytest.mark.parametrize("shape", [WHOLE, EDGES, ODD, (1, 1, 1)], ids=str)
def test_the_product_is_right_with_every_check_on(rung, shape):
    a, b, c = matrices(*shape)
    rung.kernel.run_emulated(*rung.launch(a, b, c))
    assert relative_error(a, b, c) < 1e-2


def test_other_tiles_walk_the_ring_and_the_grid(rung):
    a, b, c = matrices(200, 264, 328)
    other = rung.with_(**SMALL[rung.name])
    other.kernel.run_emulated(*other.launch(a, b, c))
    assert relative_error(a, b, c) < 1e-2


def test_a_wrong_order_of_blocks_would_be_seen():
    """Every block order covers C: a group that does not divide the rows of tiles, and one larger than them."""
    for group in (2, 5):
        a, b, c = matrices(192, 192, 16)
        rung = tensor["mma"].with_(**SMALL["mma"], GROUP=group)
        rung.kernel.run_emulated(*rung.launch(a, b, c))
        assert relative_error(a, b, c) < 1e-2


def test_numpy_holds_the_bits_of_bfloat16(rung):
    a, b, c = matrices(*EDGES)
    bits = [x.view(torch.int16).numpy().view(np.uint16) for x in (a, b, torch.zeros_like(c))]
    rung.kernel.run_emulated(*rung.launch(a, b, c))
    rung.kernel.run_emulated(*rung.launch(*bits))
    assert np.array_equal(bits[2], c.view(torch.int16).numpy().view(np.uint16))


@pytest.mark.parametrize("tile", [{}, {"BM": 256, "BN": 128}, {"BN": 128, "BK": 128, "STAGES": 3}], ids=str)
def test_the_swizzle_leaves_no_bank_conflict(tile):
    rung = tensor["mma"].with_(**tile)
    counts = rung.kernel.count(*rung.launch(*matrices(256, 256, 128)))
    assert counts.shared_load_conflicts == counts.shared_store_conflicts == 0
    assert counts.store_sectors_per_request == 16


def test_no_rung_spills():
    for rung in tensor.values():
        assert rung.kernel.resources.spill_bytes == rung.kernel.resources.local_bytes == 0


def test_wgmma_is_compiled_for_sm_90a_and_needs_no_stack():
    rung = tensor["wgmma"]
    for defines in ({}, {"CLUSTER": 2}, {"BM": 256, "BN": 128}):
        compiled = rung.with_(**defines).kernel.compiled("sm_90")
        assert ".target sm_90a" in compiled.ptx and compiled.cubin.startswith(b"\x7fELF")
        assert compiled.resources.registers == 168  # what 384 threads leave; setmaxnreg shares it out
        assert [p.size for p in compiled.entry.params] == [128, 128, 128, 4, 4, 4]
    with pytest.raises(LabError):
        compile_kernel(rung.source, arch="sm_90")


def test_a_matrix_descriptor_leaves_out_the_block_of_the_cluster():
    code = 'extern "C" __global__ void words(u64* out, unsigned* at) { out[threadIdx.x] = matrix(at[threadIdx.x]); }'
    made = labkit.kernel(tensor["wgmma"].source + code, "words", arch="sm_90a")
    out, at = np.zeros(2, np.uint64), np.array([0x0001E400, 0x0101E400], np.uint32)  # the second as block 1 has it
    made.run_emulated(1, 2, (out, at))
    assert out[0] == out[1] == 0x1E40 | 512 << 16 | 64 << 32 | 1 << 62


def test_without_a_gpu_wgmma_is_refused_by_instruction_and_line():
    if labkit.xp is not np:
        pytest.skip("this machine's GPU runs it")
    a, b, c = matrices(128, 256, 64)
    with pytest.raises(LabError, match=r"mbarrier\.init.*line \d+"):
        tensor["wgmma"](a, b, c)
    assert c.isnan().all()


def test_each_of_hoppers_own_instructions_is_refused():
    for code in ("wgmma.fence.sync.aligned;", "barrier.cluster.arrive;", "cp.async.bulk.commit_group;"):
        source = f'extern "C" __global__ void f(float* x) {{ x[0] = 1;\nasm volatile("{code}"); }}'
        with pytest.raises(LabError, match=rf"{code.split('.')[0]}.*line 2"):
            labkit.kernel(source, arch="sm_90a").run_emulated(1, 32, (np.zeros(1, np.float32),))


@pytest.mark.parametrize("shape", [(128, 256, 60), (128, 250, 64)], ids=str)
def test_the_copy_engine_wants_rows_of_16_bytes(shape):
    with pytest.raises(LabError, match="16 bytes"):
        tensor["wgmma"].launch(*matrices(*shape))


def test_a_tensor_map_is_of_memory_on_the_gpu():
    with pytest.raises(LabError, match="host"):
        tensor_map(matrices(64, 64, 64)[0], 64)


def test_a_persistent_grid_holds_whole_clusters():
    rung = tensor["wgmma"].with_(CLUSTER=2)
    assert rung.grid(8192, 8192) == (132, 1)
    assert rung.grid(300, 300) == (2 * 2 * 2, 1)


@pytest.mark.parametrize(
    ("name", "defines"),
    [
        ("wmma", {"WM": 24}),
        ("mma", {"BK": 32}),
        ("mma", {"STAGES": 2}),
        ("mma", {"BN": 192, "WN": 96, "BK": 192}),
        ("mma", {"STAGES": 9}),
        ("wgmma", {"BM": 256}),
        ("wgmma", {"CLUSTER": 3}),
        ("wgmma", {"STAGES": 5}),
        ("wgmma", {"BOXES": 3, "STAGES": 3}),
        ("wgmma", {"BM": 256, "BN": 128, "BOXES": 4, "STAGES": 3}),
    ],
    ids=str,
)
def test_defines_that_the_kernel_is_not_made_for(name, defines):
    with pytest.raises(LabError):
        tensor[name].with_(**defines)
