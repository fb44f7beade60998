"""Arithmetic: how the NumPy function of each opcode is made.

Each entry takes the instruction's modifiers and type and gives a function of arrays.  IEEE operations (add,
sub, mul, fma, div.rn, sqrt.rn, rcp.rn) are correctly rounded like the hardware's.  Approximate ones (ex2,
lg2, sin, cos, tanh, rcp, rsqrt, sqrt and div with .approx or .full) are computed in double and rounded
once; the hardware's differ from that by at most 2 units in the last place (sin, cos: 2^-20.5 absolute; PTX
ISA, "Floating Point Instructions").
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from labkit.emulator import floats
from labkit.emulator.ptx import Instr
from labkit.emulator.types import DTYPE, SIGNED, UNSIGNED, Array, Function, Make, Mods

DIRECTED = {"rz", "rm", "rp"}


def floating(kind: str) -> bool:
    return kind in ("f16", "bf16", "f32", "f64", "f16x2", "bf16x2")


def mode_of(mods: Mods) -> str | None:
    return next((m for m in mods if m in DIRECTED), None)


def add(mods: Mods, kind: str) -> Function:
    mode = mode_of(mods)
    if mode and floating(kind):
        return lambda a, b: floats.rounded("add", mode, a, b)
    if "sat" in mods and kind == "s32":
        return lambda a, b: np.clip(a.astype(np.int64) + b, -(2**31), 2**31 - 1).astype(np.int32)
    return np.add


def sub(mods: Mods, kind: str) -> Function:
    mode = mode_of(mods)
    if mode and floating(kind):
        return lambda a, b: floats.rounded("add", mode, a, -b)
    if "sat" in mods and kind == "s32":
        return lambda a, b: np.clip(a.astype(np.int64) - b, -(2**31), 2**31 - 1).astype(np.int32)
    return np.subtract


def mul(mods: Mods, kind: str) -> Function:
    if floating(kind):
        mode = mode_of(mods)
        return (lambda a, b: floats.rounded("mul", mode, a, b)) if mode else np.multiply
    if "wide" in mods:
        wide = _wide(kind)
        return lambda a, b: np.multiply(a, b, dtype=wide)
    return mulhi(kind) if "hi" in mods else np.multiply


def _wide(kind: str) -> np.dtype[Any]:
    d = DTYPE[kind]
    return (SIGNED if d.kind == "i" else UNSIGNED)[2 * d.itemsize]


def mulhi(kind: str) -> Function:
    d = DTYPE[kind]
    if d.itemsize < 8:
        wide, shift = _wide(kind), d.itemsize * 8
        return lambda a, b: (np.multiply(a, b, dtype=wide) >> wide.type(shift)).astype(d)
    if d.kind == "u":
        return _mulhi64
    return lambda a, b: (_mulhi64(a.view(np.uint64), b.view(np.uint64)).view(np.int64)
                         - np.where(a < 0, b, np.int64(0)) - np.where(b < 0, a, np.int64(0)))  # fmt: skip


LOW, HALF = np.uint64(0xFFFFFFFF), np.uint64(32)


def _mulhi64(a: Array, b: Array) -> Array:
    """The upper 64 bits of a 64 × 64 product, from four 32 × 32 ones."""
    al, ah, bl, bh = a & LOW, a >> HALF, b & LOW, b >> HALF
    middle = ah * bl + (al * bl >> HALF)
    other = al * bh + (middle & LOW)
    result: Array = ah * bh + (middle >> HALF) + (other >> HALF)
    return result


def fma(mods: Mods, kind: str) -> Function:
    mode = mode_of(mods)
    if mode:
        return lambda a, b, c: floats.rounded("fma", mode, a, b, c)
    if kind == "bf16":
        return lambda a, b, c: floats.odd(*floats.two_sum(*np.broadcast_arrays(a * b, c)))
    return {"f32": floats.fma32, "f64": floats.fma64, "f16": floats.fma16}[kind]


def mad(mods: Mods, kind: str) -> Function:
    if floating(kind):
        return fma(mods, kind)
    product = mul(mods, kind)
    return lambda a, b, c: product(a, b) + c


def mad_types(i: Instr, kind: str) -> Iterable[str]:
    wide = kind[0] + str(2 * int(kind[1:])) if "wide" in i.mods else kind
    return [kind, kind, wide]


def mul24(mods: Mods, kind: str) -> Function:
    def cut(a: Array) -> Array:
        shift = a.dtype.type(8)
        result: Array = (a << shift) >> shift
        return result

    if "hi" in mods:
        wide = _wide(kind)
        return lambda a, b: (np.multiply(cut(a), cut(b), dtype=wide) >> wide.type(16)).astype(DTYPE[kind])
    return lambda a, b: cut(a) * cut(b)


def mad24(mods: Mods, kind: str) -> Function:
    product = mul24(mods, kind)
    return lambda a, b, c: product(a, b) + c


def div(mods: Mods, kind: str) -> Function:
    mode = mode_of(mods)
    if floating(kind):
        return (lambda a, b: floats.rounded("div", mode, a, b)) if mode else np.divide
    return lambda a, b: np.where(b == 0, b.dtype.type(-1) if kind[0] == "s" else ~b, _quotient(a, b))


def rem(mods: Mods, kind: str) -> Function:
    return lambda a, b: np.where(b == 0, a, a - _quotient(a, b) * b)


def _quotient(a: Array, b: Array) -> Array:
    """Integer division toward zero, as C has it."""
    b = np.where(b == 0, b.dtype.type(1), b)
    if a.dtype.kind == "u":
        return a // b
    q = a // b
    result: Array = q + ((q < 0) & (q * b != a)).astype(a.dtype)
    return result


def least(mods: Mods, kind: str) -> Function:
    if not floating(kind):
        return np.minimum
    return _nan_aware(np.minimum if "NaN" in mods else np.fmin, np.logical_or, mods)


def most(mods: Mods, kind: str) -> Function:
    if not floating(kind):
        return np.maximum
    return _nan_aware(np.maximum if "NaN" in mods else np.fmax, np.logical_and, mods)


def _nan_aware(f: Any, sign: Any, mods: Mods) -> Function:
    """min and max with -0 below +0, which NumPy leaves open."""

    def pick(a: Array, b: Array) -> Array:
        r = f(a, b)
        zero = (a == 0) & (b == 0)
        if zero.any():
            r = np.where(zero, np.where(sign(np.signbit(a), np.signbit(b)), -r.dtype.type(0), r.dtype.type(0)), r)
        result: Array = r
        return result

    def pick3(a: Array, b: Array, c: Array | None = None) -> Array:
        return pick(a, b) if c is None else pick(pick(a, b), c)

    return pick3


def negate(mods: Mods, kind: str) -> Function:
    if floating(kind):
        return _sign(kind, lambda bits, top: bits ^ top)
    return np.negative


def absolute(mods: Mods, kind: str) -> Function:
    if floating(kind):
        return _sign(kind, lambda bits, top: bits & ~top)
    return np.abs


def _sign(kind: str, f: Callable[[Array, Any], Array]) -> Function:
    """Work on the sign bit, so that NaN payloads and zeros behave as in hardware."""
    d = DTYPE[kind]
    u = UNSIGNED[d.itemsize]
    top = u.type(1 << (8 * d.itemsize - 1))

    def g(a: Array) -> Array:
        return f(a.view(u), top).view(d)

    g.floats = False  # type: ignore[attr-defined]
    return g


def copysign(mods: Mods, kind: str) -> Function:
    return lambda a, b: np.copysign(b, a)


def _double(f: Callable[[Array], Array]) -> Make:
    """Computed in double, rounded once; double results keep only their upper half, as on the GPU."""

    def make(mods: Mods, kind: str) -> Function:
        mode = mode_of(mods)
        d = DTYPE[kind] if kind != "bf16" else np.dtype(np.float64)
        if mode and f in (_reciprocal, np.sqrt):
            return (
                (lambda a: floats.rounded("sqrt", mode, a))
                if f is np.sqrt
                else (lambda a: floats.rounded("div", mode, np.ones_like(a), a))
            )
        if kind == "f64" and "approx" in mods:
            return lambda a: (f(a).view(np.uint64) & ~LOW).view(np.float64)
        return lambda a: f(a.astype(np.float64)).astype(d)

    return make


def _reciprocal(a: Array) -> Array:
    return 1.0 / a


def _rsqrt(a: Array) -> Array:
    return 1.0 / np.sqrt(a)
