"""Races between blocks in global memory: blocks run in any order, so one must not read what another writes.

Looked for in launches of up to 65,536 threads, in kernels without fences (a kernel with `__threadfence()`
orders its accesses itself).  Atomics do not race.  Writes of the value that is there already do no harm.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from labkit.emulator import findings
from labkit.emulator.lanes import Lanes
from labkit.emulator.spaces import Segment
from labkit.emulator.types import Array
from labkit.emulator.wave import Wave

LIMIT = 65_536
MANY = -1


class GlobalShadow:
    """For each allocation that is touched: the block (+1) that wrote a cell, and the one that read it."""

    def __init__(self, grain: int) -> None:
        self.grain = grain
        self.writer: dict[int, Array] = {}
        self.reader: dict[int, Array] = {}

    def table(self, kind: dict[int, Array], s: Segment) -> Array:
        if s.base not in kind:
            kind[s.base] = np.zeros(len(s.data) // self.grain + 16, np.int32)
        return kind[s.base]

    def check(self, w: Wave, pc: int, lanes: Lanes, size: int, s: Segment, part: Any, changed: Array | None,
              lost: Array | None = None) -> None:  # fmt: skip
        """One access.  changed: lanes that stored something new (None: a load); lost: whose is gone."""
        if lanes.shape[0] == 1:
            lanes = _full(w, lanes)
            part = ...
            changed = None if changed is None else np.broadcast_to(changed, lanes.at.shape)
            lost = None if lost is None else np.broadcast_to(lost, lanes.at.shape)
        at = (lanes.at[part] - s.base) // self.grain
        me = np.broadcast_to(w.all_blocks[lanes.rows(w)].astype(np.int32) + 1, lanes.at.shape)[part]
        for k in range(max(size // self.grain, 1)):
            writer, reader = self.table(self.writer, s), self.table(self.reader, s)
            who = writer[at + k]
            if changed is None:
                self.report(w, pc, lanes, part, s, who, (who != 0) & (who != me), "reads", "wrote")
                seen = reader[at + k]
                reader[at + k] = np.where((seen == 0) | (seen == me), me, MANY)
                continue
            bad = (who != 0) & (who != me) & changed
            self.report(w, pc, lanes, part, s, who, bad, "writes", "wrote")
            seen = reader[at + k]
            self.report(w, pc, lanes, part, s, seen, (seen != 0) & (seen != me) & changed, "writes", "read")
            writer[at + k] = me
            who = writer[at + k]
            self.report(w, pc, lanes, part, s, who, (who != me) & np.asarray(lost), "writes", "wrote")

    def report(
        self,
        w: Wave,
        pc: int,
        lanes: Lanes,
        part: Any,
        s: Segment,
        who: Array,
        bad: Array,
        verb: str,
        did: str,
    ) -> None:
        if not bad.any():
            return
        whole = np.zeros(lanes.at.shape, np.bool_)
        whole[part] = bad
        other = int(who[bad].flat[0]) - 1
        raise findings.global_race(w, pc, lanes, whole, s, other, verb, did)


def _full(w: Wave, lanes: Lanes) -> Lanes:
    wide = Lanes.__new__(Lanes)
    wide.shape = (w.B, lanes.shape[1])
    wide.on = None if lanes.on is None else np.broadcast_to(lanes.on, wide.shape)
    spread = np.broadcast_to(lanes.spread(lanes.at), wide.shape)
    wide.at = spread if wide.on is None else spread[wide.on]
    return wide
