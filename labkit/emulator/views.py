"""A wave seen through its few active warps.

When most threads wait, computing all of them and throwing most away is waste.  A view is a smaller wave
that holds only the active warps: registers are gathered when they are first read and scattered back once,
when the threads meet the others again.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from labkit.emulator.meter import by_warp
from labkit.emulator.types import Array, bits_as
from labkit.emulator.wave import Wave


class Gathered(list[Any]):
    """Registers that are fetched from the whole wave when they are first read."""

    def __init__(self, view: View, whole: list[Array]) -> None:
        super().__init__([None] * len(whole))
        self.view, self.whole = view, whole

    def __getitem__(self, slot: Any) -> Any:
        value = super().__getitem__(slot)
        if value is None:
            value = self.view.gather(self.whole[slot])
            self[slot] = value
        return value


class View(Wave):
    """Some warps of a wave, as a wave of its own that shares its memory."""

    def __init__(self, whole: Wave, mask: Array) -> None:
        self.__dict__.update(whole.__dict__)
        self.whole = whole
        self.specials, self.addresses, self.patterns = {}, {}, {}
        self.written: set[int] = set()
        self.choose(mask)
        self.entry = np.ascontiguousarray(self.gather(mask))
        full = whole.alive is None and whole.T % 32 == 0
        self.alive = None if full else self.gather(whole.active_or_alive())
        self.regs = Gathered(self, whole.regs)

    def choose(self, mask: Array) -> None:
        """Decide which warps belong to the view."""
        raise NotImplementedError

    def gather(self, a: Array) -> Array:
        """A value of the whole wave, for the view's threads."""
        raise NotImplementedError

    def scatter(self, value: Array, into: Array, on: Array) -> Array:
        """`into` with the view's `value` where `on` holds."""
        raise NotImplementedError

    def put(self, slot: int, value: Array) -> None:
        super().put(slot, value)
        self.written.add(slot)

    def special(self, name: str, dtype: np.dtype[Any]) -> Array:
        if name.startswith(("%clock", "%globaltimer")):
            return self.whole.special(name, dtype)
        key = (name, dtype)
        if key not in self.specials:
            self.specials[key] = self.gather(self.whole.special(name, dtype))
        return self.specials[key]

    def thread(self, row: int, column: int) -> str:
        rows, columns = np.broadcast_arrays(self.row_of, self.column_of)
        return self.whole.thread(int(rows[row, column]), int(columns[row, column]))

    def expand(self, mask: Array | None) -> Array:
        """A mask of the view as one of the whole wave."""
        nothing = np.zeros((1, 1), np.bool_)
        return self.scatter(np.ones((1, 1), np.bool_) if mask is None else mask, nothing, self.entry)

    def give_back(self, live: int) -> None:
        """Write the registers that are still needed into the whole wave."""
        for slot in self.written:
            if live >> slot & 1:
                value = self.regs[slot]
                old = self.whole.regs[slot]
                old = old if old.dtype == value.dtype else bits_as(old, value.dtype)
                self.whole.regs[slot] = self.scatter(value, old, self.entry)


class Columns(View):
    """The same warps of every block: what is alike in all blocks stays so."""

    def choose(self, mask: Array) -> None:
        warps = np.flatnonzero(by_warp(mask, False)[0].any(axis=1))
        columns = (warps[:, None] * 32 + np.arange(32)).ravel()
        self.columns = columns[columns < self.whole.T]
        self.T, self.W = len(self.columns), len(warps)
        self.column_of = self.columns[None, :]
        if self.watch is not None and warps[0] != 0:
            self.watch = None

    def gather(self, a: Array) -> Array:
        return a if a.shape[1] == 1 else a[:, self.columns]

    def scatter(self, value: Array, into: Array, on: Array) -> Array:
        rows = max(value.shape[0], into.shape[0], on.shape[0])
        out = np.broadcast_to(into, (rows, self.whole.T)).copy()
        out[:, self.columns] = np.where(on, value, out[:, self.columns])
        return out


class Warps(View):
    """Any warps of any blocks: each is a row of 32 lanes."""

    def choose(self, mask: Array) -> None:
        w = self.whole
        full = by_warp(np.broadcast_to(mask, (w.B, w.T)), False)
        self.pick = np.nonzero(full.any(axis=2))
        block, warp = self.pick
        self.B, self.T, self.W, self.narrow = len(block), 32, 1, True
        self.blocks = w.blocks[block]
        self.row_of, self.column_of = block[:, None], warp[:, None] * 32 + np.arange(32)
        here = np.flatnonzero((block == (-1 if w.watch is None else w.watch)) & (warp == 0))
        self.watch = int(here[0]) if len(here) else None

    def gather(self, a: Array) -> Array:
        block, warp = self.pick
        if a.shape[1] == 1:
            return a if a.shape[0] == 1 else a[block]
        part = by_warp(a, False if a.dtype == np.bool_ else 0)
        result: Array = part[block if a.shape[0] > 1 else 0, warp]
        return result

    def scatter(self, value: Array, into: Array, on: Array) -> Array:
        w = self.whole
        out = by_warp(np.broadcast_to(into, (w.B, w.T)), False if into.dtype == np.bool_ else 0).copy()
        out[self.pick] = np.where(on, value, out[self.pick])
        return np.ascontiguousarray(out.reshape(w.B, -1)[:, : w.T])


def view_of(w: Wave, mask: Array) -> View:
    return Columns(w, mask) if mask.shape[0] == 1 else Warps(w, mask)
