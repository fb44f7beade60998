"""Warp instructions: 32 lanes hand values to each other without memory.

shfl moves registers between lanes, vote and match compare them across lanes, redux sums them.  All lanes
named in the member mask must take part.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from labkit.emulator.lifting import slot_of
from labkit.emulator.meter import by_warp
from labkit.emulator.program import Program
from labkit.emulator.ptx import Instr, Pair
from labkit.emulator.types import DTYPE, Array, Step, reader
from labkit.emulator.wave import Wave

LANE = np.arange(32)
BIT = np.uint32(1) << LANE.astype(np.uint32)


def warps(w: Wave, a: Array) -> Array:
    """A value of every thread as (blocks, warps, 32)."""
    return by_warp(np.broadcast_to(a, (w.B, w.T)), 0)


def threads(w: Wave, a: Array) -> Array:
    """The inverse of `warps`."""
    return np.ascontiguousarray(a.reshape(w.B, -1)[:, : w.T])


def on(w: Wave) -> Array:
    return by_warp(w.active(), False)


def ballot(bits: Array) -> Array:
    """32 booleans -> one number, lane 0 the lowest bit."""
    result: Array = (bits * BIT).sum(axis=-1, dtype=np.uint32)[..., None]
    return result


def shfl(i: Instr, p: Program, pc: int) -> Step:
    """shfl.sync: each lane reads a register of another lane; out of its segment it reads its own."""
    dst = i.args[0]
    first, second = (dst.first, dst.second) if isinstance(dst, Pair) else (dst, None)
    slot, flag = slot_of(first, p), slot_of(second, p) if second else None
    value, lane, limit = (reader(a, "u32", p) for a in i.args[1:4])
    member = reader(i.args[4], "u32", p)
    choose = SHUFFLES[next(m for m in i.mods if m in SHUFFLES)]

    def step(w: Wave) -> None:
        w.meet(pc, member(w))
        a, b, c = (
            warps(w, value(w)),
            warps(w, lane(w)).astype(np.int64) & 31,
            warps(w, limit(w)).astype(np.int64),
        )
        segment, clamp = (c >> 8) & 31, c & 31
        lowest = LANE & segment
        highest = lowest | (clamp & ~segment)
        source, inside = choose(b, segment, lowest, highest)
        source = np.where(inside, source, LANE)
        if slot is not None:
            w.put(slot, threads(w, np.take_along_axis(a, source, axis=2)))
        if flag is not None:
            w.put(flag, threads(w, np.broadcast_to(inside, a.shape)))

    return step


Choice = Callable[[Array, Array, Array, Array], tuple[Array, Array]]
SHUFFLES: dict[str, Choice] = {
    "up": lambda b, s, low, high: (LANE - b, LANE - b >= high),
    "down": lambda b, s, low, high: (LANE + b, LANE + b <= high),
    "bfly": lambda b, s, low, high: (LANE ^ b, (LANE ^ b) <= high),
    "idx": lambda b, s, low, high: (low | (b & ~s), (low | (b & ~s)) <= high)}  # fmt: skip


def vote(i: Instr, p: Program, pc: int) -> Step:
    """vote.sync.any/all/uni/ballot: a predicate of all lanes at once."""
    slot = slot_of(i.args[0], p)
    value, member = reader(i.args[1], "pred", p), reader(i.args[2], "u32", p)
    mode = next(m for m in i.mods if m in ("any", "all", "uni", "ballot"))
    assert slot is not None

    def step(w: Wave) -> None:
        w.meet(pc, member(w))
        part = on(w)
        yes, no = warps(w, value(w)) & part, ~warps(w, value(w)) & part
        if mode == "ballot":
            out = np.broadcast_to(ballot(yes), part.shape)
        else:
            some, other = yes.any(axis=2, keepdims=True), no.any(axis=2, keepdims=True)
            out = np.broadcast_to({"any": some, "all": ~other, "uni": ~(some & other)}[mode], part.shape)
        w.put(slot, threads(w, out))

    return step


def activemask(i: Instr, p: Program, pc: int) -> Step:
    slot = slot_of(i.args[0], p)
    assert slot is not None
    return lambda w: w.put(slot, threads(w, np.broadcast_to(ballot(on(w)), (w.B, w.W, 32))))


def match(i: Instr, p: Program, pc: int) -> Step:
    """match.any: the lanes that hold my value; match.all: all lanes if they hold the same one."""
    dst = i.args[0]
    first, second = (dst.first, dst.second) if isinstance(dst, Pair) else (dst, None)
    slot, flag = slot_of(first, p), slot_of(second, p) if second else None
    value, member = reader(i.args[1], i.types[-1], p), reader(i.args[2], "u32", p)
    assert slot is not None
    every = "all" in i.mods

    def step(w: Wave) -> None:
        w.meet(pc, member(w))
        part, a = on(w), warps(w, value(w))
        same = (a[..., :, None] == a[..., None, :]) & part[..., None, :]
        mask = (same * BIT).sum(axis=-1, dtype=np.uint32)
        if every:
            agree = mask == ballot(part)
            mask = np.where(agree, mask, np.uint32(0))
            if flag is not None:
                w.put(flag, threads(w, agree))
        w.put(slot, threads(w, mask))

    return step


REDUCE = {"add": np.add, "min": np.minimum, "max": np.maximum, "and": np.bitwise_and, "or": np.bitwise_or,
          "xor": np.bitwise_xor}  # fmt: skip


def redux(i: Instr, p: Program, pc: int) -> Step:
    """redux.sync: one value from all lanes that take part."""
    slot, kind = slot_of(i.args[0], p), i.types[-1]
    value, member = reader(i.args[1], kind, p), reader(i.args[2], "u32", p)
    name = next(m for m in i.mods if m in REDUCE)
    dtype = DTYPE[kind]
    info = np.iinfo(dtype)
    neutral = {"min": info.max, "max": info.min, "and": -1 if dtype.kind == "i" else info.max}.get(name, 0)
    assert slot is not None

    def step(w: Wave) -> None:
        w.meet(pc, member(w))
        a = np.where(on(w), warps(w, value(w)), dtype.type(neutral))
        out = REDUCE[name].reduce(a, axis=2, keepdims=True).astype(dtype)
        w.put(slot, threads(w, np.broadcast_to(out, a.shape)))

    return step


def syncwarp(i: Instr, p: Program, pc: int) -> Step:
    member = reader(i.args[0], "u32", p)

    def step(w: Wave) -> None:
        w.meet(pc, member(w))
        w.passed_warp_barrier()

    return step


def elect(i: Instr, p: Program, pc: int) -> Step:
    """elect.sync: one lane, the lowest, is chosen."""
    dst = i.args[0]
    assert isinstance(dst, Pair)
    slot, flag = slot_of(dst.first, p), slot_of(dst.second, p)

    def step(w: Wave) -> None:
        part = on(w)
        leader = part.argmax(axis=2)[..., None]
        if slot is not None:
            w.put(slot, threads(w, np.broadcast_to(leader, part.shape).astype(np.uint32)))
        if flag is not None:
            w.put(flag, threads(w, (leader == LANE) & part))

    return step
