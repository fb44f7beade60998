"""Single instructions, through inline assembly, against Python's integers."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from labkit.emulator import compile_kernel, launch

sys.path.insert(0, str(Path(__file__).parent))
from arguments import prepare

pytestmark = pytest.mark.compiler
M = 0xFFFFFFFF
KERNEL = """extern "C" __global__ void k(const unsigned* a, const unsigned* b, const unsigned* c, unsigned*
o) { int i = threadIdx.x; asm volatile("%s" : "=r"(o[i]) : "r"(a[i]), "r"(b[i]), "r"(c[i]));
}"""


def signed(x: int) -> int:
    return x - (1 << 32) if x >> 31 else x


def bfe_signed(a: int, b: int, c: int) -> int:
    start, length = b & 255, c & 255
    if length == 0:
        return 0
    x = signed(a)
    bits = [x >> min(start + k, 31) & 1 for k in range(min(length, 32))]
    value = sum(v << k for k, v in enumerate(bits))
    return (value - (1 << len(bits)) if bits[-1] else value) & M


def bfe_unsigned(a: int, b: int, c: int) -> int:
    return a >> (b & 255) & (1 << min(c & 255, 32)) - 1


def prmt(a: int, b: int, c: int) -> int:
    octets = [(b << 32 | a) >> 8 * k & 255 for k in range(8)]
    out = 0
    for k in range(4):
        s = c >> 4 * k & 15
        octet = octets[s & 7]
        out |= (octet if not s & 8 else 255 * (octet >> 7)) << 8 * k
    return out


def lop3(a: int, b: int, c: int) -> int:
    return sum((0x96 >> (4 * (a >> k & 1) + 2 * (b >> k & 1) + (c >> k & 1)) & 1) << k for k in range(32))


CASES: dict[str, Callable[[int, int, int], int]] = {
    "bfe.s32 %0, %1, %2, %3;": bfe_signed,
    "bfe.u32 %0, %1, %2, %3;": bfe_unsigned,
    "bfi.b32 %0, %1, %2, 5, 9;": lambda a, b, c: b & ~(511 << 5) & M | (a & 511) << 5,
    "prmt.b32 %0, %1, %2, %3;": prmt,
    "lop3.b32 %0, %1, %2, %3, 0x96;": lop3,
    "shf.l.wrap.b32 %0, %1, %2, %3;": lambda a, b, c: (b << 32 | a) << (c & 31) >> 32 & M,
    "shf.r.clamp.b32 %0, %1, %2, %3;": lambda a, b, c: (b << 32 | a) >> min(c, 32) & M,
    "shl.b32 %0, %1, %3;": lambda a, b, c: a << c & M if c < 32 else 0,
    "shr.s32 %0, %1, %3;": lambda a, b, c: signed(a) >> min(c, 31) & M,
    "sad.s32 %0, %1, %2, %3;": lambda a, b, c: abs(signed(a) - signed(b)) + c & M,
    "mad.hi.s32 %0, %1, %2, %3;": lambda a, b, c: (signed(a) * signed(b) >> 32) + c & M,
    "mul24.lo.u32 %0, %1, %2;": lambda a, b, c: (a & 0xFFFFFF) * (b & 0xFFFFFF) & M,
    "bfind.u32 %0, %1;": lambda a, b, c: a.bit_length() - 1 & M,
    "clz.b32 %0, %1;": lambda a, b, c: 32 - a.bit_length(),
    "rem.s32 %0, %1, %2;": lambda a, b, c: signed(a) - int(np.trunc(signed(a) / signed(b))) * signed(b) & M if b else a,
    "cnot.b32 %0, %3;": lambda a, b, c: int(c == 0),
    "{.reg .u32 t; add.cc.u32 t, %1, %2; addc.u32 %0, %3, 0;}": lambda a, b, c: c + (a + b >> 32) & M,
    "{.reg .u32 t; sub.cc.u32 t, %1, %2; subc.u32 %0, %3, 0;}": lambda a, b, c: c - (a < b) & M,
    "{.reg .pred p; setp.lt.and.s32 p, %1, %2, 1; selp.b32 %0, %3, 7, p;}": lambda a, b, c: (
        c if signed(a) < signed(b) else 7
    ),
    "{.reg .pred p; setp.hi.u32 p, %1, %2; mov.b32 %0, 1; @p mov.b32 %0, 2; @!p add.u32 %0, %0, %3;}": lambda a, b, c: (
        2 if a > b else 1 + c & M
    ),
    "{.reg .b16 l, h; mov.b32 {l, h}, %1; mov.b32 %0, {h, l};}": lambda a, b, c: (a >> 16 | a << 16) & M,
    "{.reg .s8 x; cvt.s32.s8 %0, %1;}": lambda a, b, c: ((a & 255) ^ 128) - 128 & M,
    "{.reg .u16 x; cvt.sat.u16.s32 x, %1; cvt.u32.u16 %0, x;}": lambda a, b, c: min(max(signed(a), 0), 65535),
}


@pytest.mark.parametrize("text", CASES)
def test_instruction(text: str) -> None:
    rng = np.random.default_rng(5)
    a, b = (rng.integers(0, 2**32, 256, dtype=np.uint32) for _ in range(2))
    c = rng.integers(0, 40, 256).astype(np.uint32)
    if text.startswith("bfe"):
        b = rng.integers(0, 40, 256).astype(np.uint32)
    a[:4], b[2:6] = (0, 1, M, 1 << 31), (1, M, 7, 1 << 31)
    kept, args = prepare([a, b, c, np.zeros(256, np.uint32)])
    launch(compile_kernel(KERNEL.replace("%s", text)), (1, 1, 1), (256, 1, 1), args)
    want = [CASES[text](int(x), int(y), int(z)) for x, y, z in zip(a, b, c, strict=True)]
    np.testing.assert_array_equal(kept[3], np.array(want, np.uint64).astype(np.uint32))


FLOATS = {
    "cvt.rni.s32.f32": lambda x: np.rint(x),
    "cvt.rzi.s32.f32": lambda x: np.trunc(x),
    "cvt.rmi.s32.f32": lambda x: np.floor(x),
    "cvt.rpi.s32.f32": lambda x: np.ceil(x),
}


@pytest.mark.parametrize("name", FLOATS)
def test_float_to_integer_saturates(name: str) -> None:
    text = (
        'extern "C" __global__ void k(const float* a, int* o) {\n  int i = threadIdx.x;\n'
        f'  asm volatile("{name} %0, %1;" : "=r"(o[i]) : "f"(a[i]));\n}}'
    )
    a = np.array([0.5, 1.5, 2.5, -0.5, -1.5, 3e9, -3e9, np.inf, -np.inf, np.nan, 123456.75], np.float32)
    kept, args = prepare([a, np.zeros(len(a), np.int32)])
    launch(compile_kernel(text), (1, 1, 1), (len(a), 1, 1), args)
    want = np.nan_to_num(np.clip(FLOATS[name](a.astype(np.float64)), -(2**31), 2**31 - 1), nan=0)
    np.testing.assert_array_equal(kept[1], want.astype(np.int64))


@pytest.mark.parametrize(
    "expression, reference",
    [
        ("__fadd_rz(x, y)", lambda x, y: x + y),
        ("__fmul_rd(x, y)", lambda x, y: x * y),
        ("__fdiv_ru(x, y)", lambda x, y: x / y),
        ("fminf(x, y)", np.fmin),
        ("__frcp_rn(x)", lambda x, y: 1 / x),
        ("__fsqrt_rn(fabsf(x))", lambda x, y: np.sqrt(np.abs(x))),
        ("__fdividef(x, y)", lambda x, y: x / y),
        ("__expf(x)", lambda x, y: np.exp(x)),
        ("__sinf(x)", lambda x, y: np.sin(x)),
    ],
)
def test_float_functions(expression: str, reference: Callable[..., np.ndarray]) -> None:
    text = (
        'extern "C" __global__ void k(const float* a, const float* b, float* o) {\n  int i = threadIdx.x;\n'
        f"  float x = a[i], y = b[i];\n  o[i] = {expression};\n}}"
    )
    rng = np.random.default_rng(2)
    a, b = ((rng.random(256) * 8 - 4).astype(np.float32) for _ in range(2))
    kept, args = prepare([a, b, np.zeros(256, np.float32)])
    launch(compile_kernel(text), (1, 1, 1), (256, 1, 1), args)
    np.testing.assert_allclose(kept[2], reference(a.astype(np.float64), b.astype(np.float64)), rtol=4e-7, atol=1e-6)
