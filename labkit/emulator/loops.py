"""Long loops, counted on their first rounds: once every round costs the same, the rest is added up, not run.

For counts of a sample only, whose results are thrown away. A loop qualifies where each of its exits compares
integers that change by the same step every round. Then it's known how many rounds are left: all but the last few are
skipped, their counts are added, and every integer that goes from round to round is put where it would stand.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from labkit.emulator.program import Program, reads_writes
from labkit.emulator.ptx import Imm, Instr, Operand, Reg, Sym
from labkit.emulator.types import DTYPE, Array, Function, Read, reader
from labkit.emulator.wave import touches

if TYPE_CHECKING:
    from labkit.emulator.machine import Run

ALIKE, FEW = 8, 2  # rounds that have to cost the same, in short loops and in those of LONG instructions and more
PERIOD = 8  # or, in short loops: so many rounds as the so many before, as where rows begin at any float of a sector
LONG = 400
LEFT = 2  # rounds that are run at the end, so that the loop is left as it would be
NEVER = 1 << 62  # rounds until an exit is taken whose operands stand still
TRIED = 64  # rounds after which a loop is given up
FAR = {"ld", "st", "cp", "atom", "red"}
UNSUITED = {"brx", "exit", "ret", "trap", "vprintf", "__assertfail"}
# The loop goes on while a `how` b, that is while their distance b - a is on this side of 0.
PAST: dict[str, Function] = {
    "lt": np.greater,
    "le": np.greater_equal,
    "gt": np.less,
    "ge": np.less_equal,
    "ne": np.not_equal,
}
SAME = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}
OPPOSITE = {"lt": "ge", "le": "gt", "gt": "le", "ge": "lt", "eq": "ne", "ne": "eq"}


Piece = tuple[str, int]  # "loaded" or "stored", and how many sectors long


@dataclass(frozen=True)
class Test:
    """One exit: the loop goes on while `a` `how` `b`."""

    a: Read
    b: Read
    how: str


@dataclass(frozen=True)
class Loop:
    """The instructions first … last; `carried` are the registers that go from round to round.

    far: whether it reaches global memory.
    """

    first: int
    last: int
    far: bool
    tests: tuple[Test, ...]
    carried: tuple[int, ...]


def loop_at(p: Program, last: int, first: int) -> Loop | None:
    """The loop that the branch at `last` closes, or None where its exits are not understood."""
    body = range(first, last + 1)
    tests = []
    for pc in body:
        i = p.code[pc]
        if i.op in UNSUITED:
            return None
        for leaves_if in _leaving(i, pc, p, body):
            test = _test(i, p, body, leaves_if)
            if test is None:
                return None
            tests.append(test)
    written = set[int]().union(*(reads_writes(p.code[pc], p)[1] for pc in body))
    carried = tuple(slot for slot in sorted(written) if p.live[first] >> slot & 1)
    far = any(i.op in FAR and touches(i, "global") for i in p.code[first : last + 1])
    return Loop(first, last, far, tuple(tests), carried) if tests else None


def _leaving(i: Instr, pc: int, p: Program, body: range) -> Iterator[bool]:
    """For a branch out of the loop: whether its guard holds, or not, when it leaves."""
    if i.op == "bra" and isinstance(i.args[0], Sym):
        if p.targets[i.args[0].name] not in body:
            yield True
        if pc == body[-1] and i.guard is not None:
            yield False


def _test(i: Instr, p: Program, body: range, leaves_if: bool) -> Test | None:
    if i.guard is None:
        return None
    compare = _only(p, body, i.guard[0])
    if compare is None or compare.op != "setp" or len(compare.args) != 3 or compare.guard is not None:
        return None
    kind, how = compare.types[-1], SAME.get(compare.mods[0], compare.mods[0])
    if DTYPE[kind].kind not in "iu" or not isinstance(compare.args[0], Reg):
        return None
    if leaves_if != i.guard[1]:  # the guard leaves where the comparison holds, unless it is negated
        how = OPPOSITE.get(how, "")
    a, b = (_value(x, p, body, DTYPE[kind]) for x in compare.args[1:3])
    return Test(a, b, how) if how in PAST and a is not None and b is not None else None


def _only(p: Program, body: range, reg: Reg) -> Instr | None:
    """The one instruction of the loop that writes a register."""
    slot = p.slot(reg)
    found = [p.code[pc] for pc in body if slot in reads_writes(p.code[pc], p)[1]]
    return found[0] if len(found) == 1 else None


def _value(a: Operand, p: Program, body: range, dtype: np.dtype[Any], deep: int = 4) -> Read | None:
    """How to read an operand when the loop begins anew; what is gone by then is worked out again."""
    if isinstance(a, Imm):
        return reader(a, dtype, p)
    if not isinstance(a, Reg) or a.type == "special" or not deep:
        return None
    if p.live[body[0]] >> p.slot(a) & 1:
        return reader(a, dtype, p)
    made = _only(p, body, a)
    if made is None or made.guard is not None or made.op not in ("add", "sub", "mov"):
        return None
    parts = [_value(x, p, body, dtype, deep - 1) for x in made.args[1:]]
    if None in parts:
        return None
    if made.op == "mov":
        return parts[0]
    x, y = parts
    assert x is not None and y is not None
    return (lambda w: x(w) + y(w)) if made.op == "add" else (lambda w: x(w) - y(w))


@dataclass
class Rounds:
    """What was seen at the beginnings of one loop's last rounds."""

    loop: Loop
    costs: list[Array] = field(default_factory=list)
    values: list[tuple[list[Array], list[tuple[Array, Array]]]] = field(default_factory=list)
    touched: dict[Piece, int] = field(default_factory=dict)  # pieces after the first round
    seen: int = 0


@dataclass
class Skipped:
    """What a launch left out: rounds, and the pieces of memory that they would have touched first.

    touched: how many pieces of each kind have been touched so far.
    """

    touched: Callable[[], dict[Piece, int]]
    pieces: dict[Piece, float] = field(default_factory=dict)
    rounds: int = 0


class Loops:
    """The loops of one wave under way."""

    def __init__(self, run: Run, skipped: Skipped) -> None:
        self.run, self.skipped = run, skipped
        self.rounds: dict[int, Rounds] = {}

    def left(self, last: int) -> None:
        """The loop that the branch at `last` closes was left."""
        self.rounds.pop(last, None)

    def again(self, last: int, first: int) -> None:
        """All threads that are alive are about to begin another round."""
        run = self.run
        known = run.machine.loops
        if last not in known:
            known[last] = loop_at(run.machine.program, last, first)
        loop = known[last]
        if loop is None or run.groups or run.held or run.waiting or run.wave.meter is None:
            return
        for inner in [pc for pc in self.rounds if first <= pc < last]:
            del self.rounds[inner]
        seen = self.rounds.setdefault(last, Rounds(loop))
        seen.seen += 1
        if seen.seen > TRIED:
            return
        if seen.seen == 1 and loop.far:
            seen.touched = self.skipped.touched()
        self.note(seen)
        cost = self.steady(seen.costs, FEW if last - first >= LONG else ALIKE)
        if cost is not None:
            self.skip(seen, *cost)

    def steady(self, costs: list[Array], alike: int) -> tuple[Array, int] | None:
        """What a number of rounds cost, and the number, if they go on costing that; None if it isn't known."""
        for size, times in ((1, alike), (PERIOD, 2)):
            ends = costs[::-size][: times + 1]
            each = [after - before for after, before in itertools.pairwise(ends)]
            if len(each) == times and all(np.array_equal(cost, each[0]) for cost in each[1:]):
                return each[0], size
            if alike == FEW:
                break
        return None

    def note(self, seen: Rounds) -> None:
        wave, loop = self.run.wave, seen.loop
        meter = wave.meter
        assert meter is not None
        seen.costs.append(meter.taken(loop.first, loop.last + 2))
        operands = [(t.a(wave).astype(np.int64), t.b(wave).astype(np.int64)) for t in loop.tests]
        seen.values.append(([wave.regs[slot] for slot in loop.carried], operands))
        for kept in (seen.costs, seen.values):
            del kept[: -2 * PERIOD - 1]

    def skip(self, seen: Rounds, cost: Array, size: int) -> None:
        """Skip the rounds that are left but for LEFT, by groups of `size`, each of which costs `cost`."""
        left = min(self.rounds_left(seen, n) for n in range(len(seen.loop.tests)))
        rounds = (left - LEFT) // size * size
        if not 0 < rounds < NEVER - LEFT:
            return
        wave, meter = self.run.wave, self.run.wave.meter
        assert meter is not None
        meter.add(seen.loop.first, cost * (rounds // size))
        earlier, before, now = (registers for registers, _ in seen.values[-3:])
        for n, slot in enumerate(seen.loop.carried):
            wave.regs[slot] = _moved(earlier[n], before[n], now[n], rounds)
        for kind, now_touched in self.skipped.touched().items() if seen.touched else ():
            each = (now_touched - seen.touched[kind]) / (seen.seen - 1)
            self.skipped.pieces[kind] = self.skipped.pieces.get(kind, 0.0) + each * rounds
        self.skipped.rounds += rounds
        del self.rounds[seen.loop.last]

    def rounds_left(self, seen: Rounds, n: int) -> int:
        """How many rounds every thread goes on for, as far as exit `n` is concerned; 0 where that isn't known."""
        test = seen.loop.tests[n]
        gaps = [values[1][n][1] - values[1][n][0] for values in seen.values[-3:]]
        step = gaps[-1] - gaps[-2]
        if not np.array_equal(step, gaps[-2] - gaps[-3]):
            return 0
        gap, step = np.broadcast_arrays(gaps[-1], step)
        alive = self.run.wave.alive
        if alive is not None:
            on = np.broadcast_to(alive, self.run.wave.active().shape)
            gap, step = np.broadcast_to(gap, on.shape)[on], np.broadcast_to(step, on.shape)[on]
        if not PAST[test.how](gap, 0).all():
            return 0
        moving = step != 0
        if not moving.any():
            return NEVER
        if (np.sign(gap[moving]) == np.sign(step[moving])).any():
            return 0  # it moves away from its end: a wrap decides
        rounds = np.abs(gap[moving]) // np.abs(step[moving])
        return int(rounds.min())


def _moved(earlier: Array, before: Array, now: Array, rounds: int) -> Array:
    """Where a register stands after more rounds, if it is an integer that moved evenly; else as it is."""
    if now.dtype.kind not in "iu" or not earlier.itemsize == before.itemsize == now.itemsize:
        return now
    step = now - before.view(now.dtype)
    even = np.array_equal(step, before.view(now.dtype) - earlier.view(now.dtype))
    return now + step * np.array(rounds).astype(now.dtype) if even else now
