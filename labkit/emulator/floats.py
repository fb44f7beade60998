"""IEEE arithmetic that NumPy does not offer: fused multiply-add and directed rounding, exact to the last bit.

The tool is the error-free transformation: the rounding error of a sum or product is itself a floating-point
number and can be computed (Knuth's TwoSum, Dekker's TwoProduct).  A result computed in double is then
rounded once, by first making it *odd*: where the double sum was inexact, its last bit is set, so that
rounding it to float cannot mistake it for a tie (Boldo and Melquiond, "Emulation of FMA and correctly
rounded sums", 2008).
"""

from __future__ import annotations

import math
import threading
from fractions import Fraction
from typing import Any

import numpy as np

from labkit.emulator.types import Array

F32, F64 = np.dtype(np.float32), np.dtype(np.float64)
SMALLEST = np.float32(2.0**-126)  # the smallest normal float32
SPLIT = 134217729.0
FOUR, ONE, SMALLEST_BITS = np.uint32(4), np.uint32(1), SMALLEST.view(np.uint32)


def two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    """a + b = s + e exactly (Knuth)."""
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


def two_product(a: Array, b: Array) -> tuple[Array, Array]:
    """a · b = p + e exactly (Dekker, Veltkamp), for doubles whose parts neither overflow nor underflow."""
    p = a * b
    ca, cb = a * SPLIT, b * SPLIT
    ah, bh = ca - (ca - a), cb - (cb - b)
    al, bl = a - ah, b - bh
    return p, ((ah * bh - p) + ah * bl + al * bh) + al * bl


def odd(s: Array, e: Array) -> Array:
    """s + e rounded to odd: inexact results get an odd last bit."""
    bits = s.view(np.int64)
    inexact = (e != 0) & (bits & 1 == 0) & np.isfinite(s)
    away = (e > 0) == (s > 0)
    result: Array = np.where(inexact, bits + np.where(away, 1, -1), bits).view(F64)
    return np.where(inexact & (s == 0), e, result)


class Scratch(threading.local):
    """Arrays to compute in: a float64, its bits, a uint32 and a float32 (the last two share memory).

    They are used over and over, so that they stay in the cache; each thread of the process has its own.
    """

    def __init__(self) -> None:
        self.wide, self.narrow = np.empty(0, F64), np.empty(0, np.uint32)
        self.known: dict[tuple[int, ...], tuple[Array, Array, Array, Array]] = {}

    def of(self, shape: tuple[int, ...]) -> tuple[Array, Array, Array, Array]:
        found = self.known.get(shape)
        if found is None:
            size = math.prod(shape)
            if size > self.wide.size or len(self.known) > 100:
                self.wide, self.narrow = np.empty(size, F64), np.empty(size, np.uint32)
                self.known.clear()
            wide, narrow = self.wide[:size].reshape(shape), self.narrow[:size].reshape(shape)
            found = self.known[shape] = wide, wide.view(np.uint64), narrow, narrow.view(F32)
        return found


scratch = Scratch()


def fma32(a: Array, b: Array, c: Array) -> Array:
    """float32 a · b + c, rounded once.

    The double product is exact, so only the double sum may have rounded; that matters only where it lies on
    a tie of float32, which the low 28 bits being zero tells (also for subnormal results).
    """
    s, bits, low, _ = scratch.of(a.shape if a.shape == b.shape == c.shape else np.broadcast(a, b, c).shape)
    np.multiply(a, b, out=s, dtype=F64)
    np.add(s, c, out=s, dtype=F64)
    r: Array = s.astype(F32)
    np.copyto(low, bits, casting="unsafe")
    np.left_shift(low, FOUR, out=low)
    return r if np.minimum.reduce(low, axis=None) else _without_ties(a, b, c, r, low == 0)


def _without_ties(a: Array, b: Array, c: Array, r: Array, tie: Array) -> Array:
    """The float32 `r` of a · b + c, corrected where the double sum may have been rounded to a `tie`."""
    at = ... if np.count_nonzero(tie) * 4 > tie.size else tie
    a, b, c = (x[at].astype(F64) for x in np.broadcast_arrays(a, b, c))
    s, e = two_sum(a * b, c)
    if e.any():
        r[at] = odd(s, e)
    return r


def fma64(a: Array, b: Array, c: Array) -> Array:
    """float64 a · b + c, rounded once; extreme exponents go through exact fractions."""
    a, b, c = (np.ascontiguousarray(x) for x in np.broadcast_arrays(a, b, c))
    uh, ul = two_product(a, b)
    th, tl = two_sum(c, ul)
    vh, vl = two_sum(uh, th)
    result: Array = vh + odd(*two_sum(tl, vl))
    plain = np.where(np.isfinite(a) & np.isfinite(b) & np.isinf(c), c, a * b + c)  # a·b may overflow first
    size = np.abs(np.stack([a, b, uh, c, plain]))
    hard = np.isfinite(a) & np.isfinite(b) & np.isfinite(c)
    hard &= (size > 1e290).any(axis=0) | ((size < 1e-250) & (size[[0, 1, 0, 3, 0]] != 0)).any(axis=0)
    result = np.where(np.isfinite(plain) & (uh != 0), result, plain)
    for at in zip(*np.nonzero(hard), strict=True):
        result[at] = _exact(float(a[at]), float(b[at]), float(c[at]), float(plain[at]))
    return result


def _exact(a: float, b: float, c: float, plain: float) -> float:
    total = Fraction(a) * Fraction(b) + Fraction(c)
    if total == 0:
        return plain
    try:
        return float(total.numerator / total.denominator)
    except OverflowError:
        return float("inf") if total > 0 else float("-inf")


def fma16(a: Array, b: Array, c: Array) -> Array:
    """float16 a · b + c; the double sum is made odd before it is rounded."""
    p = np.multiply(a, b, dtype=F64)
    return odd(*two_sum(*np.broadcast_arrays(p, c.astype(F64)))).astype(np.float16)


def directed(s: Array, e: Array, mode: str, dtype: np.dtype[Any]) -> Array:
    """The exact sum s + e rounded to `dtype` toward zero (rz), down (rm) or up (rp)."""
    r: Array = s.astype(dtype)
    back = r.astype(F64)
    above = (back > s) | ((back == s) & (e < 0))
    below = (back < s) | ((back == s) & (e > 0))
    low, high = dtype.type(-np.inf), dtype.type(np.inf)
    down = above & ((mode == "rm") | ((mode == "rz") & (s > 0)))
    up = below & ((mode == "rp") | ((mode == "rz") & (s < 0)))
    return np.where(down, np.nextafter(r, low), np.where(up, np.nextafter(r, high), r))


def rounded(op: str, mode: str, *args: Array) -> Array:
    """add, mul, fma, div or sqrt of float32 or float64 with directed rounding."""
    dtype = args[0].dtype
    a, b, c = (*(np.asarray(x, F64) for x in args), np.zeros((1, 1)), np.zeros((1, 1)))[:3]
    a, b, c = (np.ascontiguousarray(x) for x in np.broadcast_arrays(a, b, c))
    if op == "add":
        s, e = two_sum(a, b)
    elif op in ("mul", "fma"):
        p, low = two_product(a, b) if dtype == F64 else (a * b, np.zeros_like(a))
        s, e = two_sum(p, c)
        s, e = two_sum(s, e + low)
    elif op == "div":
        s = a / b
        p, low = two_product(s, b)
        e = ((a - p) - low) / b
    else:
        s = np.sqrt(a)
        p, low = two_product(s, s)
        e = (a - p) - low
    e = np.where(np.isfinite(s), e, 0)
    return directed(s, e, mode, dtype)


def flush(a: Array) -> Array:
    """Subnormal float32 values become zero of the same sign (.ftz)."""
    if a.dtype != F32 or not has_subnormal(a):
        return a
    return np.where(np.abs(a) < SMALLEST, np.copysign(np.float32(0), a), a)


def has_subnormal(a: Array) -> bool:
    """Whether a float32 array holds a subnormal number."""
    _, _, bits, size = scratch.of(a.shape)
    np.abs(a, out=size)
    if np.minimum.reduce(size, axis=None, initial=np.inf) >= SMALLEST:
        return False
    np.subtract(bits, ONE, out=bits)  # a zero or a NaN: zero wraps round to the largest number
    return bool(np.minimum.reduce(bits, axis=None) < SMALLEST_BITS - ONE)


def from_bf16(a: Array) -> Array:
    """bfloat16 bits -> float32: the upper half of a float."""
    return (a.astype(np.uint32) << np.uint32(16)).view(F32)


def to_bf16(a: Array, mode: str = "rn") -> Array:
    """float32 or float64 -> bfloat16 bits, to nearest even, or toward zero ("rz")."""
    if a.dtype == F64:
        f = a.astype(F32)
        f = np.where((f.astype(F64) != a) & np.isfinite(f), _odd32(f, a), f)
        a = f
    bits = np.ascontiguousarray(a, F32).view(np.uint32)
    step = np.uint32(0) if mode == "rz" else np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))
    out = ((bits + step) >> np.uint32(16)).astype(np.uint16)
    return np.where(np.isnan(a), np.uint16(0x7FFF), out)


def _odd32(f: Array, exact: Array) -> Array:
    """float32 nearest to `exact`, moved to the odd neighbour on the exact value's side."""
    bits = f.view(np.int32)
    away = (exact.astype(F64) > f.astype(F64)) == (f > 0)
    return np.where(bits & 1 == 0, bits + np.where(away, 1, -1), bits).astype(np.int32).view(F32)
