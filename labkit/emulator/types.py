"""PTX types as NumPy dtypes, and operands as arrays.

Values are kept at the smallest shape that says everything: (1, 1) the same for all threads, (B, 1) one per
block, (1, T) one per thread of a block, (B, T) all different.  NumPy's broadcasting does the rest, so that
`n`, a loop counter or `blockIdx.x * blockDim.x` cost next to nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from labkit.emulator.ptx import WIDTH, Imm, Not, Operand, Reg, Sym

if TYPE_CHECKING:
    from labkit.emulator.program import Program
    from labkit.emulator.wave import Wave

Array = NDArray[Any]
Read = Callable[["Wave"], Array]
Step = Callable[["Wave"], None]
Function = Callable[..., Array]
Mods = tuple[str, ...]
Make = Callable[[Mods, str], Function]

DTYPE: dict[str, np.dtype[Any]] = {
    "pred": np.dtype(np.bool_),
    "u8": np.dtype(np.uint8),
    "s8": np.dtype(np.int8),
    "b8": np.dtype(np.uint8),
    "u16": np.dtype(np.uint16),
    "s16": np.dtype(np.int16),
    "b16": np.dtype(np.uint16),
    "f16": np.dtype(np.float16),
    "bf16": np.dtype(np.uint16),
    "u32": np.dtype(np.uint32),
    "s32": np.dtype(np.int32),
    "b32": np.dtype(np.uint32),
    "f32": np.dtype(np.float32),
    "u64": np.dtype(np.uint64),
    "s64": np.dtype(np.int64),
    "b64": np.dtype(np.uint64),
    "f64": np.dtype(np.float64),
    "f16x2": np.dtype(np.uint32),
    "bf16x2": np.dtype(np.uint32),
    "tf32": np.dtype(np.uint32),
    "b128": np.dtype(np.complex128),
    "e4m3x2": np.dtype(np.uint16),
    "e5m2x2": np.dtype(np.uint16),
    "f32x2": np.dtype(np.uint64),
}

UNSIGNED: dict[int, np.dtype[Any]] = {
    1: np.dtype(np.uint8),
    2: np.dtype(np.uint16),
    4: np.dtype(np.uint32),
    8: np.dtype(np.uint64),
    16: np.dtype(np.complex128),
}
SIGNED: dict[int, np.dtype[Any]] = {
    1: np.dtype(np.int8),
    2: np.dtype(np.int16),
    4: np.dtype(np.int32),
    8: np.dtype(np.int64),
}


def bits_as(a: Array, dtype: np.dtype[Any]) -> Array:
    """The low bits of `a` read as `dtype`, zero-extended where `dtype` is wider."""
    size = a.dtype.itemsize
    if size == dtype.itemsize:
        return a.view(dtype)
    return a.view(UNSIGNED[size]).astype(UNSIGNED[dtype.itemsize]).view(dtype)


def constant(value: object, dtype: np.dtype[Any]) -> Array:
    """A (1, 1) array: the same value for every thread."""
    return np.array([[value]]).astype(dtype)


def immediate(imm: Imm, dtype: np.dtype[Any]) -> Array:
    """A literal as a (1, 1) array of `dtype`; float literals are bit patterns."""
    if dtype == np.bool_:
        return np.array([[bool(imm.value)]])
    if imm.kind == "f32":
        bits = np.array([[imm.value]], np.uint32)
        return bits.view(dtype) if dtype.itemsize == 4 else bits.view(np.float32).astype(dtype)
    if imm.kind == "f64":
        bits = np.array([[imm.value]], np.uint64)
        return bits.view(dtype) if dtype.itemsize == 8 else bits.view(np.float64).astype(dtype)
    mask = (1 << 8 * dtype.itemsize) - 1
    return np.array([[int(imm.value) & mask]], np.uint64).astype(UNSIGNED[dtype.itemsize]).view(dtype)


def reader(a: Operand, kind: str | np.dtype[Any], p: Program) -> Read:
    """How an instruction fetches an operand as type `kind`."""
    dtype = DTYPE[kind] if isinstance(kind, str) else kind
    if isinstance(a, Imm):
        value = immediate(a, dtype)
        return lambda w: value
    if isinstance(a, Not):
        inner = reader(a.of, kind, p)
        return lambda w: ~inner(w)
    if isinstance(a, Sym):
        name = a.name
        return lambda w: w.symbol(name, dtype)
    assert isinstance(a, Reg), a
    if a.type == "special":
        special = a.name
        return lambda w: w.special(special, dtype)
    slot = p.slot(a)

    def read(w: Wave) -> Array:
        value = w.regs[slot]
        return value if value.dtype is dtype else bits_as(value, dtype)

    return read


def width(a: Operand, p: Program) -> int:
    """A register's size in bytes."""
    return WIDTH[a.type] if isinstance(a, Reg) and a.type in WIDTH else 0
