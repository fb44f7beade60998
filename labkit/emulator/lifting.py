"""From a function of arrays to a step: packed halves, bfloat16, .ftz, .sat and .relu around it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from labkit.emulator import floats
from labkit.emulator.program import Program
from labkit.emulator.ptx import Operand, Reg
from labkit.emulator.types import DTYPE, UNSIGNED, Array, Function, Make, Mods, Read, Step

PACKED = {"f16x2": "f16", "bf16x2": "bf16", "f32x2": "f32", "u16x2": "u16", "s16x2": "s16"}


def slot_of(a: Operand, p: Program) -> int | None:
    """Where a result goes; None for `_`."""
    return p.slot(a) if isinstance(a, Reg) and a.name != "_" else None


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


def lift(make: Make, mods: Mods, kind: str, flushed: Sequence[bool] = ()) -> Function:
    """The function for `kind`: bfloat16 through float, pairs by halves, .ftz, .sat and .relu around it.

    flushed: which arguments are known to hold no subnormal number.
    """
    if kind in PACKED:
        return pairwise(lift(make, tuple(PACKED.get(m, m) for m in mods), PACKED[kind]), DTYPE[PACKED[kind]])
    f = make(mods, kind)
    if kind == "bf16" and getattr(f, "floats", True):
        f = through_bf16(f)
    if "ftz" in mods and kind == "f32":
        f = _ftz(f, flushed)
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


def _ftz(f: Function, clean: Sequence[bool]) -> Function:
    known = [*clean, False, False, False, False]

    def flushed(*args: Array) -> Array:
        out = f(*(a if skip else floats.flush(a) for a, skip in zip(args, known, strict=False)))
        return floats.flush(out) if out.dtype == np.float32 else out

    return flushed


def _after(f: Function, g: Callable[[Array], Array]) -> Function:
    return lambda *args: g(f(*args))
