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
