"""Loads and stores: which address each active thread means, whether it may, and what comes back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from labkit.emulator import findings
from labkit.emulator.counters import Access
from labkit.emulator.meter import by_warp, distinct, turns
from labkit.emulator.program import Program, param_cell
from labkit.emulator.ptx import WIDTH, Addr, Instr, Operand, Reg, Vec
from labkit.emulator.spaces import GLOBAL_BASE, LOCAL_WINDOW, PARAM_WINDOW, SHARED_WINDOW, Segment
from labkit.emulator.types import DTYPE, SIGNED, UNSIGNED, Array, Read, Step, reader
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
            return lambda w: read(w).astype(np.int64) + offset
        return (lambda w: read(w) + offset) if a.offset else read
    read = reader(base, np.dtype(np.int64), p)
    return lambda w: read(w) + offset


def fit(dst: Operand, dtype: np.dtype[Any]) -> Callable[[Array], Array]:
    """A loaded value widened to its register: sign-extended if its type is signed."""
    size = WIDTH.get(dst.type, 0) if isinstance(dst, Reg) else 0
    if size <= dtype.itemsize or dtype == np.bool_:
        return lambda x: x
    wide = (SIGNED if dtype.kind == "i" else UNSIGNED)[size]
    plain = dtype if dtype.kind in "iu" else UNSIGNED[dtype.itemsize]
    return lambda x: x.view(plain).astype(wide)


def load(i: Instr, p: Program, pc: int) -> Step:
    """ld: from any space, 1, 2 or 4 elements."""
    dst, source = i.args[0], i.args[1]
    items = dst.items if isinstance(dst, Vec) else (dst,)
    dtype = DTYPE[i.types[-1]]
    cell = param_cell(source, p)
    if cell is not None and isinstance(dst, Reg):
        return _move(reader(cell, dtype, p), p.slot(dst), fit(dst, dtype))
    puts = [
        (k, p.slot(d), fit(d, dtype)) for k, d in enumerate(items) if isinstance(d, Reg) and d.name != "_"
    ]
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


# --- global --------------------


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
    if w.meter is not None:
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
    if w.meter is not None:
        count_global(w, pc, lanes, size, "store", found)


def changed(view: Array, first: Array, lanes: Lanes, values: list[Array], part: Any) -> Array:
    """Which lanes' values differ from what is in memory."""
    result: Array = np.logical_or.reduce(
        [differs(view[first + k], lanes.pick(v)[part]) for k, v in enumerate(values)]
    )
    return result


def count_global(
    w: Wave, pc: int, lanes: Lanes, size: int, kind: str, found: list[tuple[Segment, Any]]
) -> None:
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


# --- shared --------------------


class Pattern:
    """Facts about a shared access that depend on its addresses only; kept, because loops repeat them."""

    __slots__ = ("alone", "conflicts", "high", "index", "low", "mixed", "requests")

    def __init__(self, lanes: Lanes, size: int, itemsize: int) -> None:
        at = lanes.at
        self.low, self.high = (int(at.min()), int(at.max())) if at.size else (0, -size)
        self.mixed = int(np.bitwise_or.reduce(at, axis=None)) & (size - 1) if at.size else 0
        self.index = at // itemsize
        self.alone = lanes.shape[0] == 1 and np.unique(at).size == at.size
        self.requests, self.conflicts = bank_conflicts(lanes, size)


KNOWN: dict[Any, Pattern] = {}


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


def shared_lanes(w: Wave, pc: int, lanes: Lanes, size: int, itemsize: int, verb: str) -> Pattern:
    """The facts of a shared access that is in bounds and aligned."""
    facts = pattern(lanes, size, itemsize)
    if facts.low < 0 or facts.high + size > w.shared_size:
        raise findings.outside_shared(w, pc, lanes, size, verb)
    if facts.mixed:
        raise findings.misaligned(w, pc, lanes, size, verb, "shared memory")
    return facts


def shared_view(w: Wave, dtype: np.dtype[Any]) -> Array:
    if dtype not in w.shared_views:
        w.shared_views[dtype] = w.shared.view(dtype)
    return w.shared_views[dtype]


def load_shared(w: Wave, pc: int, address: Array, dtype: np.dtype[Any], n: int) -> list[Array]:
    size = dtype.itemsize * n
    lanes = Lanes(w, address)
    facts = shared_lanes(w, pc, lanes, size, dtype.itemsize, "reads")
    count_shared(w, pc, lanes, facts, "load")
    w.note_shared(pc, lanes, size, "load")
    view, first = shared_view(w, dtype), facts.index
    if lanes.shape[0] == 1 and not w.narrow:
        taken = [view.take(first.ravel() + k if k else first.ravel(), axis=1, mode="clip") for k in range(n)]
        if lanes.on is None:
            return taken
        out = np.zeros((n, w.B, lanes.shape[1]), dtype)
        out[:, :, lanes.on[0]] = taken
        return list(out)
    if lanes.shape[0] == 1:
        lanes = Lanes(w, address, (w.B, 1))
        first = lanes.at // dtype.itemsize
    flat = lanes.rows(w) * view.shape[1] + first
    return [lanes.spread(view.reshape(-1).take(flat + k if k else flat)) for k in range(n)]


def store_shared(w: Wave, pc: int, address: Array, dtype: np.dtype[Any], values: list[Array]) -> None:
    size = dtype.itemsize * len(values)
    lanes = Lanes(w, address, (1, max(v.shape[1] for v in values)))
    facts = shared_lanes(w, pc, lanes, size, dtype.itemsize, "writes")
    count_shared(w, pc, lanes, facts, "store")
    w.note_shared(pc, lanes, size, "store")
    view = shared_view(w, dtype)
    if lanes.shape[0] == 1 and not w.narrow:
        first = facts.index.ravel()
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


def differs(a: Array, b: Array) -> Array:
    """Where the bits differ (a NaN equals itself)."""
    plain = UNSIGNED[a.dtype.itemsize]
    result: Array = np.ascontiguousarray(a).view(plain) != np.ascontiguousarray(b).view(plain)
    return result


def check_lost(w: Wave, pc: int, lanes: Lanes, lost: Array) -> None:
    """Two lanes wrote different values to one place with one instruction: one of them is gone."""
    if lost.any():
        row, n = (int(x) for x in np.argwhere(np.atleast_2d(lost))[0])
        column = int(
            np.atleast_1d(lanes.columns(w) if lanes.shape[1] > 1 else np.zeros(1, int)).ravel()[n % w.T]
        )
        raise findings.lost_write(w, pc, min(row, w.B - 1), column, int(lanes.at.ravel()[n % lanes.at.size]))


def count_shared(w: Wave, pc: int, lanes: Lanes, facts: Pattern, kind: str) -> None:
    """Requests, and the turns beyond the ideal: l1tex__data_bank_conflicts_pipe_lsu_mem_shared."""
    if w.meter is None:
        return
    times = w.B // lanes.shape[0] * (w.W if lanes.shape[1] == 1 else 1)
    w.meter.memory[f"shared_{kind}_requests"][pc] += facts.requests * times
    w.meter.memory[f"shared_{kind}_conflicts"][pc] += facts.conflicts * times


def bank_conflicts(lanes: Lanes, size: int) -> tuple[int, int]:
    """Requests of an access, and its bank conflicts."""
    if lanes.shape[1] == 1:
        return lanes.at.size, 0
    words = lanes.at >> 2
    full = words if lanes.on is None else np.full(lanes.shape, -1)
    if lanes.on is not None:
        full[lanes.on] = words
    keys = by_warp(full, -1).reshape(-1, 32)
    groups = max(size // 4, 1)
    busy = (keys.reshape(len(keys), groups, -1) >= 0).any(axis=2).sum(axis=1)
    side_by_side = bool((keys[:, 1:] - keys[:, :-1] == groups).all())
    return int(np.count_nonzero(busy)), 0 if side_by_side else int((turns(keys, groups) - busy).sum())


# --- local and parameters --------------------


def load_local(w: Wave, pc: int, address: Array, dtype: np.dtype[Any], n: int) -> list[Array]:
    lanes = Lanes(w, address)
    _check_local(w, pc, lanes, dtype.itemsize * n, "reads")
    g = w.local.dtype.itemsize
    cells = w.local.reshape(len(w.local), -1)
    if lanes.shape == (1, 1) and w.local.shape[1:] == (w.B, w.T):
        start = int(lanes.at.flat[0]) // g
        raw = [w.local[start + k] for k in range(n * dtype.itemsize // g)]
        return [
            _glue(raw[k : k + dtype.itemsize // g], dtype) for k in range(0, len(raw), dtype.itemsize // g)
        ]
    lanes = Lanes(w, address, (w.B, w.T))
    thread = lanes.rows(w) * w.full_T + lanes.columns(w)
    first = lanes.at // g
    raw = [cells[first + k, thread] for k in range(n * dtype.itemsize // g)]
    parts = dtype.itemsize // g
    return [lanes.spread(_glue(raw[k : k + parts], dtype)) for k in range(0, len(raw), parts)]


def store_local(w: Wave, pc: int, address: Array, dtype: np.dtype[Any], values: list[Array]) -> None:
    lanes = Lanes(w, address, (w.B, w.T))
    _check_local(w, pc, lanes, dtype.itemsize * len(values), "writes")
    g, parts = w.local.dtype.itemsize, dtype.itemsize // w.local.dtype.itemsize
    pieces = [piece for v in values for piece in _cut(v, w.local.dtype, parts)]
    if lanes.on is None and address.shape == (1, 1) and w.local.shape[1:] == (w.B, w.T):
        first = int(address.flat[0]) // g
        for k, piece in enumerate(pieces):
            w.local[first + k] = piece
        return
    cells = w.local.reshape(len(w.local), -1)
    thread = lanes.rows(w) * w.full_T + lanes.columns(w)
    for k, piece in enumerate(pieces):
        cells[lanes.at // g + k, thread] = lanes.pick(piece)


def _glue(parts: list[Array], dtype: np.dtype[Any]) -> Array:
    if len(parts) == 1:
        return parts[0].view(dtype)
    return np.stack(parts, axis=-1).view(dtype)[..., 0]


def _cut(value: Array, small: np.dtype[Any], parts: int) -> list[Array]:
    if parts == 1:
        return [np.ascontiguousarray(value).view(small)]
    split = np.ascontiguousarray(value)[..., None].view(small)
    return [split[..., k] for k in range(parts)]


def _check_local(w: Wave, pc: int, lanes: Lanes, size: int, verb: str) -> None:
    at = lanes.at
    if at.size and (int(at.min()) < 0 or int(at.max()) + size > w.layout.size["local"]):
        raise findings.outside_local(w, pc, lanes, size, verb)
    if at.size and int(np.bitwise_or.reduce(at, axis=None)) & (size - 1):
        raise findings.misaligned(w, pc, lanes, size, verb, "a local array")


def load_param(w: Wave, pc: int, address: Array, dtype: np.dtype[Any], n: int) -> list[Array]:
    size = dtype.itemsize
    lanes = Lanes(w, address)
    at = lanes.at
    raw = np.stack([w.params.take(at + k, mode="clip") for k in range(size * n)], axis=-1)
    parts = np.ascontiguousarray(raw).view(dtype)
    return [lanes.spread(parts[..., k]) for k in range(n)]


# --- generic addresses --------------------


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
