"""A kernel on a machine without a GPU: run, counted, refused with reasons."""

import subprocess
import sys

import numpy as np
import pytest

import labkit
from labkit import LabError
from labkit.kernel import counting

pytestmark = pytest.mark.compiler
SCALE = r"""
extern "C" __global__ void scale(const float* a, float* out, int n, float factor)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = factor * a[i];
}"""


@pytest.fixture(scope="module")
def scale():
    return labkit.kernel(SCALE)


def numbers(n):
    return np.random.default_rng(n).random(n, dtype=np.float32)


def test_it_runs_on_numpy_arrays_and_converts_python_numbers(scale):
    a, out = numbers(1000), np.zeros(1000, np.float32)
    scale(8, 128, (a, out, 1000, 3))
    assert np.array_equal(out, np.float32(3) * a)


def test_it_runs_on_torch_tensors_in_place(scale):
    torch = pytest.importorskip("torch")
    a, out = torch.rand(1000), torch.zeros(1000)
    scale(8, 128, (a, out, 1000, 0.5))
    assert torch.equal(out, 0.5 * a)


def test_counting_leaves_arrays_alone_and_gives_the_sectors(scale):
    a, out = numbers(1024), np.zeros(1024, np.float32)
    counts = scale.count(8, 128, (a, out, 1024, 2.0))
    assert not out.any()
    assert (counts.global_load_requests, counts.global_load_sectors) == (32, 128)
    assert counts.load_sectors_per_request == counts.store_sectors_per_request == 4
    assert "scale" in counts._repr_html_() or "factor" in counts._repr_html_()


def test_a_shifted_view_touches_one_sector_more(scale):
    a, out = numbers(1025), np.zeros(1024, np.float32)
    assert scale.count(8, 128, (a[1:], out, 1024, 2.0)).load_sectors_per_request == 5


def test_while_counting_a_launch_is_logged_and_not_run(scale):
    a, out = numbers(1 << 20), np.zeros(1 << 20, np.float32)
    with counting(100_000) as log:
        scale((1 << 20) // 256, 256, (a, out, 1 << 20, 2.0))
    (launch,) = log.launches
    assert launch.counts.sampled and not out.any()
    assert launch.counts.global_load_sectors == pytest.approx((1 << 20) / 8, rel=0.01)


def test_defines_choose_the_type():
    source = 'extern "C" __global__ void copy(const T* a, T* out) { out[threadIdx.x] = a[threadIdx.x]; }'
    a, out = np.arange(128, dtype=np.float32), np.zeros(128, np.float32)
    for name, threads in (("float", 128), ("float2", 64), ("float4", 32)):
        out[:] = 0
        wide = labkit.kernel(source, defines={"T": name})
        wide(1, threads, (a, out))
        assert np.array_equal(out, a)
    assert wide.fingerprint != labkit.kernel(source, defines={"T": "float"}).fingerprint


def test_resources_and_occupancy_are_those_of_the_chosen_gpu(scale):
    assert 8 <= scale.resources.registers <= 32
    assert scale.occupancy(256).share == 1.0
    assert ".entry" in scale.ptx


@pytest.mark.parametrize(
    ("grid", "block", "shared", "word"),
    [
        (0, 128, 0, "above zero"),
        (8, 2048, 0, "1,024"),
        (8, (1, 1, 128), 0, "1,024|64"),
        (8, 128, 1 << 20, "shared memory"),
        ((1, 2, 3, 4), 128, 0, "one to three"),
        (8.5, 128, 0, "whole"),
        ("many", 128, 0, "whole"),
        ((1, 70000), 128, 0, "65,535"),
    ],
)
def test_an_impossible_launch_is_refused(scale, grid, block, shared, word):
    a = numbers(1024)
    with pytest.raises(LabError, match=word):
        scale(grid, block, (a, a, 1024, 1.0), shared)


def test_an_array_too_small_is_named_with_the_thread(scale):
    with pytest.raises(LabError, match="out") as caught:
        scale(8, 128, (numbers(1024), np.zeros(1000, np.float32), 1024, 1.0))
    assert "thread" in str(caught.value) and "block" in str(caught.value)


def test_a_compile_error_shows_the_readers_line():
    with pytest.raises(LabError) as caught:
        labkit.kernel(SCALE.replace("factor *", "faktor *"))
    assert "faktor" in str(caught.value) and "out[i] = faktor * a[i]" in str(caught.value)


def test_a_kernel_that_never_ends_is_stopped_with_its_line():
    spin = labkit.kernel('extern "C" __global__ void spin(volatile int* a) {\n while (a[0] == 0) a[1] = 1;\n}')
    with pytest.raises(LabError, match="while"):
        spin(1, 32, (np.zeros(4, np.int32),))


def test_two_kernels_in_one_source_must_be_told_apart():
    two = SCALE + SCALE.replace("scale", "other")
    with pytest.raises(LabError, match="other"):
        labkit.kernel(two)
    assert labkit.kernel(two, name="other").name == "other"


def test_a_kernel_file_that_is_not_there():
    with pytest.raises(LabError, match=r"nowhere\.cu"):
        labkit.kernel("nowhere.cu")


def test_importing_labkit_is_light():
    heavy = ["torch", "cupy", "ipywidgets", "matplotlib", "numpy", "IPython"]
    code = f"import sys, labkit; print([m for m in {heavy} if m in sys.modules])"
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"
    )
