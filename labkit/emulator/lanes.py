"""Which address each active thread means."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from labkit.emulator.program import Program
from labkit.emulator.ptx import WIDTH, Addr, Instr, Operand, Reg
from labkit.emulator.types import SIGNED, UNSIGNED, Array, Read, reader
from labkit.emulator.wave import Wave

SPACES = {
    "global": "global",
    "const": "global",
    "shared": "shared",
    "shared_cta": "shared",
    "local": "local",
    "param": "param",
    "param_entry": "param",
    "shared_cluster": "shared",
    "param_func": "param",
}


class Lanes:
    """The addresses of the threads that take part.

    shape: the smallest that holds them; on: which of it is active (None: all); at: the addresses, flat if
    masked.
    """

    def __init__(self, w: Wave, address: Array, shape: tuple[int, ...] = (1, 1)) -> None:
        mask = w.mask
        if mask is None:
            self.on: Array | None = None
            if shape == (1, 1):
                self.shape, self.at = address.shape, address
            else:
                self.shape = np.broadcast_shapes(address.shape, shape)
                self.at = np.broadcast_to(address, self.shape)
        else:
            self.shape = np.broadcast_shapes(address.shape, mask.shape, shape)
            self.on = np.broadcast_to(mask, self.shape)
            self.at = np.broadcast_to(address, self.shape)[self.on]

    def pick(self, value: Array) -> Array:
        """A value of every thread -> of those that take part."""
        full = np.broadcast_to(value, self.shape)
        return full if self.on is None else full[self.on]

    def spread(self, value: Array) -> Array:
        """The inverse of `pick`; threads that are off read zero."""
        if self.on is None:
            return value
        out = np.zeros(self.shape, value.dtype)
        out[self.on] = value
        return out

    def who(self, bad: Array) -> tuple[int, int]:
        """Row and column of the first thread for which `bad` holds."""
        full = self.spread(bad)
        row, column = np.argwhere(full)[0]
        return int(row), int(column)

    def rows(self, w: Wave) -> Array:
        return self.pick(w.row_of)

    def columns(self, w: Wave) -> Array:
        return self.pick(w.column_of)


def space_of(i: Instr) -> str:
    """The state space an instruction names; "generic" if none."""
    return next((SPACES[m] for m in i.mods if m in SPACES), "generic")


def address_of(a: Operand, p: Program) -> Read:
    """`[register + offset]` as int64."""
    assert isinstance(a, Addr)
    base, offset = a.base, np.int64(a.offset)
    if isinstance(base, Reg):
        size = np.dtype(np.int64) if WIDTH.get(base.type, 8) == 8 else np.dtype(np.uint32)
        read = reader(base, size, p)
        if size.itemsize == 4:
            return _remembered(p.slot(base), read, offset)
        return (lambda w: read(w) + offset) if a.offset else read
    read = reader(base, np.dtype(np.int64), p)
    return lambda w: read(w) + offset


def _remembered(slot: int, read: Read, offset: np.int64) -> Read:
    """An address in shared or local memory; the same array again while nothing writes its register."""
    key = (slot, int(offset))

    def address(w: Wave) -> Array:
        base, known = w.regs[slot], w.addresses.get(key)
        if known is not None and known[0] is base:
            return known[1]
        at = read(w).astype(np.int64) + offset
        if len(base) == 1:  # the same for all blocks, so it is small
            w.addresses[key] = base, at
        return at

    return address


def fit(dst: Operand, dtype: np.dtype[Any]) -> Callable[[Array], Array]:
    """A loaded value widened to its register: sign-extended if its type is signed."""
    size = WIDTH.get(dst.type, 0) if isinstance(dst, Reg) else 0
    if size <= dtype.itemsize or dtype == np.bool_:
        return lambda x: x
    wide = (SIGNED if dtype.kind == "i" else UNSIGNED)[size]
    plain = dtype if dtype.kind in "iu" else UNSIGNED[dtype.itemsize]
    return lambda x: x.view(plain).astype(wide)


def differs(a: Array, b: Array) -> Array:
    """Where the bits differ (a NaN equals itself)."""
    plain = UNSIGNED[a.dtype.itemsize]
    result: Array = np.ascontiguousarray(a).view(plain) != np.ascontiguousarray(b).view(plain)
    return result
