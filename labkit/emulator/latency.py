"""How often a warp has to wait for memory: the chains of dependent loads in a program's straight runs.

Loads whose addresses are known at the same time are under way together, and cost one wait; a load whose
address comes from another load waits again. Between branches and barriers that is a property of the code, so it is read
off the program once, and weighted with how often each run was executed.
"""

from __future__ import annotations

from labkit.emulator.program import Program, reads_writes
from labkit.emulator.ptx import Instr

ENDS = {"bra", "brx", "bar", "barrier", "ret", "exit"}


def waits(p: Program) -> list[int]:
    """For each instruction that begins a straight run, how many loads of global memory follow one another in it."""
    starts = {0, *p.targets.values()}
    starts.update(pc + 1 for pc, i in enumerate(p.code) if i.op in ENDS)
    begins = sorted(s for s in starts if s < len(p.code))
    found = [0] * (len(p.code) + 1)
    for begin, end in zip(begins, [*begins[1:], len(p.code)], strict=True):
        found[begin] = _longest(p, begin, end)
    return found


def _longest(p: Program, begin: int, end: int) -> int:
    depth: dict[int, int] = {}
    longest = 0
    for i in p.code[begin:end]:
        reads, writes = reads_writes(i, p)
        level = max((depth.get(slot, 0) for slot in reads), default=0) + is_load(i)
        longest = max(longest, level)
        depth.update(dict.fromkeys(writes, level))
    return longest


def is_load(i: Instr) -> bool:
    """Whether an instruction brings something from global memory to a register that a later one may need."""
    return i.op in ("ld", "atom") and not any(m.startswith(("shared", "local", "param", "const")) for m in i.mods)
