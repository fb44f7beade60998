"""cvt: between integer and floating types, with rounding and saturation as the hardware has them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from labkit.emulator import floats
from labkit.emulator.lifting import slot_of
from labkit.emulator.program import Program
from labkit.emulator.ptx import Instr
from labkit.emulator.types import DTYPE, SIGNED, UNSIGNED, Array, Step, reader, width

ROUND: dict[str, Callable[[Array], Array]] = {
    "rni": np.rint,
    "rzi": np.trunc,
    "rmi": np.floor,
    "rpi": np.ceil,
}
FLOATS = ("f16", "bf16", "f32", "f64", "tf32")


def cvt(i: Instr, p: Program, pc: int) -> Step:
    """A step for cvt.<rounding>.<to>.<from>."""
    to, source = i.types[0], i.types[-1]
    slot = slot_of(i.args[0], p)
    assert slot is not None
    if to in ("f16x2", "bf16x2"):
        return _pack(i, p, slot, to)
    f = function(i.mods, to, source)
    read = reader(i.args[1], source, p)
    size = width(i.args[0], p)
    d = DTYPE[to]
    if size > d.itemsize:
        wide = (SIGNED if d.kind == "i" else UNSIGNED)[size]
        return lambda w: w.put(slot, f(read(w)).astype(wide))
    return lambda w: w.put(slot, f(read(w)))


def function(mods: tuple[str, ...], to: str, source: str) -> Callable[[Array], Array]:
    """The conversion as a function of an array of `source`."""
    mode = next((m for m in mods if m in ("rn", "rz", "rm", "rp", "rna", *ROUND)), "rn")
    load = (lambda a: floats.from_bf16(a)) if source == "bf16" else (lambda a: a)
    ftz = "ftz" in mods
    pre = (lambda a: floats.flush(load(a))) if ftz else load
    if source in FLOATS and to not in FLOATS:
        return lambda a: to_integer(pre(a), to, mode)
    core = _to_float(to, mode) if to in FLOATS else _resize(to, "sat" in mods)
    if source in FLOATS and mode in ROUND:
        rounding = ROUND[mode]
        core_ = core
        core = lambda a: core_(rounding(a))  # noqa: E731 — composition
    if "sat" in mods and to in FLOATS:
        return lambda a: core(np.where(pre(a) > 0, np.minimum(pre(a), 1), 0).astype(pre(a).dtype))
    if "relu" in mods:
        return lambda a: core(np.where(pre(a) > 0, pre(a), pre(a).dtype.type(0)))
    return (lambda a: floats.flush(core(pre(a)))) if ftz and to == "f32" else (lambda a: core(pre(a)))


def to_integer(a: Array, to: str, mode: str) -> Array:
    """Float to integer: rounded, clamped to the type's range, NaN is 0 (or the top value for 64 bits)."""
    info = np.iinfo(DTYPE[to])
    r = ROUND.get(mode, np.trunc)(a.astype(np.float64) if a.dtype == np.float16 else a)
    low, high = r <= info.min, r >= float(info.max)
    safe = np.where(low | high | np.isnan(r), 0, r).astype(DTYPE[to])
    nan = DTYPE[to].type(0) if info.bits < 64 else DTYPE[to].type(1 << 63 if info.min == 0 else info.min)
    out = np.where(low, DTYPE[to].type(info.min), np.where(high, DTYPE[to].type(info.max), safe))
    return np.where(np.isnan(r), nan, out)


def _to_float(to: str, mode: str) -> Callable[[Array], Array]:
    if to == "bf16":
        return lambda a: floats.to_bf16(_exactly(a), mode)
    if to == "tf32":
        return lambda a: ((a.view(np.uint32) + np.uint32(0x1000)) & np.uint32(0xFFFFE000)).view(np.float32)
    d = DTYPE[to]
    if mode in ("rz", "rm", "rp"):
        return lambda a: floats.directed(*_pair(a), mode, d)
    return lambda a: _nearest(a, d)


def _nearest(a: Array, d: np.dtype[np.generic]) -> Array:
    if d == np.float16 and a.dtype.kind in "iu":
        return a.astype(np.float64).astype(d)
    return a.astype(d)


def _exactly(a: Array) -> Array:
    return a if a.dtype.kind == "f" else a.astype(np.float64)


def _pair(a: Array) -> tuple[Array, Array]:
    """A value as an exact sum of two doubles (64-bit integers need both)."""
    s = a.astype(np.float64)
    if a.dtype.itemsize < 8 or a.dtype.kind == "f":
        return s, np.zeros_like(s)
    high = (a >> a.dtype.type(32)).astype(np.float64) * 4294967296.0
    return floats.two_sum(high, (a & a.dtype.type(0xFFFFFFFF)).astype(np.float64))


def _resize(to: str, saturate: bool) -> Callable[[Array], Array]:
    d = DTYPE[to]
    if not saturate:
        return lambda a: a.astype(d)
    info = np.iinfo(d)

    def clamp(a: Array) -> Array:
        source = np.iinfo(a.dtype)
        return np.clip(a, max(info.min, source.min), min(info.max, source.max)).astype(d)

    return clamp


def _pack(i: Instr, p: Program, slot: int, to: str) -> Step:
    """cvt.rn.f16x2.f32 d, a, b: a to the upper half, b to the lower."""
    half = to[:-2]
    f = function(tuple(m for m in i.mods if m != to), half, "f32")
    high, low = (reader(a, "f32", p) for a in i.args[1:3])

    def step(w: Wave) -> None:
        h, b = (f(r(w)).view(np.uint16).astype(np.uint32) for r in (high, low))
        w.put(slot, (h << np.uint32(16)) | b)

    return step


from labkit.emulator.wave import Wave  # noqa: E402 — only for annotations
