"""The corpus: for each `.cu` file beside this one a launch and what NumPy says it must give.

`CASES[name](rng)` gives a Case.  Arrays in `args` are copied before a launch; scalars are NumPy numbers,
structs bytes.  `expect` maps an argument's position to its values after the launch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import erf
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parent
Rng = np.random.Generator
f4, f8, i4, i8, u4 = np.float32, np.float64, np.int32, np.int64, np.uint32


@dataclass
class Case:
    """One launch: grid and block, arguments, and the arrays expected afterwards."""

    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    args: list[Any]
    expect: dict[int, np.ndarray]
    shared: int = 0
    rtol: float = 0.0
    atol: float = 0.0
    name: str | None = None
    unordered: frozenset[int] = field(default_factory=frozenset)

    def check(self, arrays: list[Any]) -> None:
        """Compare the arguments after a launch with what is expected."""
        for n, want in self.expect.items():
            got = np.sort(arrays[n]) if n in self.unordered else arrays[n]
            np.testing.assert_allclose(got, np.sort(want) if n in self.unordered else want, self.rtol, self.atol)


CASES: dict[str, Callable[[Rng], Case]] = {}


def case(f: Callable[[Rng], Case]) -> Callable[[Rng], Case]:
    CASES[f.__name__] = f
    return f


def source(name: str) -> str:
    """The CUDA C of one kernel of the corpus."""
    return (HERE / f"{name}.cu").read_text()


def uniform(rng: Rng, *shape: int, dtype: Any = f4) -> np.ndarray:
    return (rng.random(shape) * 2 - 1).astype(dtype)


def fused(a: Any, b: Any, c: Any) -> np.ndarray:
    """float32 a·b + c through long double, which is exact enough to round once."""
    return (np.asarray(a, np.longdouble) * b + c).astype(f4)


def grid(n: int, block: int) -> tuple[int, int, int]:
    return (-(-n // block), 1, 1)


@case
def saxpy(rng: Rng) -> Case:
    x, y, n = uniform(rng, 1000), uniform(rng, 1000), 1000
    return Case(grid(n, 128), (128, 1, 1), [f4(1.7), x, y, i4(n)], {2: fused(f4(1.7), x, y)})


@case
def copy_float4(rng: Rng) -> Case:
    a = uniform(rng, 4096)
    return Case((3, 1, 1), (128, 1, 1), [a, np.zeros_like(a), i4(1024)], {1: a})


@case
def strided_read(rng: Rng) -> Case:
    n, a = 4096, uniform(rng, 4096)
    return Case(grid(n, 256), (256, 1, 1), [a, np.zeros_like(a), i4(n), i4(5)], {1: a[np.arange(n) * 5 % n]})


@case
def transpose_naive(rng: Rng) -> Case:
    a = uniform(rng, 45, 70)
    return Case((5, 6, 1), (16, 8, 1), [a, np.zeros((70, 45), f4), i4(45), i4(70)], {1: a.T})


def _transpose(rng: Rng) -> Case:
    a = uniform(rng, 128, 128)
    return Case((4, 4, 1), (32, 8, 1), [a, np.zeros_like(a), i4(128)], {1: a.T})


CASES["transpose_tiled"] = CASES["transpose_padded"] = _transpose


@case
def reduce_shared(rng: Rng) -> Case:
    a = rng.integers(-9, 9, 5000).astype(f4)
    parts = np.zeros(4 * 128, f4)
    at = np.arange(5000) % 512
    np.add.at(parts, at, a)
    return Case((4, 1, 1), (128, 1, 1), [a, np.zeros(4, f4), i4(5000)], {1: parts.reshape(4, 128).sum(1)}, shared=512)


@case
def reduce_interleaved(rng: Rng) -> Case:
    a = rng.integers(-99, 99, (8, 256)).astype(i4)
    return Case((8, 1, 1), (256, 1, 1), [a, np.zeros(8, i4)], {1: a.sum(1)})


@case
def reduce_shuffle(rng: Rng) -> Case:
    a = rng.integers(-99, 99, 1000).astype(f4)
    want = np.pad(a, (0, 24)).reshape(4, 256).sum(1)
    return Case((4, 1, 1), (256, 1, 1), [a, np.zeros(4, f4), i4(1000)], {1: want})


@case
def reduce_atomic(rng: Rng) -> Case:
    a = rng.integers(0, 99, 1000).astype(i4)
    return Case(
        (8, 1, 1),
        (128, 1, 1),
        [a, np.zeros(1, np.uint64), i4(1000)],
        {1: a.sum(keepdims=True).astype(np.uint64)},
    )


@case
def reduce_last_block(rng: Rng) -> Case:
    a = rng.integers(-99, 99, (6, 128)).astype(i4)
    return Case((6, 1, 1), (128, 1, 1), [a, np.zeros(6, i4), np.zeros(1, i4)], {1: a.sum(1), 2: a.sum().reshape(1)})


@case
def scan_hillis(rng: Rng) -> Case:
    a = rng.integers(-99, 99, (4, 256)).astype(i4)
    return Case((4, 1, 1), (256, 1, 1), [a, np.zeros_like(a)], {1: a.cumsum(1)})


@case
def scan_warp(rng: Rng) -> Case:
    a = rng.integers(-99, 99, (16, 32)).astype(f4)
    return Case((4, 1, 1), (128, 1, 1), [a, np.zeros_like(a)], {1: a.cumsum(1)})


def _histogram(rng: Rng) -> Case:
    a = (rng.random(3000) ** 3 * 256).astype(np.uint8)
    return Case((12, 1, 1), (256, 1, 1), [a, np.zeros(256, u4), i4(3000)], {1: np.bincount(a, minlength=256)})


CASES["histogram_global"] = CASES["histogram_shared"] = _histogram


@case
def stencil_1d(rng: Rng) -> Case:
    a = rng.integers(-99, 99, 1000).astype(f4)
    want = np.convolve(a, np.ones(9), "same")
    return Case((4, 1, 1), (256, 1, 1), [a, np.zeros_like(a), i4(1000)], {1: want})


@case
def stencil_2d(rng: Rng) -> Case:
    a = rng.integers(-99, 99, (33, 50)).astype(f8)
    want = np.zeros_like(a)
    want[1:-1, 1:-1] = 0.25 * (a[1:-1, :-2] + a[1:-1, 2:] + a[:-2, 1:-1] + a[2:, 1:-1])
    return Case((4, 9, 1), (16, 4, 1), [a, np.zeros_like(a), i4(33), i4(50)], {1: want})


@case
def convolution_constant(rng: Rng) -> Case:
    a = rng.integers(-16, 16, 500).astype(f4)
    want = np.convolve(a, [0.0625, 0.25, 0.375, 0.25, 0.0625], "same")
    return Case(grid(500, 96), (96, 1, 1), [a, np.zeros_like(a), i4(500)], {1: want})


@case
def spmv_csr(rng: Rng) -> Case:
    dense = np.where(rng.random((200, 150)) < 0.05, rng.integers(-9, 9, (200, 150)), 0).astype(f4)
    rows, columns = np.nonzero(dense)
    start = np.searchsorted(rows, np.arange(201)).astype(i4)
    x = rng.integers(-9, 9, 150).astype(f4)
    args = [start, columns.astype(i4), dense[rows, columns], x, np.zeros(200, f4), i4(200)]
    return Case(grid(200, 64), (64, 1, 1), args, {4: dense @ x})


@case
def bitonic_sort(rng: Rng) -> Case:
    a = rng.integers(-999, 999, (5, 256)).astype(i4)
    return Case((5, 1, 1), (256, 1, 1), [a], {0: np.sort(a, 1)})


@case
def odd_even_sort(rng: Rng) -> Case:
    a = rng.integers(-999, 999, (5, 64)).astype(np.int16)
    return Case((5, 1, 1), (64, 1, 1), [a], {0: np.sort(a, 1)})


@case
def gather(rng: Rng) -> Case:
    a, index = uniform(rng, 777, dtype=f8), rng.integers(0, 777, 1000)
    return Case(grid(1000, 128), (128, 1, 1), [a, index, np.zeros(1000), i4(1000)], {2: a[index]})


@case
def scatter(rng: Rng) -> Case:
    a, index = rng.integers(0, 99, 1000).astype(i4), rng.permutation(1000).astype(i4)
    want = np.zeros(1000, i4)
    want[index] = a
    return Case(grid(1000, 128), (128, 1, 1), [a, index, np.zeros(1000, i4), i4(1000)], {2: want})


@case
def compact_ballot(rng: Rng) -> Case:
    a = rng.integers(-50, 50, 1000).astype(i4)
    kept = a[a > 0]
    want = np.zeros(1000, i4)
    want[: len(kept)] = kept
    return Case(grid(1000, 128), (128, 1, 1), [a, np.zeros(1000, i4), np.zeros(1, i4), i4(1000)],
                {1: want, 2: np.array([len(kept)])}, unordered=frozenset({1}))  # fmt: skip


@case
def softmax_rows(rng: Rng) -> Case:
    a = uniform(rng, 6, 333) * 9
    e = np.exp(a.astype(f8) - a.max(1, keepdims=True))
    return Case((6, 1, 1), (128, 1, 1), [a, np.zeros_like(a), i4(333)], {1: e / e.sum(1, keepdims=True)}, rtol=2e-5)


@case
def layer_norm(rng: Rng) -> Case:
    a = uniform(rng, 8, 100)
    d = a.astype(f8)
    want = (d - d.mean(1, keepdims=True)) / np.sqrt(d.var(1, keepdims=True) + 1e-5)
    return Case((2, 1, 1), (32, 4, 1), [a, np.zeros_like(a), i4(100), f4(1e-5)], {1: want}, rtol=1e-4, atol=1e-5)


def _gemm(block: tuple[int, int, int], tile: int) -> Callable[[Rng], Case]:
    def make(rng: Rng) -> Case:
        a, b = rng.integers(-9, 9, (64, 64)).astype(f4), rng.integers(-9, 9, (64, 64)).astype(f4)
        return Case((64 // tile, 64 // tile, 1), block, [a, b, np.zeros_like(a), i4(64)], {2: a @ b})

    return make


CASES["gemm_naive"] = CASES["gemm_tiled"] = _gemm((16, 16, 1), 16)
CASES["gemm_registers"] = _gemm((256, 1, 1), 64)


@case
def gemm_wmma(rng: Rng) -> Case:
    a, b = rng.integers(-9, 9, (64, 64)).astype(np.float16), rng.integers(-9, 9, (64, 64)).astype(np.float16)
    want = 2 * a.astype(f4) @ b.astype(f4)
    return Case((2, 4, 1), (64, 1, 1), [a, b, np.zeros((64, 64), f4), i4(64)], {2: want})


@case
def gemm_mma(rng: Rng) -> Case:
    a, b = (
        rng.integers(-9, 9, (3, 16, 16)).astype(np.float16),
        rng.integers(-9, 9, (3, 16, 8)).astype(np.float16),
    )
    return Case((3, 1, 1), (32, 1, 1), [a, b, np.zeros((3, 16, 8), f4)], {2: a.astype(f4) @ b.astype(f4)})


@case
def copy_async(rng: Rng) -> Case:
    a = uniform(rng, 5, 128, 4)
    return Case((5, 1, 1), (128, 1, 1), [a, np.zeros_like(a)], {1: a[:, ::-1]})


@case
def collatz(rng: Rng) -> Case:
    a = rng.integers(1, 5000, 300).astype(i4)

    def steps(v: int) -> int:
        k = 0
        while v != 1:
            v, k = (3 * v + 1 if v & 1 else v // 2), k + 1
        return k

    return Case(grid(300, 64), (64, 1, 1), [a, np.zeros(300, i4), i4(300)], {1: np.array([steps(int(v)) for v in a])})


@case
def mandelbrot(rng: Rng) -> Case:
    x, y = np.meshgrid(np.arange(40), np.arange(30))
    cr, ci = -2.0 + 3.0 * x / 40, -1.5 + 3.0 * y / 30
    zr, zi, k = np.zeros_like(cr), np.zeros_like(ci), np.zeros_like(x)
    for _ in range(50):
        on = zr * zr + zi * zi < 4.0
        t = np.where(on, zr * zr - zi * zi + cr, zr)
        zi = np.where(on, 2.0 * zr * zi + ci, zi)
        zr, k = t, k + on
    return Case((3, 4, 1), (16, 8, 1), [np.zeros((30, 40), i4), i4(40), i4(30), i4(50)], {0: k})


@case
def branches(rng: Rng) -> Case:
    a = rng.integers(0, 10**6, 700).astype(i4)
    ways = [a * 3, a // 7, a % 13, a << 3, a >> 2, ~a, np.bitwise_count(a), -a]
    want = np.select([(a & 7) == k for k in range(8)], ways)
    return Case(grid(700, 128), (128, 1, 1), [a, np.zeros_like(a), i4(700)], {1: want})


def _integer(x: int, y: int) -> int:
    m = 0xFFFFFFFF

    def s(v: int) -> int:
        return (v & m) - (1 << 32) if v & 0x80000000 else v & m

    def cdiv(p: int, q: int) -> int:
        return abs(p) // abs(q) * (1 if (p < 0) == (q < 0) else -1)

    r = (x.bit_count() + (32 - y.bit_length()) * 3 + ((x & -x).bit_length()) * 5) & m
    pair = (y << 32) | x
    octets = [pair >> 8 * k & 255 for k in range(8)]
    perm = sum(octets[0x3175 >> 4 * k & 7] << 8 * k for k in range(4))
    left = ((pair << (x & 31)) >> 32) & m
    r ^= int(f"{x:032b}"[::-1], 2) ^ perm ^ left ^ ((pair >> 7) & m)
    r = (r + ((x * y >> 32) ^ ((s(x) * s(y) >> 32) & m))) & m
    z = y | 1
    quotient = cdiv(s(x), s(z))
    r = (r + x // z + x % z + quotient + (s(x) - quotient * s(z))) & m
    w = x * y + 12345 & (1 << 64) - 1
    r ^= (w // (x | 1) + (w >> 33) + (w * (w << 7 & (1 << 64) - 1) >> 64)) & m
    return (r + ((min(s(x), s(y)) & m) ^ max(x, y) ^ (abs(s(x)) & m))) & m


@case
def integers(rng: Rng) -> Case:
    a, b = (rng.integers(1, 2**32, 500, dtype=np.uint32) for _ in range(2))
    want = np.array([_integer(int(x), int(y)) for x, y in zip(a, b, strict=True)], u4)
    return Case(grid(500, 128), (128, 1, 1), [a, b, np.zeros_like(a), i4(500)], {2: want})


@case
def int64(rng: Rng) -> Case:
    a, b = rng.integers(-(2**62), 2**62, 300), rng.integers(1, 2**40, 300) * rng.choice([-1, 1], 300)

    def one(x: int, y: int) -> int:
        q = abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)
        r = q * 3 + (x - q * y) + (x << (y & 31)) - (x >> 5) + (x * y >> 64)
        return (r + 2**63) % 2**64 - 2**63

    want = np.array([one(int(x), int(y)) for x, y in zip(a, b, strict=True)])
    return Case(grid(300, 128), (128, 1, 1), [a, b, np.zeros_like(a), i4(300)], {2: want})


@case
def math_float(rng: Rng) -> Case:
    a = np.concatenate([uniform(rng, 200) * 9, f4([1e5, -3e6, 1e-6, 40])])
    x = a.astype(f8)
    want = [
        np.sin(x),
        np.cos(x),
        np.exp(x * 0.1),
        np.log(np.abs(x) + f4(0.1)),
        np.sqrt(np.abs(x)),
        np.tanh(x),
        np.abs(x) ** f8(f4(0.7)),
        np.arctan2(x, 2),
        [erf(v) for v in x],
        np.fmod(x, f8(f4(0.37))),
        np.rint(x),
        1 / x,
    ]
    keep = np.abs(x) < 5000
    want = np.stack(want, axis=1)
    want[~keep, 2] = np.exp(x[~keep].astype(f8) * 0.1)
    with np.errstate(over="ignore"):
        want = want.astype(f4)
    return Case(
        grid(len(a), 64),
        (64, 1, 1),
        [a, np.zeros((len(a), 12), f4), i4(len(a))],
        {1: want},
        rtol=3e-6,
        atol=2e-7,
    )


@case
def math_double(rng: Rng) -> Case:
    x = uniform(rng, 200, dtype=f8) * 9
    want = [np.sin(x), np.exp(x * 0.1), np.log(np.abs(x) + 0.1), np.sqrt(np.abs(x)), np.abs(x) ** 1.3,
            (x.astype(np.longdouble) ** 2 - 1).astype(f8), x / 3.0, np.floor(x) + np.cbrt(x)]  # fmt: skip
    return Case(
        grid(200, 64),
        (64, 1, 1),
        [x, np.zeros((200, 8)), i4(200)],
        {1: np.stack(want, axis=1)},
        rtol=1e-14,
        atol=1e-15,
    )


@case
def half_precision(rng: Rng) -> Case:
    a, b = uniform(rng, 300, 2, dtype=np.float16), uniform(rng, 300, 2, dtype=np.float16)
    low = (f4(0.5) * a[:, :1].astype(f4)).astype(np.float16)
    return Case(grid(300, 64), (64, 1, 1), [a, b, np.zeros_like(a), i4(300)], {2: a * b + low})


def bf16(a: np.ndarray) -> np.ndarray:
    """float32 -> bfloat16 bits, to nearest even."""
    bits = np.ascontiguousarray(a, f4).view(u4)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


@case
def bfloat16(rng: Rng) -> Case:
    a, b = bf16(uniform(rng, 300)), bf16(uniform(rng, 300))
    x, y = ((v.astype(u4) << 16).view(f4) for v in (a, b))
    return Case(grid(300, 64), (64, 1, 1), [a, b, np.zeros_like(a), i4(300)], {2: bf16(fused(x, y, 1.0))})


@case
def structs(rng: Rng) -> Case:
    a = uniform(rng, 100, 4)
    want = a.copy()
    want[:, 0] = fused(a[:, 0], f4(1.5), f4(-0.25))
    want[:, 3] = fused(a[:, 1], a[:, 2], a[:, 3])
    settings = i4(100).tobytes() + f4(1.5).tobytes() + f8(-0.25).tobytes()
    return Case(grid(100, 32), (32, 1, 1), [a, settings], {0: want})


@case
def local_array(rng: Rng) -> Case:
    a = rng.integers(-99, 99, (150, 16)).astype(i4)
    return Case(grid(150, 64), (64, 1, 1), [a, np.zeros(150, i4), i4(150)], {1: np.sort(a, 1)[:, 8]})


@case
def device_function(rng: Rng) -> Case:
    a, c = uniform(rng, 200), uniform(rng, 6)
    want = np.where(a > 0, np.polyval(c[::-1], a.astype(f8)), np.polyval(c[2:5][::-1], -a.astype(f8)))
    return Case(grid(200, 64), (64, 1, 1), [a, c, np.zeros(200, f4), i4(200)], {2: want}, rtol=1e-5, atol=1e-6)


@case
def templates(rng: Rng) -> Case:
    a = rng.integers(-9, 9, (64, 5)).astype(f8)
    return Case((2, 1, 1), (32, 1, 1), [a, np.zeros(64)], {1: a.sum(1)}, name="templates<double, 5>")


@case
def cooperative_tile(rng: Rng) -> Case:
    a = rng.integers(-9, 9, (32, 8)).astype(i4)
    return Case((4, 1, 1), (64, 1, 1), [a, np.zeros(32, i4)], {1: a.sum(1)})


@case
def spin_lock(rng: Rng) -> Case:
    return Case((2, 1, 1), (32, 1, 1), [np.zeros(1, i4)], {0: np.array([64])})


@case
def atomics_many(rng: Rng) -> Case:
    a = rng.integers(-(10**6), 10**6, 1000).astype(i4)
    start = np.array([0, 0, -1, 0, 0, 0, 0], i4)
    want = [min(a.min(), 0), max(a.max(), 0), np.bitwise_and.reduce(a | 16), np.bitwise_or.reduce(a & 255),
            np.bitwise_xor.reduce(a), -3000, 1000 % 10]  # fmt: skip
    return Case(
        grid(1000, 128),
        (128, 1, 1),
        [a, start, np.zeros(1, f4), i4(1000)],
        {1: np.array(want), 2: np.array([500.0])},
    )


@case
def match_any(rng: Rng) -> Case:
    a = rng.integers(0, 6, (8, 32)).astype(i4)
    want = (a[:, :, None] == a[:, None, :]).sum(2)
    return Case((2, 1, 1), (128, 1, 1), [a, np.zeros_like(a)], {1: want})


@case
def dot_packed(rng: Rng) -> Case:
    a, b = (rng.integers(-128, 128, (300, 4)).astype(np.int8) for _ in range(2))
    want = (a.astype(i4) * b).sum(1) + 7
    return Case(grid(300, 64), (64, 1, 1), [a, b, np.zeros(300, i4), i4(300)], {2: want})


@case
def pointer_chase(rng: Rng) -> Case:
    following = rng.permutation(512).astype(i4)
    at = np.arange(128)
    for _ in range(20):
        at = following[at]
    return Case((2, 1, 1), (64, 1, 1), [following, np.zeros(128, i4), i4(20)], {1: at})


@case
def block_votes(rng: Rng) -> Case:
    a = rng.integers(0, 9, (3, 96)).astype(i4)
    want = (a == 3).sum(1) + 100 * (a == 7).any(1) + 1000 * (a < 9).all(1)
    return Case((3, 1, 1), (96, 1, 1), [a, np.zeros_like(a)], {1: np.repeat(want[:, None], 96, 1)})
