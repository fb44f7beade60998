"""Shared memory: loads, stores, and the turns that 32 banks need to serve them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from labkit.emulator import findings
from labkit.emulator.banks import ROW
from labkit.emulator.counters import Access
from labkit.emulator.floats import F32, has_subnormal
from labkit.emulator.lanes import Lanes, differs
from labkit.emulator.meter import by_warp, turns
from labkit.emulator.types import Array
from labkit.emulator.wave import Wave


class Pattern:
    """Facts about a shared access that depend on its addresses only; kept, because loops repeat them."""

    __slots__ = ("alone", "conflicts", "high", "index", "low", "mixed", "requests", "worst")

    def __init__(self, lanes: Lanes, size: int, itemsize: int) -> None:
        at = lanes.at
        self.low, self.high = (int(at.min()), int(at.max())) if at.size else (0, -size)
        self.mixed = int(np.bitwise_or.reduce(at, axis=None)) & (size - 1) if at.size else 0
        self.index = at.ravel() // itemsize
        self.alone = lanes.shape[0] == 1 and np.unique(at).size == at.size
        self.requests, self.conflicts, self.worst = bank_conflicts(lanes, size)


KNOWN: dict[Any, Pattern] = {}
COUNTERS = {k: (f"shared_{k}_requests", f"shared_{k}_conflicts") for k in ("load", "store")}


def pattern(lanes: Lanes, size: int, itemsize: int) -> Pattern:
    """The pattern of an access; remembered where it is the same for all blocks."""
    if lanes.shape[0] > 1 and lanes.at.size > 1024:
        return Pattern(lanes, size, itemsize)
    key = (lanes.at.tobytes(), size, itemsize, lanes.shape, None if lanes.on is None else lanes.on.tobytes())
    found = KNOWN.get(key)
    if found is None:
        if len(KNOWN) > 2_000:
            KNOWN.clear()
        found = KNOWN[key] = Pattern(lanes, size, itemsize)
    return found


def shared_facts(w: Wave, pc: int, lanes: Lanes, size: int, itemsize: int, verb: str) -> Pattern:
    """The facts of a shared access; it is in bounds and aligned."""
    facts = pattern(lanes, size, itemsize)
    if facts.low < 0 or facts.high + size > w.shared_size:
        raise findings.outside_shared(w, pc, lanes, size, verb)
    if facts.mixed:
        raise findings.misaligned(w, pc, lanes, size, verb, "shared memory")
    return facts


def shared_lanes(
    w: Wave, pc: int, address: Array, columns: int, size: int, itemsize: int, verb: str
) -> tuple[Lanes, Pattern]:
    """The lanes of a load or store and their facts: the last ones again while address and mask are the same arrays."""
    before = w.patterns.get(pc)
    if before is not None and before[:3] == (id(address), id(w.mask), columns):
        return before[3], before[4]
    lanes = Lanes(w, address, (1, columns))
    facts = shared_facts(w, pc, lanes, size, itemsize, verb)
    if lanes.shape[0] == 1:
        w.patterns[pc] = id(address), id(w.mask), columns, lanes, facts, address, w.mask
    return lanes, facts


def shared_view(w: Wave, dtype: np.dtype[Any]) -> Array:
    if dtype not in w.shared_views:
        w.shared_views[dtype] = w.shared.view(dtype)
    return w.shared_views[dtype]


def load_shared(w: Wave, pc: int, address: Array, dtype: np.dtype[Any], n: int) -> list[Array]:
    size = dtype.itemsize * n
    lanes, facts = shared_lanes(w, pc, address, 1, size, dtype.itemsize, "reads")
    count_shared(w, pc, lanes, facts, "load")
    w.note_shared(pc, lanes, size, "load")
    view = shared_view(w, dtype)
    if lanes.shape[0] == 1 and not w.narrow:
        taken = [view.take(facts.index + k if k else facts.index, axis=1, mode="clip") for k in range(n)]
        if lanes.on is None:
            return taken
        out = np.zeros((n, w.B, lanes.shape[1]), dtype)
        out[:, :, lanes.on[0]] = taken
        return list(out)
    if lanes.shape[0] == 1:
        lanes = Lanes(w, address, (w.B, 1))
    flat = lanes.rows(w) * view.shape[1] + lanes.at // dtype.itemsize
    return [lanes.spread(view.reshape(-1).take(flat + k if k else flat)) for k in range(n)]


def store_shared(w: Wave, pc: int, address: Array, dtype: np.dtype[Any], values: list[Array]) -> None:
    size = dtype.itemsize * len(values)
    columns = max(v.shape[1] for v in values)
    lanes, facts = shared_lanes(w, pc, address, columns, size, dtype.itemsize, "writes")
    count_shared(w, pc, lanes, facts, "store")
    w.note_shared(pc, lanes, size, "store")
    view = shared_view(w, dtype)
    if w.memory.normal_shared:
        w.memory.normal_shared = dtype == F32 and not any(has_subnormal(v) for v in values)
    if lanes.shape[0] == 1 and not w.narrow:
        first = facts.index
        for k, value in enumerate(values):
            some = lanes.on is not None and value.shape[1] > 1
            value = value[:, lanes.on[0]] if some and lanes.on is not None else value
            view[:, first + k] = value
            if w.shadow is not None and value.shape[1] > 1 and not facts.alone:
                check_lost(w, pc, lanes, differs(view[:, first + k], value))
        return w.confirm_shared()
    lanes = Lanes(w, address, np.broadcast_shapes((w.B, 1), *(v.shape for v in values)))
    flat = lanes.rows(w) * view.shape[1] + lanes.at // dtype.itemsize
    for k, value in enumerate(values):
        mine = lanes.pick(value)
        view.reshape(-1)[flat + k] = mine
        if w.shadow is not None:
            check_lost(w, pc, lanes, differs(view.reshape(-1)[flat + k], mine))
    w.confirm_shared()


def check_lost(w: Wave, pc: int, lanes: Lanes, lost: Array) -> None:
    """Two lanes wrote different values to one place with one instruction: one of them is gone."""
    if lost.any():
        row, n = (int(x) for x in np.argwhere(np.atleast_2d(lost))[0])
        column = int(np.atleast_1d(lanes.columns(w) if lanes.shape[1] > 1 else np.zeros(1, int)).ravel()[n % w.T])
        raise findings.lost_write(w, pc, min(row, w.B - 1), column, int(lanes.at.ravel()[n % lanes.at.size]))


def count_shared(w: Wave, pc: int, lanes: Lanes, facts: Pattern, kind: str) -> None:
    """Requests, and the turns beyond the ideal: l1tex__data_bank_conflicts_pipe_lsu_mem_shared."""
    if w.meter is None:
        return
    times = w.B // lanes.shape[0] * (w.W if lanes.shape[1] == 1 else 1)
    requests, conflicts = COUNTERS[kind]
    w.meter.memory[requests][pc] += facts.requests * times
    w.meter.memory[conflicts][pc] += facts.conflicts * times
    worst = facts.worst
    if worst is not None and worst.rank > w.meter.banks[0]:
        line, name = w.program.code[pc].line, w.shared_array(facts.low)[0]
        w.meter.banks = worst.rank, Access(line, kind, worst.size, worst.addresses(), name)


class Worst(NamedTuple):
    """The warp of an access that `Counts.banks` would choose; rank: its conflicts, and the rows it spans."""

    rank: tuple[int, int]
    size: int
    at: Array  # of its 32 lanes; -1 for one that is off

    def addresses(self) -> tuple[int | None, ...]:
        return tuple(a if a >= 0 else None for a in self.at.tolist())


def bank_conflicts(lanes: Lanes, size: int) -> tuple[int, int, Worst | None]:
    """Requests of an access, its bank conflicts, and the warp that has most of them."""
    if not lanes.at.size:
        return 0, 0, None
    if lanes.shape[1] == 1:
        return lanes.at.size, 0, Worst((0, 0), size, np.repeat(lanes.at.ravel()[:1], 32))
    full = lanes.at if lanes.on is None else np.full(lanes.shape, -1)
    if lanes.on is not None:
        full[lanes.on] = lanes.at
    at = by_warp(full, -1).reshape(-1, 32)
    keys, groups = at >> 2, max(size // 4, 1)
    on = (keys >= 0).any(axis=1)
    middle = at[len(at) // 2]
    if (keys[:, 1:] - keys[:, :-1] == groups).all():
        return int(np.count_nonzero(on)), 0, Worst((0, int(middle[-1] - middle[0]) // ROW), size, middle)
    needed, least = turns(keys, groups)
    extra = needed - least
    high = at.max(axis=1)
    rows = (high - np.where(at < 0, high[:, None], at).min(axis=1)) // ROW
    rank = (extra << 32) + np.where(high < 0, -1, rows)
    best = np.flatnonzero(rank == rank.max())
    n = best[len(best) // 2]
    return int(np.count_nonzero(on)), int(extra.sum()), Worst((int(extra[n]), int(rows[n])), size, at[n])
