"""The table of opcodes: which room makes the step of which instruction."""

from __future__ import annotations

from collections.abc import Callable, Container

from labkit.emulator import access, alu, atomics, compare, convert, matrix, moves, printing, warps
from labkit.emulator.program import Program
from labkit.emulator.ptx import Instr
from labkit.emulator.types import Step
from labkit.emulator.wave import Wave
from labkit.errors import LabError

Maker = Callable[[Instr, Program, int], Step]


def nothing(i: Instr, p: Program, pc: int) -> Step:
    """Fences and hints: the emulator's memory is always in order."""
    return _pass


def _pass(w: Wave) -> None:
    return None


MAKERS: dict[str, Maker] = {
    **dict.fromkeys(alu.TABLE, alu.alu),
    "setp": compare.setp,
    "set": compare.set_,
    "mov": moves.mov,
    "cvt": convert.cvt,
    "cvta": access.cvta,
    "addc": moves.carry,
    "subc": moves.carry,
    "madc": moves.carry,
    "ld": access.load,
    "ldu": access.load,
    "st": access.store,
    "atom": atomics.atom,
    "red": atomics.atom,
    "shfl": warps.shfl,
    "vote": warps.vote,
    "match": warps.match,
    "redux": warps.redux,
    "activemask": warps.activemask,
    "elect": warps.elect,
    "vprintf": printing.vprintf,
    "__assertfail": printing.assertfail,
    "mma": matrix.mma,
    "wmma": matrix.wmma,
    "ldmatrix": matrix.ldmatrix,
    "stmatrix": matrix.stmatrix,
    "movmatrix": matrix.movmatrix,
    "cp": matrix.copy_async,
    **dict.fromkeys(
        (
            "membar",
            "fence",
            "prefetch",
            "prefetchu",
            "nanosleep",
            "pmevent",
            "discard",
            "griddepcontrol",
            "applypriority",
            "setmaxnreg",
        ),
        nothing,
    ),
}


def steps(p: Program, control: Container[str]) -> list[Step]:
    """One step for each instruction; what cannot be emulated is refused here, before anything runs."""
    return [_pass if controls(i, control) else make(i, p, pc) for pc, i in enumerate(p.code)]


def controls(i: Instr, control: Container[str]) -> bool:
    """Whether an instruction decides what runs next (a warp's own barrier does not, a cluster's is refused)."""
    return i.op in control and "warp" not in i.mods and "cluster" not in i.mods


def make(i: Instr, p: Program, pc: int) -> Step:
    if i.op in ("bar", "barrier") and "warp" in i.mods:
        return warps.syncwarp(i, p, pc)
    maker = moves.carry if "cc" in i.mods and i.op in ("add", "sub", "mad") else MAKERS.get(i.op)
    if maker is None:
        raise refuse(i, p, pc)
    try:
        return maker(i, p, pc)
    except (KeyError, AssertionError, StopIteration, ValueError, IndexError) as error:
        raise refuse(i, p, pc) from error


def refuse(i: Instr, p: Program, pc: int) -> LabError:
    return LabError(
        f"run `{p.name}` in the emulator",
        f"the instruction {i.name} is not emulated — {p.where(pc)}",
        "run this kernel on a GPU, or write that line another way",
    )
