"""Each planted defect is found, and named; its clean twin runs without a word."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from labkit.emulator import compile_kernel, launch
from labkit.errors import LabError

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "kernels")]
from arguments import prepare  # noqa: E402 — shared by the emulator's tests
from defects import DEFECTS, Defect  # noqa: E402 — the corpus is a folder of its own

pytestmark = pytest.mark.compiler


def run(d: Defect, bad: bool) -> None:
    _, args = prepare(list(d.args))
    launch(compile_kernel(d.source(bad)), d.grid, d.block, args, d.shared, patience=0.5)


@pytest.mark.parametrize("defect", DEFECTS, ids=lambda d: d.name)
def test_found(defect: Defect) -> None:
    with pytest.raises(LabError) as caught:
        run(defect, bad=True)
    assert defect.says in caught.value.found
    assert "line " in caught.value.found and "`k`" in caught.value.asked


@pytest.mark.parametrize("defect", DEFECTS, ids=lambda d: d.name)
def test_clean_twin(defect: Defect) -> None:
    run(defect, bad=False)


def test_enough() -> None:
    assert len(DEFECTS) >= 30 and len({d.name for d in DEFECTS}) == len(DEFECTS)


HARMLESS = {
    "flag set by several": """__shared__ bool any; if (t == 0) any = false; __syncthreads();
      if (t % 3 == 0) any = true; else if (t % 3 == 1) any = true; __syncthreads(); b[i] = any;""",
    "early return": """__shared__ float s[64]; if (i >= n - 28) return;
      s[t] = a[i]; __syncthreads(); b[i] = s[t];""",
    "own byte": """__shared__ unsigned char s[64]; s[t] = t; b[i] = s[t];""",
    "warp exchange": """__shared__ float s[64]; s[t] = a[i]; __syncwarp();
      float v = s[t ^ 1]; __syncwarp(); s[t] = v;
      __syncwarp(); b[i] = s[t ^ 2];""",
    "one block's own range": """for (int j = 0; j < 3; j++) {
      b[i] = a[i] + j; __syncthreads(); b[i] += b[i]; }""",
    "atomics of all blocks": """atomicAdd(&b[0], 1.0f);""",
    "same value from all blocks": """b[3] = 7.0f;""",
}


@pytest.mark.parametrize("name", HARMLESS)
def test_no_false_alarm(name: str) -> None:
    text = (
        'extern "C" __global__ void k(const float* a, float* b, int n) {\n'
        f"  int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;\n  {HARMLESS[name]}\n}}"
    )
    a = np.arange(128, dtype=np.float32)
    launch(compile_kernel(text), (2, 1, 1), (64, 1, 1), prepare([a, a, np.int32(128)])[1])
