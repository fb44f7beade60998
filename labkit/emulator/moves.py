"""mov, and long additions whose carry has a register of its own."""

from __future__ import annotations

import numpy as np

from labkit.emulator.arithmetic import mul
from labkit.emulator.lifting import slot_of
from labkit.emulator.program import CARRY, Program
from labkit.emulator.ptx import Instr, Vec
from labkit.emulator.types import DTYPE, UNSIGNED, Read, Step, reader
from labkit.emulator.wave import Wave


def carry(i: Instr, p: Program, pc: int) -> Step:
    """add.cc, addc, sub.cc, subc, mad.cc, madc: long arithmetic, the carry kept in a register of its own."""
    kind = i.types[0]
    u = UNSIGNED[DTYPE[kind].itemsize]
    name = i.op
    takes, gives = name.endswith("c"), "cc" in i.mods
    flag, slot = p.slot(CARRY), slot_of(i.args[0], p)
    assert slot is not None
    product = mul(i.mods, kind) if name.startswith("mad") else None
    typed = [reader(a, kind if product and n < 2 else u, p) for n, a in enumerate(i.args[1:])]

    def step(w: Wave) -> None:
        values = [r(w) for r in typed]
        a, b = (product(*values[:2]).view(u), values[2]) if product else values[:2]
        c = w.regs[flag].astype(u) if takes else u.type(0)
        if name.startswith("sub"):
            out = a - b - c
            over = (a < b) | ((a == b) & (c != 0))
        else:
            out = a + b + c
            over = (out < a) | ((out == a) & (c != 0))
        w.put(slot, out)
        if gives:
            w.put(flag, np.asarray(over))

    return step


def mov(i: Instr, p: Program, pc: int) -> Step:
    """mov: copy, pack {a, b} into a wider register, or unpack one."""
    dst, source = i.args
    kind = i.types[0]
    if isinstance(dst, Vec):
        return _unpack(dst, reader(source, kind, p), p)
    slot = slot_of(dst, p)
    assert slot is not None
    if isinstance(source, Vec):
        part = UNSIGNED[DTYPE[kind].itemsize // len(source.items)]
        reads = [reader(a, part, p) for a in source.items]
        whole = DTYPE[kind]

        def pack(w: Wave) -> None:
            parts = np.broadcast_arrays(*(r(w) for r in reads))
            w.put(slot, np.stack(parts, axis=-1).view(whole)[..., 0])

        return pack
    read = reader(source, kind, p)
    return lambda w: w.put(slot, read(w))


def _unpack(dst: Vec, read: Read, p: Program) -> Step:
    slots = [slot_of(d, p) for d in dst.items]
    n = len(slots)

    def step(w: Wave) -> None:
        value = np.ascontiguousarray(read(w))
        parts = value[..., None].view(UNSIGNED[value.dtype.itemsize // n])
        for k, slot in enumerate(slots):
            if slot is not None:
                w.put(slot, parts[..., k])

    return step
