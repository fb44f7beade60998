"""Which registers can never hold a subnormal float, so that .ftz need not look at them again.

A register is *flushed* if everything that writes it flushes its result, moves a flushed register or a normal
constant, or converts an integer. Whatever comes from memory is not.
"""

from __future__ import annotations

from labkit.emulator.program import Program, reads_writes
from labkit.emulator.ptx import Imm, Instr, Operand, Reg

SMALLEST = 2.0**-126  # the smallest normal float32


def flushed_slots(p: Program, shared: bool = False) -> frozenset[int]:
    """The slots of the registers that are flushed: all that some writer does not rule out, until nothing changes.

    shared: count what is loaded from shared memory in, as holds while nothing subnormal was stored there.
    """
    writers: dict[int, list[Instr]] = {}
    for i in p.code:
        for slot in reads_writes(i, p)[1]:
            writers.setdefault(slot, []).append(i)
    found = set(writers)
    while dirty := {slot for slot in found if not all(_flushes(i, p, found, shared) for i in writers[slot])}:
        found -= dirty
    return frozenset(found)


def _flushes(i: Instr, p: Program, found: set[int], shared: bool) -> bool:
    if i.op == "ld":
        return shared and "shared" in i.mods and i.types[-1] == "f32"
    if "ftz" in i.mods and i.types[:1] == ("f32",):
        return True
    if i.op in ("mov", "selp") and i.types[:1] in (("f32",), ("b32",)):
        moved = i.args[1:2] if i.op == "mov" else i.args[1:3]
        return all(is_flushed(a, p, found) for a in moved)
    return i.op == "cvt" and i.types[0] == "f32" and i.types[-1][0] in "su"


def is_flushed(a: Operand, p: Program, found: set[int] | frozenset[int]) -> bool:
    """Whether an operand is a flushed register or a constant that is not subnormal."""
    if isinstance(a, Reg):
        return p.slot(a) in found
    return isinstance(a, Imm) and a.kind == "f32" and (a.value == 0 or not abs(a.value) < SMALLEST)
