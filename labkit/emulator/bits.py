"""Bits: shifts, fields, permutations, selections."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from labkit.emulator.arithmetic import HALF, LOW
from labkit.emulator.ptx import Instr
from labkit.emulator.types import DTYPE, UNSIGNED, Array, Function, Make, Mods


def bitwise(f: Function) -> Make:
    def make(mods: Mods, kind: str) -> Function:
        return f

    return make


def cnot(mods: Mods, kind: str) -> Function:
    return lambda a: (a == 0).astype(a.dtype)


def shl(mods: Mods, kind: str) -> Function:
    size = DTYPE[kind].itemsize * 8
    top = np.uint32(size - 1)

    def f(a: Array, n: Array) -> Array:
        out = a << np.minimum(n, top).astype(a.dtype)
        result: Array = np.where(n > top, a.dtype.type(0), out) if (n > top).any() else out
        return result

    return f


def shr(mods: Mods, kind: str) -> Function:
    size = DTYPE[kind].itemsize * 8
    top = np.uint32(size - 1)

    def f(a: Array, n: Array) -> Array:
        out = a >> np.minimum(n, top).astype(a.dtype)
        result: Array = np.where(n > top, a.dtype.type(0), out) if a.dtype.kind == "u" and (n > top).any() else out
        return result

    return f


def shf(mods: Mods, kind: str) -> Function:
    """Funnel shift: a window of 32 bits over the pair (high, low)."""
    left, clamp = "l" in mods, "clamp" in mods

    def f(low: Array, high: Array, n: Array) -> Array:
        n64 = (np.minimum(n, np.uint32(32)) if clamp else n & np.uint32(31)).astype(np.uint64)
        both = (high.astype(np.uint64) << HALF) | low
        return ((both << n64) >> HALF if left else (both >> n64)).astype(np.uint32)

    return f


def popc(mods: Mods, kind: str) -> Function:
    return lambda a: np.bitwise_count(a).astype(np.uint32)


def _smear(a: Array) -> Array:
    """All bits below the highest set one."""
    for n in (1, 2, 4, 8, 16, 32):
        if n < a.dtype.itemsize * 8:
            a = a | (a >> a.dtype.type(n))
    return a


def clz(mods: Mods, kind: str) -> Function:
    size = DTYPE[kind].itemsize * 8
    return lambda a: (size - np.bitwise_count(_smear(a)).astype(np.int32)).astype(np.uint32)


def bfind(mods: Mods, kind: str) -> Function:
    shift = "shiftamt" in mods
    size = DTYPE[kind].itemsize * 8

    def f(a: Array) -> Array:
        if a.dtype.kind == "i":
            a = np.where(a < 0, ~a, a)
        top = np.bitwise_count(_smear(a.view(UNSIGNED[size // 8]))).astype(np.int32) - 1
        return (np.where(top >= 0, size - 1 - top, -1) if shift else top).astype(np.int32).view(np.uint32)

    return f


def brev(mods: Mods, kind: str) -> Function:
    d = DTYPE[kind]

    def f(a: Array) -> Array:
        octets = np.ascontiguousarray(a)[..., None].view(np.uint8)[..., ::-1]
        flipped = np.packbits(np.unpackbits(octets, axis=-1, bitorder="little"), axis=-1)
        return np.ascontiguousarray(flipped).view(d)[..., 0]

    return f


def bfe(mods: Mods, kind: str) -> Function:
    """Extract `length` bits from `start`, sign-extended for signed types."""
    d = DTYPE[kind]
    size = d.itemsize * 8
    u = UNSIGNED[d.itemsize]

    def f(a: Array, start: Array, length: Array) -> Array:
        start, length = start & np.uint32(255), length & np.uint32(255)
        bits = np.where(start < size, a.view(u) >> np.minimum(start, np.uint32(size - 1)).astype(u), u.type(0))
        if d.kind == "i":
            bits = np.where(start < size, bits, np.where(a < 0, ~u.type(0), u.type(0)))
            bits = (a >> np.minimum(start, np.uint32(size - 1)).astype(d)).view(u)
        keep = np.minimum(length, np.uint32(size))
        mask = np.where(
            keep >= size,
            ~u.type(0),
            (u.type(1) << np.minimum(keep, np.uint32(size - 1)).astype(u)) - u.type(1),
        )
        low = bits & mask
        signed = d.kind == "i"
        at = np.minimum(np.where(keep > 0, keep, 1) - 1 + 0 * start, size - 1).astype(u)
        negative = ((bits >> at) & u.type(1)).astype(bool) & (keep > 0)
        result: Array = np.where(signed & negative, low | ~mask, low).view(d)
        return result

    return f


def bfi(mods: Mods, kind: str) -> Function:
    """Insert the low `length` bits of a into b at `start`."""
    d = DTYPE[kind]
    size = d.itemsize * 8

    def f(a: Array, b: Array, start: Array, length: Array) -> Array:
        start, length = start & np.uint32(255), np.minimum(length & np.uint32(255), np.uint32(size))
        short = np.minimum(length, np.uint32(size - 1)).astype(d)
        mask = np.where(length >= size, ~d.type(0), (d.type(1) << short) - d.type(1))
        at = np.minimum(start, np.uint32(size - 1)).astype(d)
        out = (b & ~(mask << at)) | ((a & mask) << at)
        return np.where(start >= size, b, out)

    return f


def lop3(mods: Mods, kind: str) -> Function:
    """Any function of three bits, given as its truth table."""

    def f(a: Array, b: Array, c: Array, table: Array) -> Array:
        code = int(table.flat[0])
        out = np.zeros(np.broadcast_shapes(a.shape, b.shape, c.shape), np.uint32)
        for n in range(8):
            if code >> n & 1:
                out |= (a if n & 4 else ~a) & (b if n & 2 else ~b) & (c if n & 1 else ~c)
        return out

    return f


def prmt(mods: Mods, kind: str) -> Function:
    """Pick four bytes of the pair (b, a); bit 3 of a selector copies the byte's sign."""
    mode = next((m for m in mods if m in PRMT), None)

    def f(a: Array, b: Array, c: Array) -> Array:
        pair = (b.astype(np.uint64) << HALF) | a
        out: Array = np.zeros(np.broadcast_shapes(a.shape, b.shape, c.shape), np.uint32)
        for n in range(4):
            if mode:
                table = np.array([PRMT[mode][k][n] for k in range(4)], np.uint32)
                selector = table[c & np.uint32(3)]
            else:
                selector = (c >> np.uint32(4 * n)) & np.uint32(15)
            byte = (pair >> ((selector & np.uint32(7)) * np.uint32(8)).astype(np.uint64)).astype(np.uint32) & np.uint32(
                255
            )
            sign = np.where(byte >> np.uint32(7), np.uint32(255), np.uint32(0))
            out = out | (np.where(selector & np.uint32(8), sign, byte) << np.uint32(8 * n))
        return out

    return f


PRMT = {"f4e": [[0, 1, 2, 3], [1, 2, 3, 4], [2, 3, 4, 5], [3, 4, 5, 6]],
        "b4e": [[0, 7, 6, 5], [1, 0, 7, 6], [2, 1, 0, 7], [3, 2, 1, 0]],
        "rc8": [[k] * 4 for k in range(4)], "rc16": [[0, 1, 0, 1], [2, 3, 2, 3]] * 2,
        "ecl": [[0, 1, 2, 3], [1, 1, 2, 3], [2, 2, 2, 3], [3, 3, 3, 3]],
        "ecr": [[0, 0, 0, 0], [0, 1, 1, 1], [0, 1, 2, 2], [0, 1, 2, 3]]}  # fmt: skip


def sad(mods: Mods, kind: str) -> Function:
    return lambda a, b, c: np.where(a < b, b - a, a - b) + c


def dp4a(mods: Mods, kind: str) -> Function:
    """A dot product of four bytes, added to c."""
    ta, tb = (np.dtype(np.int8 if m == "s32" else np.uint8) for m in [m for m in mods if m in ("s32", "u32")][:2])

    def f(a: Array, b: Array, c: Array) -> Array:
        x = np.ascontiguousarray(a)[..., None].view(ta).astype(np.int64)
        y = np.ascontiguousarray(b)[..., None].view(tb).astype(np.int64)
        result: Array = ((x * y).sum(axis=-1) + c.astype(np.int64)).astype(c.dtype)
        return result

    return f


def selp(mods: Mods, kind: str) -> Function:
    def f(a: Array, b: Array, p: Array) -> Array:
        return np.where(p, a, b)

    return f


def sel_types(i: Instr, kind: str) -> Iterable[str]:
    return [kind, kind, "pred"]


def slct(mods: Mods, kind: str) -> Function:
    def f(a: Array, b: Array, c: Array) -> Array:
        return np.where(c >= 0, a, b)

    return f


def testp(mods: Mods, kind: str) -> Function:
    tests: dict[str, Function] = {
        "finite": np.isfinite, "infinite": np.isinf, "notanumber": np.isnan, "number": lambda a: ~np.isnan(a),
        "normal": lambda a: np.isfinite(a) & (np.abs(a) >= np.finfo(a.dtype).tiny),
        "subnormal": lambda a: (np.abs(a) < np.finfo(a.dtype).tiny) & (a != 0)}  # fmt: skip
    return tests[mods[0]]


def bmsk(mods: Mods, kind: str) -> Function:
    def f(a: Array, b: Array) -> Array:
        start, length = np.minimum(a, 63).astype(np.uint64), np.minimum(b, 32).astype(np.uint64)
        return ((((np.uint64(1) << length) - np.uint64(1)) << start) & LOW).astype(np.uint32)

    return f


def szext(mods: Mods, kind: str) -> Function:
    def f(a: Array, n: Array) -> Array:
        shift = (32 - np.clip(n, 1, 32)).astype(a.dtype)
        result: Array = np.where(n == 0, a.dtype.type(0), (a << shift) >> shift)
        return result

    return f
