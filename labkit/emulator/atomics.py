"""atom and red: read, change and write back one place, one thread at a time.

Threads that hit different places are served together; those that hit the same place take turns, in order of
their index.  (A GPU's order is any; a kernel whose result depends on it has no single right answer.)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from labkit.emulator import floats
from labkit.emulator.access import split_generic
from labkit.emulator.global_access import segments
from labkit.emulator.lanes import Lanes, address_of, space_of
from labkit.emulator.lifting import pairwise, slot_of
from labkit.emulator.program import Program
from labkit.emulator.ptx import Instr
from labkit.emulator.shared_access import shared_facts, shared_view
from labkit.emulator.types import DTYPE, Array, Step, reader
from labkit.emulator.wave import Wave

Change = Callable[..., Array]


def _bf16_add(old: Array, b: Array) -> Array:
    return floats.to_bf16(floats.from_bf16(old) + floats.from_bf16(b))


def _swap(old: Array, b: Array, c: Array) -> Array:
    return np.where(old == b, c, old)


OPERATIONS: dict[str, Change] = {
    "add": np.add, "min": np.minimum, "max": np.maximum, "and": np.bitwise_and, "or": np.bitwise_or,
    "xor": np.bitwise_xor, "exch": lambda old, b: b, "cas": _swap,
    "inc": lambda old, b: np.where(old >= b, old.dtype.type(0), old + old.dtype.type(1)),
    "dec": lambda old, b: np.where((old == 0) | (old > b), b, old - old.dtype.type(1))}  # fmt: skip


def atom(i: Instr, p: Program, pc: int) -> Step:
    """A step for atom (which returns the old value) or red (which does not)."""
    returns = i.op == "atom"
    args = i.args[1:] if returns else i.args
    kind = i.types[-1]
    name = next(m for m in i.mods if m in OPERATIONS)
    change = _change(name, kind)
    address, space = address_of(args[0], p), space_of(i)
    reads = [reader(a, kind, p) for a in args[1:]]
    slot = slot_of(i.args[0], p) if returns else None
    dtype = DTYPE[kind]

    def step(w: Wave) -> None:
        old = _anywhere(w, pc, space, address(w), dtype, change, [r(w) for r in reads])
        if slot is not None and old is not None:
            w.put(slot, old)

    return step


def _change(name: str, kind: str) -> Change:
    if kind == "bf16":
        return _bf16_add
    if kind in ("f16x2", "bf16x2"):
        return pairwise(_bf16_add if kind[0] == "b" else np.add, DTYPE[kind[:-2]])
    return OPERATIONS[name]


def _anywhere(w: Wave, pc: int, space: str, address: Array, dtype: np.dtype[Any], change: Change,
              values: list[Array]) -> Array | None:  # fmt: skip
    if space != "generic":
        return _atomic(w, pc, space, address, dtype, change, values)
    mask, out = w.mask, None
    for where, at, chosen in split_generic(w, address):
        if chosen is not None:
            w.mask = chosen if mask is None else mask & chosen
        old = _atomic(w, pc, where, at, dtype, change, values)
        w.mask = mask
        out = old if out is None or chosen is None else np.where(chosen, old, out)
    return out


def _atomic(w: Wave, pc: int, space: str, address: Array, dtype: np.dtype[Any], change: Change,
            values: list[Array]) -> Array:  # fmt: skip
    full = (w.B, w.T)
    size = dtype.itemsize
    if space == "shared":
        lanes = Lanes(w, address, full)
        shared_facts(w, pc, lanes, size, size, "changes")
        w.memory.normal_shared = False
        view = shared_view(w, dtype).reshape(-1)
        index = lanes.rows(w) * (w.shared.shape[1] // size) + lanes.at // size
        w.note_shared(pc, lanes, size, "atomic")
        return lanes.spread(turns(view, index, change, [lanes.pick(v) for v in values]))
    lanes = Lanes(w, address, full)
    if not lanes.at.size:
        return np.zeros((1, 1), dtype)
    out = np.empty(lanes.at.shape, dtype)
    for s, part in segments(w, pc, lanes, size, "changes"):
        index = (lanes.at[part] - s.base) // size
        view = s.view(dtype)
        if s.undo is not None:
            s.save(view, index)
        out[part] = turns(view, index, change, [lanes.pick(v)[part] for v in values])
        if w.meter is not None:
            s.mark("loaded", (lanes.at[part] - s.base) >> 5)
            s.mark("stored", (lanes.at[part] - s.base) >> 5)
    return lanes.spread(out)


def turns(view: Array, index: Array, change: Change, values: list[Array]) -> Array:
    """Apply `change` at `index` thread after thread; returns what each thread found there."""
    flat = index.reshape(-1)
    columns = [np.broadcast_to(v, index.shape).reshape(-1) for v in values]
    order = np.argsort(flat, kind="stable")
    keys = flat[order]
    first = np.flatnonzero(np.concatenate([[True], keys[1:] != keys[:-1]]))
    lengths = np.diff(np.append(first, len(keys)))
    sorted_values = [c[order] for c in columns]
    old = np.empty(len(flat), view.dtype)
    if isinstance(change, np.ufunc) and len(first) < lengths.max():
        _by_place(view, keys, first, lengths, change, sorted_values[0], old)
    else:
        _by_turn(view, keys, first, lengths, change, sorted_values, old)
    out = np.empty_like(old)
    out[order] = old
    return out.reshape(index.shape)


def _by_place(
    view: Array, keys: Array, first: Array, lengths: Array, change: np.ufunc, values: Array, old: Array
) -> None:
    """Few places, many threads each: a running sum (product, minimum …) at each place."""
    for start, n in zip(first.tolist(), lengths.tolist(), strict=True):
        place = keys[start]
        run = change.accumulate(np.concatenate([view[place : place + 1], values[start : start + n]]))
        old[start : start + n] = run[:-1]
        view[place] = run[-1]


def _by_turn(
    view: Array, keys: Array, first: Array, lengths: Array, change: Change, values: list[Array], old: Array
) -> None:
    """Many places: the first thread of each together, then the second of each …"""
    for turn in range(int(lengths.max())):
        at = first[lengths > turn] + turn
        place = keys[at]
        old[at] = view[place]
        view[place] = change(old[at], *(v[at] for v in values))
