"""Tensor-core instructions: mma.sync, WMMA and ldmatrix, where 32 lanes hold the pieces of small matrices.

A *fragment* is what one lane holds.  Where each element lies is fixed for mma.sync (PTX ISA, "Matrix
fragments for mma.m16n8k16"); WMMA leaves it open, and the same layout is used here.  Products are summed in
double and rounded once; the hardware sums in float in an order of its own, so that its last bits differ.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np

from labkit.emulator import floats
from labkit.emulator.access import FETCH, WRITE
from labkit.emulator.global_access import count_global, segments
from labkit.emulator.lanes import Lanes, address_of, space_of
from labkit.emulator.lifting import slot_of
from labkit.emulator.program import Program
from labkit.emulator.ptx import Instr, Operand, Vec
from labkit.emulator.types import DTYPE, Array, Read, Step, reader
from labkit.emulator.warps import threads, warps
from labkit.emulator.wave import Wave

LANE = np.arange(32)
GROUP, FOUR = LANE[:, None] >> 2, LANE[:, None] & 3
SIZE = {"f16": 2, "bf16": 2, "tf32": 4, "s8": 1, "u8": 1, "f64": 8, "f32": 4, "s32": 4}
Map = tuple[Array, Array]


def shape_of(i: Instr) -> tuple[int, int, int]:
    found = next(m for m in i.mods if re.fullmatch(r"m\d+n\d+k\d+", m))
    m, n, k = re.findall(r"\d+", found)
    return int(m), int(n), int(k)


def operand_map(role: str, rows: int, per: int, count: int) -> Map:
    """Row and column of element `count` of each lane; `per` elements share a 32-bit register."""
    e = np.arange(count)[None, :]
    r, p = e // per, e % per
    if role == "a":
        tall = rows == 16
        high = r >> 1 if tall else r
        return GROUP + 8 * (r & 1 if tall else 0 * r), FOUR * per + 4 * per * high + p
    return FOUR * per + 4 * per * r + p, GROUP + 0 * e


def result_map(count: int) -> Map:
    e = np.arange(count)[None, :]
    return GROUP + 8 * (e >> 1), 2 * FOUR + (e & 1)


def wmma_map(role: str, m: int, n: int, k: int, count: int) -> Map:
    """Where WMMA's elements lie: 16×16 as two mma tiles side by side, other shapes row by row."""
    e = np.arange(count)[None, :] + 0 * GROUP
    rows, columns = {"a": (m, k), "b": (k, n)}.get(role, (m, n))
    if (rows, columns) == (16, 16):
        e = e & 7
        low, mid, high = e & 1, (e >> 1) & 1, e >> 2
        if role == "b":
            return 2 * FOUR + low + 8 * mid, GROUP + 8 * high
        return GROUP + 8 * mid, 2 * FOUR + low + 8 * high
    flat = (e * 32 + LANE[:, None]) % (rows * columns)
    return flat // columns, flat % columns


def elements(a: Operand, kind: str, p: Program) -> tuple[list[Read], int]:
    """How a fragment's registers are read, and how many elements each holds."""
    items = a.items if isinstance(a, Vec) else (a,)
    per = max(4 // SIZE[kind], 1)
    whole = DTYPE["u32"] if SIZE[kind] <= 4 else DTYPE["u64"]
    return [reader(x, whole, p) for x in items], per


def numbers(w: Wave, reads: list[Read], kind: str) -> Array:
    """A fragment as (blocks, warps, 32, elements) doubles."""
    raw = np.stack([warps(w, r(w)) for r in reads], axis=-1)
    part = np.ascontiguousarray(raw).view(DTYPE["f32" if kind == "tf32" else kind])
    if kind == "tf32":
        part = (part.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)
    return (floats.from_bf16(part) if kind == "bf16" else part).astype(np.float64)


def gather(fragment: Array, at: Map, rows: int, columns: int) -> Array:
    """Fragments of all lanes -> the matrix."""
    out = np.zeros((*fragment.shape[:2], rows, columns))
    out[:, :, at[0], at[1]] = fragment
    return out


def put_numbers(w: Wave, slots: list[int | None], values: Array, kind: str) -> None:
    """The inverse of `numbers`, for results."""
    if kind == "s32":
        typed: Array = values.astype(np.int64).astype(np.int32)
    else:
        typed = floats.to_bf16(values) if kind == "bf16" else values.astype(DTYPE[kind])
    raw = np.ascontiguousarray(typed)
    raw = raw.view(np.uint64 if SIZE[kind] == 8 else np.uint32)
    for n, slot in enumerate(slots):
        if slot is not None:
            w.put(slot, threads(w, raw[..., n]))


def _slots(a: Operand, p: Program) -> list[int | None]:
    return [slot_of(x, p) for x in (a.items if isinstance(a, Vec) else (a,))]


def mma(i: Instr, p: Program, pc: int) -> Step:
    """mma.sync: D = A × B + C for each warp."""
    m, n, k = shape_of(i)
    kinds = [t for t in i.mods if t in SIZE]
    out, ka, kb, kc = kinds if len(kinds) == 4 else (kinds[0], kinds[1], kinds[1], kinds[-1])
    (ra, pa), (rb, pb), (rc, per) = (elements(a, t, p) for a, t in zip(i.args[1:4], (ka, kb, kc), strict=True))
    maps = (
        operand_map("a", m, pa, pa * len(ra)),
        operand_map("b", k, pb, pb * len(rb)),
        result_map(per * len(rc)),
    )
    slots = _slots(i.args[0], p)

    def step(w: Wave) -> None:
        w.meet(pc, np.full((1, 1), 0xFFFFFFFF, np.uint32))
        a = gather(numbers(w, ra, ka), maps[0], m, k)
        b = gather(numbers(w, rb, kb), maps[1], k, n)
        c = gather(numbers(w, rc, kc), maps[2], m, n)
        put_numbers(w, slots, (a @ b + c)[:, :, maps[2][0], maps[2][1]], out)

    return step


def wmma(i: Instr, p: Program, pc: int) -> Step:
    """wmma.load, wmma.mma and wmma.store."""
    return {"load": wmma_load, "mma": wmma_mma, "store": wmma_store}[i.mods[0]](i, p, pc)


def wmma_mma(i: Instr, p: Program, pc: int) -> Step:
    m, n, k = shape_of(i)
    kinds = [t for t in i.mods if t in SIZE]
    out, ka, kb, kc = kinds if len(kinds) == 4 else (kinds[0], "f16", "f16", kinds[-1])
    (ra, pa), (rb, pb), (rc, per) = (elements(a, t, p) for a, t in zip(i.args[1:4], (ka, kb, kc), strict=True))
    ma, mb = wmma_map("a", m, n, k, pa * len(ra)), wmma_map("b", m, n, k, pb * len(rb))
    mc = wmma_map("c", m, n, k, per * len(rc))
    slots = _slots(i.args[0], p)

    def step(w: Wave) -> None:
        w.meet(pc, np.full((1, 1), 0xFFFFFFFF, np.uint32))
        a, b = gather(numbers(w, ra, ka), ma, m, k), gather(numbers(w, rb, kb), mb, k, n)
        c = gather(numbers(w, rc, kc), mc, m, n)
        put_numbers(w, slots, (a @ b + c)[:, :, mc[0], mc[1]], out)

    return step


def _places(i: Instr, p: Program, source: Operand, count: int, stride: Operand | None) -> Callable[[Wave, int], Array]:
    """The addresses of each lane's element number e."""
    m, n, k = shape_of(i)
    role = i.mods[1]
    rows, columns = wmma_map("c" if role in ("c", "d") else role, m, n, k, count)
    tall = {"a": (m, k), "b": (k, n)}.get(role, (m, n))
    major = columns if "col" in i.mods else rows
    minor = rows if "col" in i.mods else columns
    base = address_of(source, p)
    size = np.int64(SIZE[i.mods[-1]])
    default = np.full((1, 1), tall[0] if "col" in i.mods else tall[1], np.int64)
    step = reader(stride, "u32", p) if stride is not None else (lambda w: default)

    def origin(w: Wave, e: int) -> Array:
        lane = np.arange(w.T) % 32
        result: Array = base(w) + (major[lane, e][None, :] * step(w).astype(np.int64) + minor[lane, e][None, :]) * size
        return result

    return origin


def in_pairs(i: Instr, p: Program, pc: int, source: Operand, stride: Operand | None) -> Callable[[Wave], None]:
    """Counts a 16 × 16 fragment as the hardware moves it (seen on an H200): four requests of two neighbours a lane.

    In each request eight rows (columns, if stored so) of eight elements are touched, four lanes to a row.
    """
    base, size = address_of(source, p), np.int64(SIZE[i.mods[-1]])
    step = reader(stride, "u32", p) if stride is not None else (lambda w: np.full((1, 1), 16))
    kind = "store" if "store" in i.mods else "load"

    def count(w: Wave) -> None:
        lane = np.arange(w.T)[None, :] % 32
        for q in range(4):
            major, minor = lane // 4 + 8 * (q % 2), 2 * (lane % 4) + 8 * (q // 2)
            lanes = Lanes(w, base(w) + (major * step(w).astype(np.int64) + minor) * size)
            count_global(w, pc, lanes, 2 * int(size), kind, segments(w, pc, lanes, 2 * int(size), f"{kind}s"))

    return count


def is_square(i: Instr) -> bool:
    """A 16 × 16 fragment of halves or floats, for which `in_pairs` is known to hold."""
    m, n, k = shape_of(i)
    return (m, n, k) == (16, 16, 16) and i.mods[-1] in ("f16", "f32")


def moved(i: Instr, p: Program, pc: int, matrix: Operand, move: Callable[[Wave], None]) -> Step:
    """A step that moves a fragment; where `in_pairs` knows how, its global accesses are counted so."""
    stride = i.args[2] if len(i.args) > 2 else None
    count = in_pairs(i, p, pc, matrix, stride) if is_square(i) else None
    base = address_of(matrix, p)

    def step(w: Wave) -> None:
        w.meet(pc, np.full((1, 1), 0xFFFFFFFF, np.uint32))
        if count is None or w.meter is None or w.memory.find(int(base(w).flat[0])) is None:
            return move(w)
        meter, w.meter = w.meter, None
        try:
            move(w)
        finally:
            w.meter = meter
        count(w)

    return step


def wmma_load(i: Instr, p: Program, pc: int) -> Step:
    kind = i.mods[-1]
    items = i.args[0].items if isinstance(i.args[0], Vec) else (i.args[0],)
    slots, per = _slots(i.args[0], p), max(4 // SIZE[kind], 1)
    count = per * len(items)
    origin = _places(i, p, i.args[1], count, i.args[2] if len(i.args) > 2 else None)
    fetch = FETCH[space_of(i)]
    dtype = np.dtype(f"u{SIZE[kind]}")
    m, n, _k = shape_of(i)
    half = kind == "f16" and i.mods[1] in ("a", "b") and (m, n) == (16, 16)

    def move(w: Wave) -> None:
        loaded = [fetch(w, pc, origin(w, e), dtype, 1)[0] for e in range(count // 2 if half else count)]
        loaded += loaded if half else []
        for r, slot in enumerate(slots):
            parts = np.broadcast_arrays(*loaded[r * per : (r + 1) * per])
            if slot is not None:
                w.put(slot, np.stack(parts, axis=-1).view(f"u{max(4, SIZE[kind])}")[..., 0])

    return moved(i, p, pc, i.args[1], move)


def wmma_store(i: Instr, p: Program, pc: int) -> Step:
    kind = i.mods[-1]
    reads, per = elements(i.args[1], kind, p)
    origin = _places(i, p, i.args[0], per * len(reads), i.args[2] if len(i.args) > 2 else None)
    write, dtype = WRITE[space_of(i)], np.dtype(f"u{SIZE[kind]}")

    def move(w: Wave) -> None:
        for r, read in enumerate(reads):
            parts = np.ascontiguousarray(read(w))[..., None].view(dtype)
            for q in range(per):
                write(w, pc, origin(w, r * per + q), dtype, [parts[..., q]])

    return moved(i, p, pc, i.args[0], move)


def ldmatrix(i: Instr, p: Program, pc: int) -> Step:
    """ldmatrix: 1, 2 or 4 matrices of 8×8 halves; lane 8j + r gives the address of row r of matrix j."""
    slots = _slots(i.args[0], p)
    address, trans = address_of(i.args[1], p), "trans" in i.mods
    fetch = FETCH["shared" if space_of(i) == "generic" else space_of(i)]
    count = len(slots)
    word = np.dtype(np.uint32)

    def step(w: Wave) -> None:
        w.meet(pc, np.full((1, 1), 0xFFFFFFFF, np.uint32))
        mask, lane = w.mask, (np.arange(w.T) % 32)[None, :]
        if count < 4:
            w.mask = lane < 8 * count if mask is None else mask & (lane < 8 * count)
        rows = np.stack([warps(w, v) for v in fetch(w, pc, address(w), word, 4)], axis=-1)
        w.mask = mask
        for j, slot in enumerate(slots):
            block = rows[:, :, 8 * j : 8 * j + 8, :]
            if trans:
                halves = np.ascontiguousarray(block).view(np.uint16).swapaxes(2, 3)
                block = np.ascontiguousarray(halves).view(word)
            if slot is not None:
                w.put(slot, threads(w, block.reshape(*block.shape[:2], 32)))

    return step


def stmatrix(i: Instr, p: Program, pc: int) -> Step:
    """stmatrix: the inverse of ldmatrix."""
    items = i.args[1].items if isinstance(i.args[1], Vec) else (i.args[1],)
    reads, address, trans = [reader(a, "u32", p) for a in items], address_of(i.args[0], p), "trans" in i.mods
    count = len(reads)
    word = np.dtype(np.uint32)

    def step(w: Wave) -> None:
        w.meet(pc, np.full((1, 1), 0xFFFFFFFF, np.uint32))
        rows = np.zeros((w.B, w.W, 32, 4), np.uint32)
        for j, read in enumerate(reads):
            block = warps(w, read(w)).reshape(w.B, w.W, 8, 4)
            if trans:
                halves = np.ascontiguousarray(block).view(np.uint16).swapaxes(2, 3)
                block = np.ascontiguousarray(halves).view(word)
            rows[:, :, 8 * j : 8 * j + 8] = block
        mask, lane = w.mask, (np.arange(w.T) % 32)[None, :]
        if count < 4:
            w.mask = lane < 8 * count if mask is None else mask & (lane < 8 * count)
        WRITE["shared"](w, pc, address(w), word, [threads(w, rows[..., c]) for c in range(4)])
        w.mask = mask

    return step


def movmatrix(i: Instr, p: Program, pc: int) -> Step:
    """movmatrix: transpose an 8×8 matrix of halves held by a warp."""
    slot, read = slot_of(i.args[0], p), reader(i.args[1], "u32", p)
    assert slot is not None

    def step(w: Wave) -> None:
        block = np.ascontiguousarray(warps(w, read(w)).reshape(w.B, w.W, 8, 4))
        halves = np.ascontiguousarray(block.view(np.uint16).swapaxes(2, 3))
        w.put(slot, threads(w, halves.view(np.uint32).reshape(w.B, w.W, 32)))

    return step


def copy_async(i: Instr, p: Program, pc: int) -> Step:
    """cp.async: global memory straight into shared memory.  Here the copy is made at once."""
    if "bulk" in i.mods or "mbarrier" in i.mods:
        raise KeyError(i.name)
    if "commit_group" in i.mods or "wait_group" in i.mods or "wait_all" in i.mods:
        return lambda w: None
    target, source = address_of(i.args[0], p), address_of(i.args[1], p)
    size = int(getattr(i.args[2], "value", 0))
    given = reader(i.args[3], "u32", p) if len(i.args) > 3 else None
    dtype, n = (DTYPE["u64"], 1) if size == 8 else (DTYPE["u32"], size // 4)

    def step(w: Wave) -> None:
        mask = w.mask
        if given is None:
            values = FETCH["global"](w, pc, source(w), dtype, n)
        else:
            some = given(w) >= size
            w.mask = some if mask is None else mask & some
            values = FETCH["global"](w, pc, source(w), dtype, n)
            w.mask = mask
            values = [np.where(some, v, dtype.type(0)) for v in values]
        WRITE["shared"](w, pc, target(w), dtype, values)

    return step
