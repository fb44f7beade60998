"""How fast the emulator runs, and how it compares with Numba's CUDA simulator on the same three kernels.

    python benchmarks/emulator.py [--numba]

Prints thread instructions a second for uniform, divergent and shared-memory code, with and without counting
and sanitizing, then (with --numba, where Numba is installed) the time of both simulators, taken in turn.
Results of all kernels are checked first.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from statistics import median

import numpy as np

from labkit.emulator import Buffer, Compiled, compile_kernel, launch

COPY = """extern "C" __global__ void copy(const float* a, float* b, int n, int stride) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) b[i] = a[(int)((long long)i * stride % n)];
}"""
PRODUCT = """extern "C" __global__ void product(const float* a, const float* b, float* c, int n) {
  __shared__ float s[16][16], t[16][16];
  int x = blockIdx.x * 16 + threadIdx.x, y = blockIdx.y * 16 + threadIdx.y;
  float v = 0;
  for (int k = 0; k < n; k += 16) {
    s[threadIdx.y][threadIdx.x] = a[y * n + k + threadIdx.x];
    t[threadIdx.y][threadIdx.x] = b[(k + threadIdx.y) * n + x];
    __syncthreads();
    for (int j = 0; j < 16; j++) v += s[threadIdx.y][j] * t[j][threadIdx.x];
    __syncthreads();
  }
  c[y * n + x] = v;
}"""
DIVERGENT = """extern "C" __global__ void divergent(const int* a, int* b, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x, k = 0;
  if (i >= n) return;
  for (int j = 0; j < a[i]; j++) k = k * 3 + j;
  b[i] = k;
}"""
ARITHMETIC = """extern "C" __global__ void arithmetic(const float* a, float* b, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float x = a[i], y = x * 0.5f;
  for (int j = 0; j < n; j++) { x = x * y + 0.25f; y = y - x * 0.125f; }
  b[i] = x + y;
}"""
Args = list[Buffer | bytes]
Grid = tuple[int, int, int]


def arguments(*values: object) -> Args:
    out: Args = []
    for v in values:
        if isinstance(v, np.ndarray):
            out.append(Buffer(v.reshape(-1).view(np.uint8), 0, v.nbytes, "array"))
        else:
            out.append(np.int32(v).tobytes())  # type: ignore[call-overload]
    return out


def jobs() -> dict[str, tuple[Compiled, Grid, Grid, Args]]:
    rng = np.random.default_rng(1)
    n, m = 1 << 20, 512
    x, y = rng.random(n, np.float32), np.zeros(n, np.float32)
    a, b, c = rng.random((m, m), np.float32), rng.random((m, m), np.float32), np.zeros((m, m), np.float32)
    k = rng.integers(0, 200, 1 << 17).astype(np.int32)
    return {
        "copy, stride 1, 2^20 threads": (
            compile_kernel(COPY),
            (n // 256, 1, 1),
            (256, 1, 1),
            arguments(x, y, n, 1),
        ),
        "copy, stride 8": (compile_kernel(COPY), (n // 256, 1, 1), (256, 1, 1), arguments(x, y, n, 8)),
        "arithmetic loop": (compile_kernel(ARITHMETIC), (n // 256, 1, 1), (256, 1, 1), arguments(x, y, 50)),
        "tiled product 512^2": (compile_kernel(PRODUCT), (32, 32, 1), (16, 16, 1), arguments(a, b, c, m)),
        "divergent loops": (
            compile_kernel(DIVERGENT),
            (512, 1, 1),
            (256, 1, 1),
            arguments(k, np.zeros_like(k), k.size),
        ),
    }


def speed() -> None:
    modes = {
        "plain": {"count": False, "sanitize": False},
        "counted": {"sanitize": False},
        "counted + sanitized": {},
    }
    print(f"{'M thread instructions / s (seconds)':34s}" + "".join(f"{m:>24s}" for m in modes))
    for name, (kernel, grid, block, args) in jobs().items():
        total = launch(kernel, grid, block, args).thread_instructions
        cells = []
        for options in modes.values():
            seconds = median(launch(kernel, grid, block, args, **options).seconds_emulated for _ in range(3))  # type: ignore[arg-type]
            cells.append(f"{total / seconds / 1e6:14.0f} ({seconds:5.2f} s)")
        print(f"{name:34s}" + "".join(f"{c:>24s}" for c in cells))


def numba_jobs() -> dict[str, tuple[Callable[[], None], Callable[[], None]]]:
    """The same three kernels, one or few blocks of each: Numba's simulator, and ours."""
    global cuda, float32  # Numba puts its simulator in place of the module's names
    from numba import cuda, float32

    @cuda.jit
    def copy(a, b, n, stride):  # type: ignore[no-untyped-def]
        i = cuda.grid(1)
        if i < n:
            b[i] = a[i * stride % n]

    @cuda.jit
    def product(a, b, c, n):  # type: ignore[no-untyped-def]
        s = cuda.shared.array((16, 16), float32)
        t = cuda.shared.array((16, 16), float32)
        tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
        x, y = cuda.blockIdx.x * 16 + tx, cuda.blockIdx.y * 16 + ty
        v = float32(0)
        for k in range(0, n, 16):
            s[ty, tx], t[ty, tx] = a[y, k + tx], b[k + ty, x]
            cuda.syncthreads()
            for j in range(16):
                v += s[ty, j] * t[j, tx]
            cuda.syncthreads()
        c[y, x] = v

    @cuda.jit
    def divergent(a, b, n):  # type: ignore[no-untyped-def]
        i = cuda.grid(1)
        if i < n:
            k = 0
            for j in range(a[i]):
                k = (k * 3 + j) & 0xFFFFFFFF
            b[i] = k if k < 2**31 else k - 2**32

    rng = np.random.default_rng(2)
    n, m = 4096, 64
    x, y, z = rng.random(n, np.float32), np.zeros(n, np.float32), np.zeros(n, np.float32)
    a, b = rng.random((m, m), np.float32), rng.random((m, m), np.float32)
    c, d = np.zeros_like(a), np.zeros_like(a)
    k = rng.integers(0, 200, 8192).astype(np.int32)
    o, p = np.zeros_like(k), np.zeros_like(k)
    ours = [
        lambda: launch(compile_kernel(COPY), (16, 1, 1), (256, 1, 1), arguments(x, z, n, 8)),
        lambda: launch(compile_kernel(PRODUCT), (4, 4, 1), (16, 16, 1), arguments(a, b, d, m)),
        lambda: launch(compile_kernel(DIVERGENT), (32, 1, 1), (256, 1, 1), arguments(k, p, k.size)),
    ]
    theirs = [
        lambda: copy[16, 256](x, y, n, 8),
        lambda: product[(4, 4), (16, 16)](a, b, c, m),
        lambda: divergent[32, 256](k, o, k.size),
    ]
    names = ["copy of 4,096 floats", "tiled product 64^2", "divergent loops, 8,192 threads"]
    pairs = dict(zip(names, zip(theirs, ours, strict=True), strict=True))
    for t, e in pairs.values():
        t(), e()
    np.testing.assert_array_equal(y, z)
    np.testing.assert_allclose(c, d, rtol=1e-5)
    np.testing.assert_array_equal(o, p)
    return pairs  # type: ignore[return-value]


def against_numba() -> None:
    print(f"\n{'seconds':34s}{'Numba simulator':>18s}{'emulator':>12s}{'ratio':>8s}")
    for name, pair in numba_jobs().items():
        times: tuple[list[float], list[float]] = ([], [])
        for _ in range(3):
            for f, kept in zip(pair, times, strict=True):
                started = time.perf_counter()
                f()
                kept.append(time.perf_counter() - started)
        theirs, ours = (median(t) for t in times)
        print(f"{name:34s}{theirs:18.3f}{ours:12.5f}{theirs / ours:8.0f}")


if __name__ == "__main__":
    if "--numba-child" in sys.argv:
        against_numba()
    else:
        speed()
        if "--numba" in sys.argv:
            environment = {**os.environ, "NUMBA_ENABLE_CUDASIM": "1"}
            subprocess.run([sys.executable, __file__, "--numba-child"], env=environment, check=True)
