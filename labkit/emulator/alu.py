"""Arithmetic and logic: a table from opcode to how its NumPy function is made.

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
from labkit.emulator.program import CARRY, Program
from labkit.emulator.ptx import Instr, Operand, Pair, Reg, Vec
from labkit.emulator.types import DTYPE, SIGNED, UNSIGNED, Array, Read, Step, reader

Function = Callable[..., Array]
Mods = tuple[str, ...]
Make = Callable[[Mods, str], Function]
DIRECTED = {"rz", "rm", "rp"}
PACKED = {"f16x2": "f16", "bf16x2": "bf16", "f32x2": "f32", "u16x2": "u16", "s16x2": "s16"}


def slot_of(a: Operand, p: Program) -> int | None:
    """Where a result goes; None for `_`."""
    return p.slot(a) if isinstance(a, Reg) and a.name != "_" else None


def alu(i: Instr, p: Program, pc: int) -> Step:
    """A step that computes a table entry and writes its destination."""
    kind = i.types[0] if i.types else "b32"
    make, inputs = TABLE[i.op]
    f = lift(make, i.mods, kind)
    reads = [reader(a, t, p) for a, t in zip(i.args[1:], inputs(i, kind), strict=False)]
    slot = slot_of(i.args[0], p)
    return apply(f, reads, slot) if slot is not None else (lambda w: None)


def apply(f: Function, reads: list[Read], slot: int) -> Step:
    if len(reads) == 1:
        a = reads[0]
        return lambda w: w.put(slot, f(a(w)))
    if len(reads) == 2:
        a, b = reads
        return lambda w: w.put(slot, f(a(w), b(w)))
    if len(reads) == 3:
        a, b, c = reads
        return lambda w: w.put(slot, f(a(w), b(w), c(w)))
    return lambda w: w.put(slot, f(*(r(w) for r in reads)))


def lift(make: Make, mods: Mods, kind: str) -> Function:
    """The function for `kind`: bfloat16 through float, pairs by halves, .ftz, .sat and .relu around it."""
    if kind in PACKED:
        return pairwise(lift(make, tuple(PACKED.get(m, m) for m in mods), PACKED[kind]), DTYPE[PACKED[kind]])
    f = make(mods, kind)
    if kind == "bf16" and getattr(f, "floats", True):
        f = through_bf16(f)
    if "ftz" in mods and kind == "f32":
        f = _ftz(f)
    if "sat" in mods and kind in ("f16", "f32", "f64", "bf16"):
        f = _after(f, lambda x: np.where(x > 0, np.minimum(x, x.dtype.type(1)), x.dtype.type(0)))
    if "relu" in mods and kind != "bf16":
        f = _after(f, lambda x: np.where(x > 0, x, x.dtype.type(0)))
    return f


def pairwise(f: Function, half: np.dtype[Any]) -> Function:
    """Both halves of packed registers, each on its own."""

    def packed(*args: Array) -> Array:
        full = [np.ascontiguousarray(a)[..., None].view(half) for a in args]
        out = np.ascontiguousarray(f(*full))
        return out.view(UNSIGNED[2 * half.itemsize])[..., 0]

    return packed


def through_bf16(f: Function) -> Function:
    def wide(*args: Array) -> Array:
        out = f(*(floats.from_bf16(a).astype(np.float64) if a.dtype == np.uint16 else a for a in args))
        return floats.to_bf16(out) if out.dtype.kind == "f" else out

    return wide


def _ftz(f: Function) -> Function:
    def flushed(*args: Array) -> Array:
        out = f(*(floats.flush(a) for a in args))
        return floats.flush(out) if out.dtype == np.float32 else out

    return flushed


def _after(f: Function, g: Callable[[Array], Array]) -> Function:
    return lambda *args: g(f(*args))


def same(i: Instr, kind: str) -> Iterable[str]:
    """All operands have the instruction's type."""
    return [kind] * (len(i.args) - 1)


def then_u32(i: Instr, kind: str) -> Iterable[str]:
    """The first operand has the type; the rest are 32-bit counts (shifts, bit fields)."""
    return [kind] + ["u32"] * (len(i.args) - 2)


def floating(kind: str) -> bool:
    return kind in ("f16", "bf16", "f32", "f64", "f16x2", "bf16x2")


# --- floating point and integers, basic --------------------


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
            r = np.where(
                zero, np.where(sign(np.signbit(a), np.signbit(b)), -r.dtype.type(0), r.dtype.type(0)), r
            )
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


# --- approximate functions --------------------


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


# --- bits --------------------


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
        result: Array = (
            np.where(n > top, a.dtype.type(0), out) if a.dtype.kind == "u" and (n > top).any() else out
        )
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
        bits = np.where(
            start < size, a.view(u) >> np.minimum(start, np.uint32(size - 1)).astype(u), u.type(0)
        )
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
            byte = (pair >> ((selector & np.uint32(7)) * np.uint32(8)).astype(np.uint64)).astype(
                np.uint32
            ) & np.uint32(255)
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
    ta, tb = (
        np.dtype(np.int8 if m == "s32" else np.uint8) for m in [m for m in mods if m in ("s32", "u32")][:2]
    )

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


TABLE: dict[str, tuple[Make, Callable[[Instr, str], Iterable[str]]]] = {
    "add": (add, same),
    "sub": (sub, same),
    "mul": (mul, same),
    "fma": (fma, same),
    "mad": (mad, mad_types),
    "mul24": (mul24, same),
    "mad24": (mad24, same),
    "div": (div, same),
    "rem": (rem, same),
    "min": (least, same),
    "max": (most, same),
    "neg": (negate, same),
    "abs": (absolute, same),
    "copysign": (copysign, same),
    "sqrt": (_double(np.sqrt), same),
    "rsqrt": (_double(_rsqrt), same),
    "rcp": (_double(_reciprocal), same),
    "sin": (_double(np.sin), same),
    "cos": (_double(np.cos), same),
    "ex2": (_double(np.exp2), same),
    "lg2": (_double(np.log2), same),
    "tanh": (_double(np.tanh), same),
    "and": (bitwise(np.bitwise_and), same),
    "or": (bitwise(np.bitwise_or), same),
    "xor": (bitwise(np.bitwise_xor), same),
    "not": (bitwise(np.invert), same),
    "cnot": (cnot, same),
    "shl": (shl, then_u32),
    "shr": (shr, then_u32),
    "shf": (shf, same),
    "popc": (popc, same),
    "clz": (clz, same),
    "bfind": (bfind, same),
    "brev": (brev, same),
    "bfe": (bfe, then_u32),
    "bfi": (bfi, lambda i, k: [k, k, "u32", "u32"]),
    "lop3": (lop3, same),
    "prmt": (prmt, same),
    "sad": (sad, same),
    "dp4a": (dp4a, lambda i, k: [*i.types[:2], "s32" if "s32" in i.types[:2] else "u32"]),
    "selp": (selp, sel_types),
    "slct": (slct, lambda i, k: [k, k, i.types[-1]]),
    "testp": (testp, same),
    "bmsk": (bmsk, same),
    "szext": (szext, lambda i, k: [k, "u32"]),
}


# --- comparisons --------------------


def _unordered(f: Function) -> Function:
    return lambda a, b: f(a, b) | np.isnan(a) | np.isnan(b)


COMPARE: dict[str, Function] = {
    "eq": np.equal,
    "ne": lambda a, b: (a != b) & ~(np.isnan(a) | np.isnan(b)) if a.dtype.kind == "f" else a != b,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "lo": np.less,
    "ls": np.less_equal,
    "hi": np.greater,
    "hs": np.greater_equal,
    "equ": _unordered(np.equal),
    "neu": lambda a, b: a != b,
    "ltu": _unordered(np.less),
    "leu": _unordered(np.less_equal),
    "gtu": _unordered(np.greater),
    "geu": _unordered(np.greater_equal),
    "num": lambda a, b: ~(np.isnan(a) | np.isnan(b)),
    "nan": lambda a, b: np.isnan(a) | np.isnan(b),
}
COMBINE: dict[str, Function] = {"and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor}


def _comparison(i: Instr, p: Program) -> tuple[Function, list[Read]]:
    kind = i.types[-1]
    half = PACKED.get(kind, kind)
    f = COMPARE[i.mods[0]]
    if half == "bf16":
        plain = f
        f = lambda a, b: plain(floats.from_bf16(a), floats.from_bf16(b))  # noqa: E731 — wraps the table's entry
    if "ftz" in i.mods and kind == "f32":
        unflushed = f
        f = lambda a, b: unflushed(floats.flush(a), floats.flush(b))  # noqa: E731 — wraps the table's entry
    return f, [reader(a, kind, p) for a in i.args[1:3]]


def setp(i: Instr, p: Program, pc: int) -> Step:
    """Compare two values into a predicate, possibly combined with a third operand."""
    f, (a, b) = _comparison(i, p)
    if i.types[-1] in PACKED:
        return _setp_packed(i, p, f, a, b)
    dst = i.args[0]
    first, second = (dst.first, dst.second) if isinstance(dst, Pair) else (dst, None)
    slot, other = slot_of(first, p), slot_of(second, p) if second else None
    join = next((COMBINE[m] for m in i.mods[1:] if m in COMBINE), None)
    c = reader(i.args[3], "pred", p) if join else None

    def step(w: Wave) -> None:
        r = f(a(w), b(w))
        s = ~r if other is not None else r
        if join is not None and c is not None:
            extra = c(w)
            r, s = join(r, extra), join(s, extra)
        if slot is not None:
            w.put(slot, r)
        if other is not None:
            w.put(other, s)

    return step if second or join else apply(f, [a, b], slot if slot is not None else 0)


def _setp_packed(i: Instr, p: Program, f: Function, a: Read, b: Read) -> Step:
    dst = i.args[0]
    assert isinstance(dst, Pair)
    half = DTYPE[PACKED[i.types[-1]]]
    slots = [slot_of(dst.first, p), slot_of(dst.second, p)]

    def step(w: Wave) -> None:
        r = f(*(np.ascontiguousarray(x(w))[..., None].view(half) for x in (a, b)))
        for k, slot in enumerate(slots):
            if slot is not None:
                w.put(slot, r[..., k])

    return step


def set_(i: Instr, p: Program, pc: int) -> Step:
    """Compare into a number: 1.0 for float results, all ones for integers."""
    f, (a, b) = _comparison(i, p)
    out, source = i.types[0], i.types[-1]
    slot = slot_of(i.args[0], p)
    assert slot is not None
    if source in PACKED:
        half = DTYPE[PACKED[source]]
        one = {"f16x2": 0x3C00, "bf16x2": 0x3F80}.get(out, 0xFFFF)
        pair = pairwise(lambda x, y: np.where(f(x, y), np.uint16(one), np.uint16(0)), half)
        return apply(pair, [a, b], slot)
    one_of: dict[str, Any] = {
        "f32": np.float32(1),
        "f16": np.float16(1),
        "bf16": np.uint16(0x3F80),
        "f64": np.float64(1),
    }
    yes = one_of.get(out, DTYPE[out].type(-1) if DTYPE[out].kind == "i" else ~DTYPE[out].type(0))
    return apply(lambda x, y: np.where(f(x, y), yes, type(yes)(0)), [a, b], slot)


# --- carries --------------------


def carry(i: Instr, p: Program, pc: int) -> Step:
    """add.cc, addc, sub.cc, subc, mad.cc, madc: long arithmetic, the carry kept in a register of its own."""
    kind = i.types[0]
    u = UNSIGNED[DTYPE[kind].itemsize]
    name = i.op
    takes, gives = name.endswith("c"), "cc" in i.mods
    flag, slot = p.slot(CARRY), slot_of(i.args[0], p)
    assert slot is not None
    product = mul(i.mods, kind) if name.startswith("mad") else None
    typed = [reader(a, kind if product and n < 2 else u, p) for n, a in enumerate(i.args[1:])]

    def step(w: Wave) -> None:
        values = [r(w) for r in typed]
        a, b = (product(*values[:2]).view(u), values[2]) if product else values[:2]
        c = w.regs[flag].astype(u) if takes else u.type(0)
        if name.startswith("sub"):
            out = a - b - c
            over = (a < b) | ((a == b) & (c != 0))
        else:
            out = a + b + c
            over = (out < a) | ((out == a) & (c != 0))
        w.put(slot, out)
        if gives:
            w.put(flag, np.asarray(over))

    return step


# --- moves --------------------


def mov(i: Instr, p: Program, pc: int) -> Step:
    """mov: copy, pack {a, b} into a wider register, or unpack one."""
    dst, source = i.args
    kind = i.types[0]
    if isinstance(dst, Vec):
        return _unpack(dst, reader(source, kind, p), p)
    slot = slot_of(dst, p)
    assert slot is not None
    if isinstance(source, Vec):
        part = UNSIGNED[DTYPE[kind].itemsize // len(source.items)]
        reads = [reader(a, part, p) for a in source.items]
        whole = DTYPE[kind]

        def pack(w: Wave) -> None:
            parts = np.broadcast_arrays(*(r(w) for r in reads))
            w.put(slot, np.stack(parts, axis=-1).view(whole)[..., 0])

        return pack
    read = reader(source, kind, p)
    return lambda w: w.put(slot, read(w))


def _unpack(dst: Vec, read: Read, p: Program) -> Step:
    slots = [slot_of(d, p) for d in dst.items]
    n = len(slots)

    def step(w: Wave) -> None:
        value = np.ascontiguousarray(read(w))
        parts = value[..., None].view(UNSIGNED[value.dtype.itemsize // n])
        for k, slot in enumerate(slots):
            if slot is not None:
                w.put(slot, parts[..., k])

    return step


from labkit.emulator.wave import Wave  # noqa: E402 — only for annotations; wave imports types, not alu
