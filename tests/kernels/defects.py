# ruff: noqa: E501 — each kernel stays on one line, beside its name
"""Kernels with one planted defect each, and their clean twins.

In a source `PICK(bad, good)` is the defect or its repair.  `kind` is the compute-sanitizer tool that looks for it.
`says` is a word that the emulator's finding must contain.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

f4, i4 = np.float32, np.int32


@dataclass(frozen=True)
class Defect:
    """A launch of a kernel `k` that goes wrong with `bad`, and is clean without."""

    name: str
    kind: str
    says: str
    body: str
    args: Sequence[Any]
    grid: tuple[int, int, int] = (2, 1, 1)
    block: tuple[int, int, int] = (64, 1, 1)
    shared: int = 0

    def source(self, bad: bool) -> str:
        return f"#define COMMA ,\n#define PICK(bad, good) {'bad' if bad else 'good'}\n{self.body}"


def floats(n: int) -> np.ndarray:
    return np.arange(n, dtype=f4)


def ints(n: int) -> np.ndarray:
    return np.arange(n, dtype=i4)


I = "int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;"  # noqa: E741 — the two indices every kernel has
K = 'extern "C" __global__ void k'
AB = "(const float* a, float* b, int n)"
A100 = [floats(100), floats(100), i4(100)]
A128 = [floats(128), floats(128), i4(128)]

DEFECTS = [
    Defect("no_guard", "memcheck", "past its end", f"{K}{AB} {{ {I} if (PICK(true, i < n)) b[i] = a[i]; }}", A100),
    Defect("off_by_one", "memcheck", "past its end", f"{K}{AB} {{ {I} if (i < n) b[i] = a[i + PICK(1, 0)]; }}", A100),
    Defect("inclusive_bound", "memcheck", "past its end", f"{K}{AB} {{ {I} if (i PICK(<=, <) n) b[i] = 1; }}", A100),
    Defect("before_start", "memcheck", "before its start", f"{K}{AB} {{ {I} if (i < n) b[i] = a[PICK(i - 1, max(i - 1 COMMA 0))]; }}", A100),
    Defect("rows_for_columns", "memcheck", "past its end",
           f"{K}(float* b, int rows, int columns) {{ {I} if (i < rows) for (int j = 0; j < columns; j++) b[i * PICK(rows, columns) + j] = 0; }}",
           [floats(100 * 3), i4(100), i4(3)]),
    Defect("bytes_for_elements", "memcheck", "past its end", f"{K}{AB} {{ {I} if (i < n) b[PICK(i * 4, i)] = a[i]; }}", A100),
    Defect("vector_tail", "memcheck", "past its end",
           f"{K}{AB} {{ {I} if (PICK(i * 4 < n, i * 4 + 3 < n)) ((float4*)b)[i] = ((const float4*)a)[i]; }}", [floats(102), floats(102), i4(102)]),
    Defect("wild_index", "memcheck", "array", f"{K}(const int* a, float* b, int n) {{ {I} if (i < n) b[a[i] PICK(* 100000000, )] = 1; }}",
           [ints(100), floats(100), i4(100)]),
    Defect("null_pointer", "memcheck", "array", f"{K}{AB} {{ {I} float* p = PICK((float*)(long long)(n - 100), b); if (i < n) p[i] = 1; }}", A100),
    Defect("atomic_outside", "memcheck", "past its end", f"{K}(const int* a, int* b, int n) {{ {I} if (i < n) atomicAdd(&b[a[i] PICK(, % 10)], 1); }}",
           [ints(100), ints(10), i4(100)]),
    Defect("misaligned_float4", "memcheck", "multiple of 16",
           f"{K}{AB} {{ {I} if (i < n / 4 - 1) *(float4*)(b + 4 * i) = *(const float4*)(a + 4 * i + PICK(1, 0)); }}", A100),
    Defect("misaligned_double", "memcheck", "multiple of 8",
           f"{K}(float* a, double* b) {{ {I} if (i < 20) b[i] = *(double*)((char*)a + PICK(4, 8) + 8 * i); }}", [floats(100), np.zeros(20)]),
    Defect("misaligned_shared", "memcheck", "multiple of 8",
           f"{K}(float2* b) {{ __shared__ __align__(16) float s[132]; {I} s[2 * t] = t; s[2 * t + 1] = t; if (t < 2) s[128 + t] = 0; __syncthreads(); "
           "b[i] = *(float2*)&s[2 * t + PICK(1, 2)]; }", [floats(256)]),
    Defect("shared_too_small", "memcheck", "shared memory", f"{K}{AB} {{ __shared__ float s[PICK(32, 64)]; {I} s[t] = a[i]; __syncthreads(); b[i] = s[63 - t]; }}", A128),
    Defect("dynamic_too_small", "memcheck", "shared memory",
           f"{K}{AB} {{ extern __shared__ float s[]; {I} s[t * PICK(2, 1)] = a[i]; __syncthreads(); b[i] = s[t * PICK(2, 1)]; }}", A128, shared=256),
    Defect("local_overrun", "memcheck", "local", f"{K}(const int* a, int* b) {{ {I} int l[8]; for (int j = 0; j < 8; j++) l[j] = a[i] + j; b[i] = l[a[i] PICK(, % 8)]; }}",
           [ints(128), ints(128)]),
    Defect("constant_index", "memcheck", "past its end", f"__constant__ float c[8] = {{1, 2, 3, 4, 5, 6, 7, 8}}; {K}(float* b) {{ {I} b[i] = c[t PICK(, & 7)]; }}", [floats(128)]),
    Defect("no_barrier", "racecheck", "race", f"{K}{AB} {{ __shared__ float s[64]; {I} s[t] = a[i]; PICK(, __syncthreads();) b[i] = s[63 - t]; }}", A128),
    Defect("no_second_barrier", "racecheck", "race",
           f"{K}{AB} {{ __shared__ float s[64]; {I} for (int j = 0; j < 3; j++) {{ s[t] = a[i] + j; __syncthreads(); b[i] += s[63 - t]; PICK(, __syncthreads();) }} }}", A128),
    Defect("reduction_no_barrier", "racecheck", "race",
           f"{K}{AB} {{ __shared__ float s[64]; {I} s[t] = a[i]; __syncthreads(); for (int j = 32; j; j >>= 1) {{ if (t < j) s[t] += s[t + j]; PICK(, __syncthreads();) }} "
           "if (t == 0) b[blockIdx.x] = s[0]; }", A128),
    Defect("in_place_shift", "racecheck", "race",
           f"{K}{AB} {{ __shared__ float s[64]; {I} s[t] = a[i]; __syncthreads(); float v = s[(t + 1) & 63]; PICK(, __syncthreads();) s[t] = v; __syncthreads(); b[i] = s[t]; }}", A128),
    Defect("same_cell", "racecheck", "race", f"{K}{AB} {{ __shared__ float s; {I} if (PICK(true, t == 5)) s = a[i]; __syncthreads(); b[i] = s; }}", A128),
    Defect("plain_increment", "racecheck", "race",
           f"{K}(const int* a, int* b) {{ __shared__ int s[4]; {I} if (t < 4) s[t] = 0; __syncthreads(); PICK(s[t & 3] += 1;, atomicAdd(&s[t & 3] COMMA 1);) __syncthreads(); b[i] = s[t & 3]; }}",
           [ints(128), ints(128)]),
    Defect("warp_exchange", "racecheck", "race", f"{K}{AB} {{ __shared__ float s[64]; {I} s[t] = a[i]; PICK(, __syncwarp();) b[i] = s[t ^ 1]; }}", A128),
    Defect("halo_no_barrier", "racecheck", "race",
           f"{K}{AB} {{ __shared__ float s[66]; {I} s[t + 1] = a[i]; if (t < 2) s[t * 65] = 0; PICK(, __syncthreads();) b[i] = s[t] + s[t + 2]; }}", A128),
    Defect("transpose_no_barrier", "racecheck", "race",
           f"{K}{AB} {{ __shared__ float s[8][9]; {I} s[t / 8][t % 8] = a[i]; PICK(, __syncthreads();) b[i] = s[t % 8][t / 8]; }}", A128),
    Defect("broadcast_no_barrier", "racecheck", "race",
           f"{K}{AB} {{ __shared__ float s; {I} if (t == 0) s = a[i]; __syncthreads(); float v = s; PICK(, __syncthreads();) if (t == 63) s = v + 1; __syncthreads(); b[i] = s + v; }}", A128),
    Defect("never_written", "initcheck", "nothing wrote", f"{K}{AB} {{ __shared__ float s[64]; {I} if (PICK(t < 60, true)) s[t] = a[i]; __syncthreads(); b[i] = s[63 - t]; }}", A128),
    Defect("halo_never_written", "initcheck", "nothing wrote",
           f"{K}{AB} {{ __shared__ float s[66]; {I} s[t + 1] = a[i]; PICK(, if (t < 2) s[t * 65] = 0;) __syncthreads(); b[i] = s[t] + s[t + 2]; }}", A128),
    Defect("counter_not_cleared", "initcheck", "nothing wrote",
           f"{K}(int* b) {{ __shared__ int s; {I} PICK(, if (t == 0) s = 0; __syncthreads();) atomicAdd(&s, 1); __syncthreads(); b[i] = s; }}", [ints(128)]),
    Defect("barrier_in_branch", "synccheck", "barrier", f"{K}{AB} {{ __shared__ float s[64]; {I} s[t] = a[i]; PICK(if (t < 16), ) __syncthreads(); b[i] = s[t] + 1; }}", A128),
    Defect("barrier_in_else", "synccheck", "barrier",
           f"{K}{AB} {{ __shared__ float s[64]; {I} s[t] = a[i]; if (t & 1) {{ b[i] = 1; PICK(__syncthreads();, ) }} else {{ b[i] = a[i]; PICK(__syncthreads();, ) }} __syncthreads(); b[i] += s[63 - t]; }}", A128),
    Defect("barrier_in_loop", "synccheck", "barrier",
           f"{K}{AB} {{ __shared__ float s[64]; {I} float v = 0; s[t] = a[i]; __syncthreads(); for (int j = 0; j < PICK(t / 32 + 1, 2); j++) {{ v += s[63 - t]; __syncthreads(); }} b[i] = v; }}", A128),
    Defect("shuffle_in_branch", "synccheck", "mask", f"{K}{AB} {{ {I} float v = a[i]; if (t PICK(% 32 < 16, >= 0)) v += __shfl_xor_sync(0xffffffff, v, 1); else v = 0; b[i] = v; __syncthreads(); }}", A128),
    Defect("endless_loop", "none", "spins", f"{K}{AB} {{ {I} float v = a[i]; int j = 0; while (j < n) {{ v = v * 0.5f + 1; j += PICK(v > 9e9f, 1); }} b[i] = v; }}", A128),
    Defect("waits_for_nobody", "none", "spins", f"{K}(volatile int* flag, int* b) {{ {I} while (*flag PICK(== 0, != 0)) ; b[i] = 1; }}", [np.zeros(1, i4), ints(128)]),
    Defect("block_race", "racecheck", "race", f"{K}{AB} {{ {I} b[PICK(t, i)] = a[i] + 1; }}", A128),
    Defect("neighbour_block", "racecheck", "race", f"{K}(float* a, float* b, int n) {{ {I} float v = a[(i + 1) % n]; PICK(a, b)[i] = v + 1; }}", A128),
    Defect("failed_assert", "none", "assert", f"{K}{AB} {{ {I} assert(a[i] < PICK(100, 1000)); b[i] = a[i]; }}", A128),
]  # fmt: skip
