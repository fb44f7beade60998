"""Global memory: loads, stores, and the 32-byte sectors that a warp touches."""

from __future__ import annotations

from typing import Any

import numpy as np

from labkit.emulator import findings
from labkit.emulator.counters import Access
from labkit.emulator.lanes import Lanes, differs
from labkit.emulator.meter import by_warp, distinct
from labkit.emulator.spaces import GLOBAL_BASE, Segment
from labkit.emulator.types import Array
from labkit.emulator.wave import Wave


def segments(w: Wave, pc: int, lanes: Lanes, size: int, verb: str) -> list[tuple[Segment, Any]]:
    """The allocations that the lanes' accesses of `size` bytes lie in, and which lanes lie in each."""
    at = lanes.at
    low, high = int(at.min()), int(at.max())
    s = w.memory.find(low)
    if s is not None and high + size <= s.end:
        found: list[tuple[Segment, Any]] = [(s, ...)]
    else:
        found = _several(w, pc, lanes, size, verb)
    if int(np.bitwise_or.reduce(at, axis=None)) & (size - 1):
        raise findings.misaligned(w, pc, lanes, size, verb)
    return found


def _several(w: Wave, pc: int, lanes: Lanes, size: int, verb: str) -> list[tuple[Segment, Any]]:
    at = lanes.at
    which = np.searchsorted(np.array(w.memory.bases or [GLOBAL_BASE]), at, side="right") - 1
    ends = np.array([s.end for s in w.memory.segments] or [0])
    bad = (which < 0) | (at + size > ends[which])
    if bad.any():
        raise findings.outside(w, pc, lanes, bad, size, verb)
    return [(w.memory.segments[n], which == n) for n in np.unique(which)]


def load_global(w: Wave, pc: int, address: Array, dtype: np.dtype[Any], n: int) -> list[Array]:
    lanes = Lanes(w, address)
    if not lanes.at.size:
        return [np.zeros((1, 1), dtype)] * n
    size = dtype.itemsize * n
    found = segments(w, pc, lanes, size, "reads")
    out = [np.empty(lanes.at.shape, dtype) for _ in range(n)] if len(found) > 1 else []
    for s, part in found:
        first = (lanes.at[part] - s.base) // dtype.itemsize
        if w.races is not None:
            w.races.check(w, pc, lanes, size, s, part, None)
        values = [s.view(dtype).take(first + k if k else first) for k in range(n)]
        for o, v in zip(out, values, strict=False):
            o[part] = v
    if w.meter is not None and found[0][0].space != "const":
        count_global(w, pc, lanes, size, "load", found)
    return [lanes.spread(v) for v in (out or values)]


def store_global(w: Wave, pc: int, address: Array, dtype: np.dtype[Any], values: list[Array]) -> None:
    lanes = Lanes(w, address, np.broadcast_shapes(*(v.shape for v in values)))
    if not lanes.at.size:
        return
    size, n = dtype.itemsize * len(values), len(values)
    found = segments(w, pc, lanes, size, "writes")
    for s, part in found:
        if s.space == "const":
            raise findings.read_only(w, pc, lanes, s)
        first = (lanes.at[part] - s.base) // dtype.itemsize
        view = s.view(dtype)
        new = changed(view, first, lanes, values, part) if w.races is not None else None
        for k in range(n):
            index = first + k if k else first
            if s.undo is not None:
                s.save(view, index)
            view[index] = lanes.pick(values[k])[part]
        if new is not None:
            w.races.check(w, pc, lanes, size, s, part, new, changed(view, first, lanes, values, part))
    if w.memory.watched is not None:
        note_writer(w, pc, lanes, size)
    if w.meter is not None:
        count_global(w, pc, lanes, size, "store", found)


def note_writer(w: Wave, pc: int, lanes: Lanes, size: int) -> None:
    """Keep who last wrote the byte that is watched."""
    hit = (lanes.at <= w.memory.watched) & (w.memory.watched < lanes.at + size)
    if hit.any():
        w.memory.writer = f"{w.thread(*lanes.who(hit))}, {w.program.where(pc)}"


def changed(view: Array, first: Array, lanes: Lanes, values: list[Array], part: Any) -> Array:
    """Which lanes' values differ from what is in memory."""
    result: Array = np.logical_or.reduce([differs(view[first + k], lanes.pick(v)[part]) for k, v in enumerate(values)])
    return result


def count_global(w: Wave, pc: int, lanes: Lanes, size: int, kind: str, found: list[tuple[Segment, Any]]) -> None:
    """Requests and 32-byte sectors, warp by warp; Nsight Compute's l1tex__t_requests and l1tex__t_sectors."""
    assert w.meter is not None
    if w.watch is not None and pc not in w.lanes:
        watch(w, pc, lanes, size, kind)
    sector = lanes.at >> 5
    for s, part in found:
        s.mark("loaded" if kind == "load" else "stored", sector[part] - (s.base >> 5))
    rows, columns = lanes.shape
    times = w.B // rows
    if columns == 1:
        requests = sectors = sector.size * times * w.W
    elif lanes.on is None and columns % 32 == 0:
        keys = sector.reshape(-1, 32)
        step = keys[:, 1:] - keys[:, :-1]
        monotone = not (step < 0).any()
        requests = len(keys) * times
        sectors = (len(keys) + np.count_nonzero(step) if monotone else int(distinct(keys).sum())) * times
    else:
        full = sector if lanes.on is None else np.full(lanes.shape, -1)
        if lanes.on is not None:
            full[lanes.on] = sector
        touched = distinct(by_warp(full, -1).reshape(-1, 32))
        requests, sectors = int(np.count_nonzero(touched)) * times, int(touched.sum()) * times
    if kind == "store":
        w.meter.stored += size * w.thread_count(w.mask)
    w.meter.memory[f"global_{kind}_requests"][pc] += requests
    w.meter.memory[f"global_{kind}_sectors"][pc] += int(sectors)


def watch(w: Wave, pc: int, lanes: Lanes, size: int, kind: str) -> None:
    """Keep where the 32 lanes of the first warp of the watched block go."""
    assert w.watch is not None
    row = min(w.watch, lanes.shape[0] - 1)
    at = np.broadcast_to(lanes.spread(lanes.at), (lanes.shape[0], w.T))[row, :32].tolist()
    on = np.broadcast_to(np.True_ if lanes.on is None else lanes.on, (lanes.shape[0], w.T))[row, :32].tolist()
    first = next((a for a, active in zip(at, on, strict=True) if active), None)
    s = w.memory.find(first) if first is not None else None
    if first is None or s is None:
        return
    name, inside = s.called(first - s.base)
    start = first - inside
    addresses = [a - start if active else None for a, active in zip(at, on, strict=True)]
    addresses += [None] * (32 - len(addresses))
    w.lanes[pc] = Access(w.program.code[pc].line, kind, size, tuple(addresses), name)
