"""The table of arithmetic and logic: opcode -> how its function is made, and the types of its operands."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from labkit.emulator.arithmetic import (
    _double,
    _reciprocal,
    _rsqrt,
    absolute,
    add,
    copysign,
    div,
    fma,
    least,
    mad,
    mad24,
    mad_types,
    most,
    mul,
    mul24,
    negate,
    rem,
    sub,
)
from labkit.emulator.bits import (
    bfe,
    bfi,
    bfind,
    bitwise,
    bmsk,
    brev,
    clz,
    cnot,
    dp4a,
    lop3,
    popc,
    prmt,
    sad,
    sel_types,
    selp,
    shf,
    shl,
    shr,
    slct,
    szext,
    testp,
)
from labkit.emulator.flushing import is_flushed
from labkit.emulator.lifting import apply, lift, slot_of
from labkit.emulator.program import Program
from labkit.emulator.ptx import Instr
from labkit.emulator.types import Function, Make, Step, reader


def same(i: Instr, kind: str) -> Iterable[str]:
    """All operands have the instruction's type."""
    return [kind] * (len(i.args) - 1)


def then_u32(i: Instr, kind: str) -> Iterable[str]:
    """The first operand has the type; the rest are 32-bit counts (shifts, bit fields)."""
    return [kind] + ["u32"] * (len(i.args) - 2)


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


# float32 as NumPy has it, rounded twice and not flushed: where the results of a launch are thrown away.
ROUGH: dict[str, Function] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "fma": lambda a, b, c: a * b + c,
}


def alu(i: Instr, p: Program, pc: int) -> Step:
    """A step that computes a table entry and writes its destination."""
    kind = i.types[0] if i.types else "b32"
    make, inputs = TABLE[i.op]
    known, hoped = ([is_flushed(a, p, found) for a in i.args[1:]] for found in (p.flushed, p.flushed_with_shared))
    f = lift(make, i.mods, kind, known)
    reads = [reader(a, t, p) for a, t in zip(i.args[1:], inputs(i, kind), strict=False)]
    slot = slot_of(i.args[0], p)
    if slot is None:
        return lambda w: None
    careful = apply(f, reads, slot)
    exact = careful
    if known != hoped and "ftz" in i.mods:
        quick = apply(lift(make, i.mods, kind, hoped), reads, slot)
        exact = lambda w: (quick if w.memory.normal_shared else careful)(w)  # noqa: E731 — one of two steps
    if i.op not in ROUGH or kind != "f32" or "sat" in i.mods:
        return exact
    rough = apply(ROUGH[i.op], reads, slot)
    return lambda w: (rough if w.memory.rough else exact)(w)
