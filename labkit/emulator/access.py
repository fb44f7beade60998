"""ld, st and cvta: to the memory that an instruction or a generic address names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from labkit.emulator.global_access import load_global, store_global
from labkit.emulator.lanes import Lanes, address_of, fit, space_of
from labkit.emulator.local_access import load_local, load_param, store_local
from labkit.emulator.program import Program, param_cell
from labkit.emulator.ptx import Addr, Instr, Reg, Vec
from labkit.emulator.shared_access import load_shared, store_shared
from labkit.emulator.spaces import LOCAL_WINDOW, PARAM_WINDOW, SHARED_WINDOW
from labkit.emulator.types import DTYPE, Array, Read, Step, reader
from labkit.emulator.wave import Wave


def load(i: Instr, p: Program, pc: int) -> Step:
    """ld: from any space, 1, 2 or 4 elements."""
    dst, source = i.args[0], i.args[1]
    items = dst.items if isinstance(dst, Vec) else (dst,)
    dtype = DTYPE[i.types[-1]]
    cell = param_cell(source, p)
    if cell is not None and isinstance(dst, Reg):
        return _move(reader(cell, dtype, p), p.slot(dst), fit(dst, dtype))
    puts = [(k, p.slot(d), fit(d, dtype)) for k, d in enumerate(items) if isinstance(d, Reg) and d.name != "_"]
    address, n = address_of(source, p), len(items)
    fetch = FETCH[space_of(i)]

    def step(w: Wave) -> None:
        values = fetch(w, pc, address(w), dtype, n)
        for k, slot, widen in puts:
            w.put(slot, widen(values[k]))

    return step


def _move(read: Read, slot: int, widen: Callable[[Array], Array]) -> Step:
    return lambda w: w.put(slot, widen(read(w)))


def store(i: Instr, p: Program, pc: int) -> Step:
    """st: to any space."""
    target, source = i.args[0], i.args[1]
    items = source.items if isinstance(source, Vec) else (source,)
    dtype = DTYPE[i.types[-1]]
    reads = [reader(s, dtype, p) for s in items]
    cell = param_cell(target, p)
    if cell is not None:
        return _move(reads[0], p.slot(cell), lambda x: x)
    address = address_of(target, p)
    write = WRITE[space_of(i)]

    def step(w: Wave) -> None:
        write(w, pc, address(w), dtype, [r(w) for r in reads])

    return step


def split_generic(w: Wave, address: Array) -> list[tuple[str, Array, Array | None]]:
    """A generic address by the window it lies in: (space, address there, the threads that mean it)."""
    at = Lanes(w, address).at
    if not at.size:
        return []
    top = address >> 40
    low, high = int(at.min()) >> 40, int(at.max()) >> 40
    names = {PARAM_WINDOW >> 40: "param", LOCAL_WINDOW >> 40: "local", SHARED_WINDOW >> 40: "shared"}
    parts = []
    for window in [low] if low == high else np.unique(at >> 40).tolist():
        space = names.get(window, "global")
        base = window << 40 if space != "global" else 0
        chosen = None if low == high else top == window
        parts.append((space, address - base, chosen))
    return parts


def load_generic(w: Wave, pc: int, address: Array, dtype: np.dtype[Any], n: int) -> list[Array]:
    out: list[Array] | None = None
    mask = w.mask
    for space, at, chosen in split_generic(w, address):
        if chosen is not None:
            w.mask = chosen if mask is None else mask & chosen
        values = FETCH[space](w, pc, at, dtype, n)
        w.mask = mask
        out = (
            values
            if out is None or chosen is None
            else [np.where(chosen, v, o) for v, o in zip(values, out, strict=True)]
        )
    return out or [np.zeros((1, 1), dtype)] * n


def store_generic(w: Wave, pc: int, address: Array, dtype: np.dtype[Any], values: list[Array]) -> None:
    mask = w.mask
    for space, at, chosen in split_generic(w, address):
        if chosen is not None:
            w.mask = chosen if mask is None else mask & chosen
        WRITE[space](w, pc, at, dtype, values)
        w.mask = mask


def cvta(i: Instr, p: Program, pc: int) -> Step:
    """cvta: between a space's own addresses and generic ones."""
    window = {"shared": SHARED_WINDOW, "local": LOCAL_WINDOW, "param": PARAM_WINDOW}.get(space_of(i), 0)
    dst, source = i.args
    assert isinstance(dst, Reg)
    slot = p.slot(dst)
    if isinstance(source, Addr):
        read = address_of(source, p)
    else:
        read = reader(source, np.dtype(np.int64 if i.types[-1].endswith("64") else np.uint32), p)
    shift = np.int64(-window if "to" in i.mods else window)
    return lambda w: w.put(slot, read(w) + shift if window else read(w))


FETCH: dict[str, Callable[[Wave, int, Array, np.dtype[Any], int], list[Array]]] = {
    "global": load_global,
    "shared": load_shared,
    "local": load_local,
    "param": load_param,
    "generic": load_generic,
}
WRITE: dict[str, Callable[[Wave, int, Array, np.dtype[Any], list[Array]], None]] = {
    "global": store_global,
    "shared": store_shared,
    "local": store_local,
    "generic": store_generic,
}
