"""One table of operations, each written twice: as CUDA C and as Python with exactly the same result.

Python integers stand for all integer types, normalised to the type's range; Python floats for float and
double (a float is kept as the double of the same value).  A NaN is a NaN: payloads are not compared.
"""

from __future__ import annotations

import ctypes
import math
import struct
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

C = {"u32": "unsigned", "i32": "int", "u64": "unsigned long long", "i64": "long long", "f32": "float",
     "f64": "double", "bool": "bool"}  # fmt: skip
INTEGERS, FLOATS = ("u32", "i32", "u64", "i64"), ("f32", "f64")
NUMBERS = (*INTEGERS, *FLOATS)

PRELUDE = """
__device__ unsigned bits(float x) { return x != x ? 0x7fffffffu : __float_as_uint(x); }
__device__ unsigned long long bits(double x) {
  return x != x ? 0x7fffffffffffffffull : (unsigned long long)__double_as_longlong(x);
}
template <class T, class F> __device__ T whole(F x) { return x > F(-2e9) && x < F(2e9) ? (T)x : (T)7; }
template <class T, class F> __device__ T natural(F x) { return x >= F(0) && x < F(4e9) ? (T)x : (T)7; }
__device__ unsigned fold(uint4 v) { return (v.x ^ v.y) + (v.z ^ v.w); }
__device__ __noinline__ unsigned mix(unsigned h, unsigned v) {
  for (unsigned k = 0; k < (v & 3); k++) h = h * 31 + (v >> k);
  return h ^ (h >> 15);
}
"""


def u32(x: int) -> int:
    return x & 0xFFFFFFFF


def u64(x: int) -> int:
    return x & 0xFFFFFFFFFFFFFFFF


def i32(x: int) -> int:
    return (x + 0x80000000 & 0xFFFFFFFF) - 0x80000000


def i64(x: int) -> int:
    return (x + (1 << 63) & 0xFFFFFFFFFFFFFFFF) - (1 << 63)


def f64(x: float) -> float:
    """Round to double; of an integer to nearest even, which Python's float() does."""
    return float(x)


def f32(x: float) -> float:
    """Round a double, or an integer of any size, to float, once."""
    if isinstance(x, int):
        return _once(Fraction(x))
    return ctypes.c_float(x).value


def _once(exact: Fraction) -> float:
    """An exact number rounded to float, through a double that was rounded to odd."""
    near = float(exact)
    error = exact - Fraction(near)
    (pattern,) = struct.unpack("<q", struct.pack("<d", near))
    if error and not pattern & 1:
        near = math.nextafter(near, math.inf if error > 0 else -math.inf)
    return ctypes.c_float(near).value


def fma(a: float, b: float, c: float, single: bool = False) -> float:
    """a · b + c rounded once, through exact fractions."""
    if not all(map(math.isfinite, (a, b, c))):
        return c if math.isfinite(a) and math.isfinite(b) else a * b + c
    product = Fraction(a) * Fraction(b)
    total = product + Fraction(c)
    if not total:
        return 0.0 if product else a * b + c
    try:
        return _once(total) if single else total.numerator / total.denominator
    except OverflowError:
        return math.inf if total > 0 else -math.inf


def divide(a: float, b: float) -> float:
    with np.errstate(all="ignore"):
        return float(np.float64(a) / np.float64(b))


def root(a: float) -> float:
    return math.sqrt(a) if a >= 0 else math.nan


def quotient(a: int, b: int) -> int:
    """Integer division toward zero, as C has it."""
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def remainder(a: int, b: int) -> int:
    return a - quotient(a, b) * b


def bits32(x: float) -> int:
    return 0x7FFFFFFF if x != x else int(struct.unpack("<I", struct.pack("<f", x))[0])


def bits64(x: float) -> int:
    return 0x7FFFFFFFFFFFFFFF if x != x else int(struct.unpack("<Q", struct.pack("<d", x))[0])


def float_of(bits: int) -> float:
    return float(struct.unpack("<f", struct.pack("<I", bits))[0])


def double_of(bits: int) -> float:
    return float(struct.unpack("<d", struct.pack("<Q", bits))[0])


def whole(x: float) -> int:
    return int(x) if -2e9 < x < 2e9 else 7


def natural(x: float) -> int:
    return int(x) if 0 <= x < 4e9 else 7


def mix(h: int, v: int) -> int:
    for k in range(v & 3):
        h = u32(h * 31 + (v >> k))
    return h ^ h >> 15


def fold(x: int, y: int, z: int, w: int) -> int:
    return u32((x ^ y) + (z ^ w))


def reversed_bits(x: int, n: int) -> int:
    return int(f"{x:0{n}b}"[::-1], 2)


def permuted(x: int, y: int, s: int) -> int:
    """__byte_perm: four of the eight bytes of (y, x), chosen by the low three bits of each nibble of s."""
    pair = y << 32 | x
    return sum((pair >> 8 * (s >> 4 * k & 7) & 255) << 8 * k for k in range(4))


def window(low: int, high: int, start: int) -> int:
    """32 bits of the pair (high, low)."""
    return u32((high << 32 | low) >> start)


@dataclass(frozen=True)
class Operation:
    """`cuda` and `python` are templates over the operands {0}, {1}, {2}."""

    result: str
    operands: tuple[str, ...]
    cuda: str
    python: str


def _integers(t: str) -> list[Operation]:
    n = int(t[1:])
    unsigned = f"u{n}"
    wide, suffix, far = f"({C[unsigned]})", "ll" if n == 64 else "", "64" if n == 64 else ""

    def two(cuda: str, python: str, *rest: str) -> Operation:
        return Operation(t, (t, *(rest or (t,))), cuda, python)

    def wrapped(sign: str) -> Operation:  # signed overflow is undefined in C, so the sum is made unsigned
        return two(f"({C[t]})({wide}{{0}} {sign} {wide}{{1}})", f"{t}({{0}} {sign} {{1}})")

    ops = [wrapped(sign) for sign in "+-*"]
    ops += [two(f"({{0}} {sign} {{1}})", f"({{0}} {sign} {{1}})") for sign in "&|^"]
    ops += [two(f"({C[t]})({wide}{{0}} << ({{1}} & {n - 1}u))", f"{t}({{0}} << ({{1}} & {n - 1}))", "u32"),
            two(f"({{0}} >> ({{1}} & {n - 1}u))", f"({{0}} >> ({{1}} & {n - 1}))", "u32"),
            two("min({0}, {1})", "min({0}, {1})"), two("max({0}, {1})", "max({0}, {1})"),
            Operation(t, (t,), "(~{0})", f"{t}(~{{0}})")]  # fmt: skip
    if t == unsigned:
        ops += [two("({0} / ({1} | 1))", "({0} // ({1} | 1))"), two("({0} % ({1} | 1))", "({0} % ({1} | 1))"),
                two("({0} / ({1} % 1000 + 1))", "({0} // ({1} % 1000 + 1))"),
                Operation("u32", (t,), f"(unsigned)__popc{suffix}({{0}})", "({0}).bit_count()"),
                Operation("u32", (t,), f"(unsigned)__clz{suffix}({{0}})", f"({n} - ({{0}}).bit_length())"),
                Operation("u32", (t,), f"(unsigned)__ffs{suffix}({{0}})", "({0} & -{0}).bit_length()"),
                Operation(t, (t,), f"__brev{suffix}({{0}})", f"reversed_bits({{0}}, {n})"),
                two(f"__umul{far}hi({{0}}, {{1}})", f"({{0}} * {{1}} >> {n})")]  # fmt: skip
    else:
        low, high = "(({1} & 0xffff) + 1)", "(-(({1} & 0xfffff) + 2))"
        ops += [two(f"({{0}} / {d})", f"quotient({{0}}, {d})") for d in (low, high)]
        ops += [two(f"({{0}} % {d})", f"remainder({{0}}, {d})") for d in (low, high)]
        ops += [two(f"__mul{far}hi({{0}}, {{1}})", f"({{0}} * {{1}} >> {n})")]
    return ops


def _floats(t: str) -> list[Operation]:
    """Products and quotients by intrinsics: the compiler may not fuse them with a sum."""
    f, mark, single = ("f", "f", ", True") if t == "f32" else ("d", "", "")
    return [
        Operation(t, (t, t), "({0} + {1})", f"{t}({{0}} + {{1}})"),
        Operation(t, (t, t), "({0} - {1})", f"{t}({{0}} - {{1}})"),
        Operation(t, (t, t), f"__{f}mul_rn({{0}}, {{1}})", f"{t}({{0}} * {{1}})"),
        Operation(t, (t, t), f"__{f}div_rn({{0}}, {{1}})", f"{t}(divide({{0}}, {{1}}))"),
        Operation(t, (t, t, t), f"fma{mark}({{0}}, {{1}}, {{2}})", f"fma({{0}}, {{1}}, {{2}}{single})"),
        Operation(t, (t,), f"sqrt{mark}({{0}})", f"{t}(root({{0}}))"),
        Operation(t, (t,), f"sqrt{mark}(fabs{mark}({{0}}))", f"{t}(root(abs({{0}})))"),
        Operation(t, (t,), "(-{0})", "(-{0})"),
        Operation(t, (t,), f"fabs{mark}({{0}})", "abs({0})"),
        Operation("i32", (t,), "whole<int>({0})", "whole({0})"),
        Operation("i64", (t,), "whole<long long>({0})", "whole({0})"),
        Operation("u32", (t,), "natural<unsigned>({0})", "natural({0})"),
        Operation("u64", (t,), "natural<unsigned long long>({0})", "natural({0})"),
    ]


def _any(t: str) -> list[Operation]:
    """Comparisons, selection, and conversions from an integer or between floats."""
    relations = [f"({{0}} {sign} {{1}})" for sign in ("<", "<=", ">", ">=", "==", "!=")]
    ops = [Operation("bool", (t, t), relation, relation) for relation in relations]
    ops += [Operation(t, ("bool", t, t), "({0} ? {1} : {2})", "({1} if {0} else {2})")]
    for other in NUMBERS:
        if other != t and (t in INTEGERS or other in FLOATS):
            ops.append(Operation(other, (t,), f"(({C[other]}){{0}})", f"{other}({{0}})"))
    return ops


def _narrow(c: str, size: int, signed: bool) -> Operation:
    half = 1 << size - 1
    python = f"(({{0}} + {half} & {2 * half - 1}) - {half})" if signed else f"({{0}} & {2 * half - 1})"
    return Operation("i32", ("i32",), f"(int)({c}){{0}}", python)


OPERATIONS = [
    *(op for t in INTEGERS for op in _integers(t)),
    *(op for t in FLOATS for op in _floats(t)),
    *(op for t in NUMBERS for op in _any(t)),
    _narrow("unsigned char", 8, False), _narrow("signed char", 8, True),
    _narrow("unsigned short", 16, False), _narrow("short", 16, True),
    Operation("bool", ("bool", "bool"), "({0} && {1})", "({0} and {1})"),
    Operation("bool", ("bool", "bool"), "({0} || {1})", "({0} or {1})"),
    Operation("bool", ("bool", "bool"), "({0} != {1})", "({0} != {1})"),
    Operation("bool", ("bool",), "(!{0})", "(not {0})"),
    Operation("u32", ("bool",), "(unsigned){0}", "int({0})"),
    Operation("u32", ("f32",), "bits({0})", "bits32({0})"),
    Operation("u64", ("f64",), "bits({0})", "bits64({0})"),
    Operation("f32", ("u32",), "__uint_as_float({0})", "float_of({0})"),
    Operation("f64", ("u64",), "__longlong_as_double((long long){0})", "double_of({0})"),
    Operation("u32", ("u32", "u32"), "mix({0}, {1})", "mix({0}, {1})"),
    Operation("u32", ("u32", "u32", "u32"), "__byte_perm({0}, {1}, {2})", "permuted({0}, {1}, {2})"),
    Operation("u32", ("u32", "u32", "u32"),
              "__funnelshift_l({0}, {1}, {2})", "window({0}, {1}, -{2} & 31 or 32)"),
    Operation("u32", ("u32", "u32", "u32"), "__funnelshift_r({0}, {1}, {2})", "window({0}, {1}, {2} & 31)"),
    Operation("u32", ("u32", "u32"), "__funnelshift_l({0}, {0}, {1})", "window({0}, {0}, -{1} & 31 or 32)"),
]  # fmt: skip
BY_RESULT = {t: [op for op in OPERATIONS if op.result == t] for t in C}
