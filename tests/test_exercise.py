"""Exercises: a wrong kernel is told what, where and by whom; a right one passes."""

import pytest

import labkit
from labkit import LabError

pytestmark = pytest.mark.compiler
SUMS = r"""
extern "C" __global__ void column_sums(const float* a, float* out, int rows, int columns)
{
    int c = blockIdx.x * blockDim.x + threadIdx.x;
    if (c >= columns) return;
    float sum = 0;
    for (int r = 0; r < rows; r++) sum += a[r * columns + c];
    out[c] = sum;
}"""


def test_a_right_kernel_passes():
    passed = labkit.check("column sums", labkit.kernel(SUMS))
    assert "solved" in str(passed) and "sectors per request" in str(passed)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (
            ("out[c] = sum;", "out[c] = sum + (c == 130);"),
            r"\(130,\) should be .* written by block \(1, 0, 0\), thread \(2, 0, 0\)",
        ),
        (("out[c] = sum;", "if (c) out[c] = sum;"), "nothing was written"),
        (("if (c >= columns) return;", ""), "past its end"),
        (("r < rows", "r <= rows"), r"`a` .* past its end"),
    ],
)
def test_a_wrong_kernel_is_told_what_and_where(change, told):
    with pytest.raises(LabError, match=told):
        labkit.check("column sums", labkit.kernel(SUMS.replace(*change)))


def test_a_right_but_slow_kernel_is_told_its_traffic():
    scale = r"""extern "C" __global__ void scale(const float4* a, float4* out, int n4)
    { int i = blockIdx.x * blockDim.x + threadIdx.x; 
      const float* f = (const float*)(a + i); float* o = (float*)(out + i);
      if (i < n4) for (int k = 0; k < 4; k++) o[k] = 3 * f[k]; }"""
    with pytest.raises(LabError, match="requests"):
        labkit.check("wide scale", labkit.kernel(scale))


def test_an_unknown_exercise_or_answer_is_refused():
    with pytest.raises(LabError, match="column sums"):
        labkit.check("nothing", labkit.kernel(SUMS))
    with pytest.raises(LabError, match="kernel"):
        labkit.check("column sums", SUMS)


STRIDE = r"""extern "C" __global__ void scale(const float* a, float* out, int n)
{ int i = blockIdx.x * blockDim.x + threadIdx.x; %s }"""


def test_a_grid_stride_loop_is_right_for_any_grid():
    loop = "for (; i < n; i += gridDim.x * blockDim.x) out[i] = 3 * a[i];"
    assert "solved" in str(labkit.check("grid stride", labkit.kernel(STRIDE % loop)))
    with pytest.raises(LabError, match="nothing was written"):
        labkit.check("grid stride", labkit.kernel(STRIDE % "if (i < n) out[i] = 3 * a[i];"))
    chunks = "int per = (n + gridDim.x * blockDim.x - 1) / (gridDim.x * blockDim.x); "
    chunks += "for (int k = i * per; k < (i + 1) * per && k < n; k++) out[k] = 3 * a[k];"
    with pytest.raises(LabError, match=r"nothing|past its end|sectors"):
        labkit.check("grid stride", labkit.kernel(STRIDE % (chunks + " if (n > 10000) out[i] = 3 * a[i];")))


PATH = r"""
__device__ float even(float x) { for (int k = 0; k < 20; k++) x = 0.9f * x + 0.1f; return x; }
__device__ float odd(float x) { for (int k = 0; k < 20; k++) x = 0.9f * x + 0.1f / (1.0f + x); return x; }
extern "C" __global__ void regroup(const float* a, float* out) { %s }"""
REGROUPED = """int warp = threadIdx.x / 32, i = blockIdx.x * 64 + 2 * (threadIdx.x % 32) + warp;
if (warp == 0) out[i] = even(a[i]); else out[i] = odd(a[i]);"""


def test_lanes_of_a_warp_have_to_agree():
    assert "lane efficiency: 100% (at least 95%)" in str(labkit.check("one path", labkit.kernel(PATH % REGROUPED)))
    here = "int i = blockIdx.x * 64 + threadIdx.x; "
    with pytest.raises(LabError, match=r"warp instructions|lane efficiency"):
        branch = "if (i % 2) out[i] = odd(a[i]); else out[i] = even(a[i]);"
        labkit.check("one path", labkit.kernel(PATH % (here + branch)))
    with pytest.raises(LabError, match="warp instructions"):  # both for everyone: no divergence, twice the work
        labkit.check(
            "one path", labkit.kernel(PATH % (here + "out[i] = i % 2 ? odd(a[i]) : even(a[i]) + 0 * odd(a[i]);"))
        )
