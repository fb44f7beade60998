"""setp and set: comparisons, ordered and unordered."""

from __future__ import annotations

from typing import Any

import numpy as np

from labkit.emulator import floats
from labkit.emulator.lifting import PACKED, apply, pairwise, slot_of
from labkit.emulator.program import Program
from labkit.emulator.ptx import Instr, Pair
from labkit.emulator.types import DTYPE, Function, Read, Step, reader
from labkit.emulator.wave import Wave


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
