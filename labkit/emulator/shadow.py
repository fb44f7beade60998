"""The sanitizer's memory of shared memory: who wrote and read each cell since the last barrier.

Between two barriers the threads of a block run in no particular order.  If one writes a cell and another
reads or writes it in the same interval, the result depends on luck: a race.  `__syncwarp()` orders the
lanes of one warp. While all blocks do the same, one row of the tables stands for all of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from labkit.emulator import findings
from labkit.emulator.types import Array

if TYPE_CHECKING:
    from labkit.emulator.lanes import Lanes
    from labkit.emulator.wave import Wave

NOBODY = -1


class Shadow:
    """Tables of one row (all blocks alike) or B rows, one column for each cell of `grain` bytes."""

    def __init__(self, w: Wave, grain: int) -> None:
        cells = -(-w.shared_size // grain) + 16
        self.w, self.grain, self.rows, self.time = w, grain, 1, 1
        self.writer = np.full((1, cells), NOBODY, np.int32)
        self.reader = np.full((1, cells), NOBODY, np.int32)
        self.other = np.full((1, cells), NOBODY, np.int32)
        self.wrote = np.zeros((1, cells), np.int64)
        self.read = np.zeros((1, cells), np.int64)
        self.atomic = np.zeros((1, cells), np.bool_)
        self.known = np.zeros((1, cells), np.bool_)
        self.line = np.zeros((1, cells), np.int32)
        self.barrier = np.zeros((1, 1), np.int64)
        self.warp = np.zeros((1, w.W), np.int64)
        self.pending: list[tuple[Wave, Lanes, int, int]] = []
        self.written = False
        self.complete = False
        self.suspect: tuple[int, Array, Array, Array, Array, Array] | None = None

    def split(self) -> None:
        """From here on the blocks differ: a row for each."""
        if self.rows == 1 and self.w.B > 1:
            self.settle()
            for name in (
                "writer",
                "reader",
                "other",
                "wrote",
                "read",
                "atomic",
                "known",
                "line",
                "barrier",
                "warp",
            ):
                setattr(self, name, np.repeat(getattr(self, name), self.w.B, axis=0))
            self.rows = self.w.B

    def passed(self, rows: Array | None) -> None:
        """The blocks in `rows` (None: all) met at a barrier."""
        self.time += 1
        if rows is None:
            self.barrier[:] = self.time
            self.pending.clear()
            self.written = False
            return
        self.split()
        self.settle()
        self.barrier[rows] = self.time

    def passed_warp(self, w: Wave) -> None:
        """The active lanes met their warp."""
        self.settle()
        self.time += 1
        mask = np.ones((1, 1), np.bool_) if w.mask is None else w.mask
        if mask.shape[0] > 1 or w.narrow:
            self.split()
        rows = w.row_of if self.rows > 1 else np.zeros((1, 1), np.int64)
        shape = np.broadcast_shapes(rows.shape, w.column_of.shape)
        on = np.broadcast_to(mask, shape)
        rows, columns = np.broadcast_to(rows, shape), np.broadcast_to(w.column_of, shape)
        self.warp[rows[on], columns[on] >> 5] = self.time

    def note(self, w: Wave, pc: int, lanes: Lanes, size: int, kind: str) -> None:
        """One access of the lanes, `kind` being load, store or atomic."""
        if lanes.shape[0] > 1 or w.narrow:
            self.split()
        self.time += 1
        if kind == "load":
            self.pending.append((w, lanes, size, self.time))
            if self.written or not self.complete:
                row, cell, thread = self.cells(w, lanes, size)
                self.check_known(pc, row, cell, thread)
                self.check_read(pc, row, cell, thread)
            if len(self.pending) > 512:
                self.settle()
        else:
            self.settle()
            row, cell, thread = self.cells(w, lanes, size)
            if kind == "atomic":
                self.check_known(pc, row, cell, thread)
            self.check_write(pc, row, cell, thread, kind == "atomic")

    def cells(self, w: Wave, lanes: Lanes, size: int) -> tuple[Array, Array, Array]:
        """Row, cell and thread of each lane; accesses wider than a cell repeat."""
        at, on = lanes.at, lanes.on
        shape = (w.B if w.narrow or self.rows > 1 else lanes.shape[0], w.T)
        if lanes.shape != shape:
            at = np.broadcast_to(lanes.spread(at), shape)
            at = at if on is None else at[np.broadcast_to(on, shape)]
        on = None if on is None else np.broadcast_to(on, shape)
        rows = w.row_of[: shape[0]]
        row, thread = np.broadcast_to(rows, shape), np.broadcast_to(w.column_of, shape)
        row, thread = (row.ravel(), thread.ravel()) if on is None else (row[on], thread[on])
        cell = at.ravel() // self.grain
        n = max(size // self.grain, 1)
        if n > 1:
            cell = (cell[:, None] + np.arange(n)).ravel()
            row, thread = np.repeat(row, n), np.repeat(thread, n)
        return (row if self.rows > 1 else np.zeros_like(row)), cell, thread

    def settle(self) -> None:
        """Enter the reads that were put off (only a write needs them)."""
        for w, lanes, size, time in self.pending:
            row, cell, thread = self.cells(w, lanes, size)
            fresh = self.stale(self.read[row, cell], row, self.reader[row, cell], thread)
            first = np.where(fresh, thread, self.reader[row, cell])
            self.reader[row, cell] = first
            self.other[row, cell] = thread
            lost = self.other[row, cell] != thread
            self.reader[row[lost], cell[lost]] = thread[lost]
            self.read[row, cell] = time
        self.pending.clear()

    def stale(self, when: Array, row: Array, who: Array, me: Array) -> Array:
        """Whether an earlier access is ordered before mine: by a barrier, or within a warp by __syncwarp."""
        same_warp = (who >> 5) == (me >> 5)
        result: Array = (who < 0) | (when <= self.barrier[row, 0]) | (same_warp & (when <= self.warp[row, me >> 5]))
        return result

    def check_known(self, pc: int, row: Array, cell: Array, thread: Array) -> None:
        if self.complete:
            return
        bad = ~self.known[row, cell]
        if bad.any():
            n = int(bad.argmax())
            where = (int(row[n]), int(thread[n]))
            raise findings.uninitialised(self.w, pc, *where, self.w.shared_place(int(cell[n]) * self.grain))
        self.complete = bool(self.known[:, : self.w.shared_size // self.grain].all())

    def check_read(self, pc: int, row: Array, cell: Array, me: Array) -> None:
        who = self.writer[row, cell]
        bad = (who != me) & ~self.stale(self.wrote[row, cell], row, who, me)
        if bad.any():
            self.race(pc, row, cell, me, who, bad, "reads", "wrote")

    def check_write(self, pc: int, row: Array, cell: Array, me: Array, atomic: bool) -> None:
        who = self.writer[row, cell]
        if self.written:
            bad = (who != me) & ~self.stale(self.wrote[row, cell], row, who, me)
            bad &= ~(self.atomic[row, cell] & atomic)
            if bad.any() and atomic:
                self.race(pc, row, cell, me, who, bad, "changes", "wrote")
            elif bad.any():
                self.suspect = (
                    pc,
                    row[bad],
                    cell[bad],
                    me[bad],
                    who[bad],
                    self.contents(row[bad], cell[bad]),
                )
        for table in (self.reader, self.other):
            who = table[row, cell]
            bad = (who != me) & ~self.stale(self.read[row, cell], row, who, me)
            if bad.any():
                self.race(pc, row, cell, me, who, bad, "changes" if atomic else "writes", "read")
        self.writer[row, cell], self.wrote[row, cell] = me, self.time
        self.atomic[row, cell], self.known[row, cell] = atomic, True
        self.line[row, cell] = self.w.program.code[pc].line
        self.written = True

    def contents(self, row: Array, cell: Array) -> Array:
        """The bytes of some cells (of all blocks, while one row stands for them)."""
        parts = self.w.shared.reshape(self.w.B, -1, self.grain)
        found: Array = parts[row, cell] if self.rows > 1 else parts[:, cell].swapaxes(0, 1)
        return found.reshape(len(cell), -1)

    def confirm(self) -> None:
        """After a store: a second writer of a cell does harm only if it changed what is there."""
        if self.suspect is None:
            return
        pc, row, cell, me, who, before = self.suspect
        self.suspect = None
        bad = (self.contents(row, cell) != before).any(axis=1)
        if bad.any():
            self.race(pc, row, cell, me, who, bad, "writes", "wrote")

    def race(self, pc: int, row: Array, cell: Array, me: Array, who: Array, bad: Array, verb: str, did: str) -> None:
        n = int(bad.argmax())
        raise findings.race(
            self.w,
            pc,
            int(row[n]),
            int(me[n]),
            int(who[n]),
            int(cell[n]) * self.grain,
            verb,
            did,
            int(self.line[row[n], cell[n]]) if did == "wrote" else 0,
        )
