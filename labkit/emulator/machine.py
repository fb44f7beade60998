"""The SIMT machine: all threads of a wave in lockstep, split where they branch apart.

Threads that stand at the same instruction form a *group*, a program counter with a mask.  The group with
the lowest program counter runs next, until it meets another group (they become one again), branches (it may
split in two), reaches a barrier (it waits) or exits.  That is how a GPU treats divergence: both sides of an
`if` are executed, one after the other, by part of the lanes.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from labkit.emulator import findings
from labkit.emulator.loops import Loop, Loops, Skipped
from labkit.emulator.meter import by_warp
from labkit.emulator.opcodes import controls, steps
from labkit.emulator.program import Program, reads_writes
from labkit.emulator.ptx import Instr, Sym
from labkit.emulator.types import Array, Read, Step, reader
from labkit.emulator.views import View, view_of
from labkit.emulator.wave import Layout, Unmet, Wave

CONTROL = {"bra", "brx", "bar", "barrier", "ret", "exit", "trap"}
PATIENCE = 10.0
NOTHING: Array = np.zeros((1, 1), np.bool_)


class Machine:
    """A program made ready to run: one step for each instruction."""

    def __init__(self, p: Program) -> None:
        self.program = p
        self.layout = Layout(p)
        self.control: dict[int, Callable[[Run, int, Array | None], None]] = {}
        for pc, i in enumerate(p.code):
            if controls(i, CONTROL):
                self.control[pc] = getattr(self, "_" + ("exit" if i.op in ("ret", "trap") else i.op))(i, pc)
        self.steps: list[Step] = [guarded(s, i, p) for s, i in zip(steps(p, CONTROL), p.code, strict=True)]
        self.last_use = last_uses(p)
        self.stop = self._next(lambda pc, i: pc in self.control)
        self.loops: dict[int, Loop | None] = {}
        self.writes = self._next(lambda pc, i: i.op in ("st", "atom", "red"))

    def _next(self, test: Callable[[int, Instr], bool]) -> list[int]:
        """For each instruction, the first one from there on that passes the test."""
        found = [len(self.program.code)] * (len(self.program.code) + 1)
        for pc in range(len(self.program.code) - 1, -1, -1):
            found[pc] = pc if test(pc, self.program.code[pc]) else found[pc + 1]
        return found

    def _guard(self, i: Instr) -> Read | None:
        if i.guard is None:
            return None
        read, negative = reader(i.guard[0], "pred", self.program), i.guard[1]
        return (lambda w: ~read(w)) if negative else read

    def _bra(self, i: Instr, pc: int) -> Callable[[Run, int, Array | None], None]:
        assert isinstance(i.args[0], Sym)
        target, guard = self.program.targets[i.args[0].name], self._guard(i)
        if guard is None:

            def jump(run: Run, at: int, mask: Array | None) -> None:
                if target <= at and run.loops is not None:
                    run.loops.again(at, target)
                run.go(target, mask)

            return jump

        def branch(run: Run, at: int, mask: Array | None) -> None:
            taken = guard(run.wave)
            yes = taken if mask is None else mask & taken
            if not yes.any():
                if run.loops is not None:
                    run.loops.left(at)
                return run.go(at + 1, mask)
            no = ~taken if mask is None else mask & ~taken
            if not no.any():
                if target <= at and run.loops is not None:
                    run.loops.again(at, target)
                return run.go(target, mask)
            if run.loops is not None:
                run.loops.left(at)
            run.diverge(at, yes, no)
            run.go(target, yes)
            run.go(at + 1, no)

        return branch

    def _brx(self, i: Instr, pc: int) -> Callable[[Run, int, Array | None], None]:
        assert isinstance(i.args[1], Sym)
        targets = [self.program.targets[t] for t in self.program.tables[i.args[1].name]]
        read, guard = reader(i.args[0], "u32", self.program), self._guard(i)
        assert guard is None

        def jump(run: Run, at: int, mask: Array | None) -> None:
            index = read(run.wave)
            picked = [(t, (index == n) if mask is None else mask & (index == n)) for n, t in enumerate(targets)]
            picked = [(t, m) for t, m in picked if m.any()]
            if len(picked) == 1:
                return run.go(picked[0][0], mask)
            run.diverge(at, picked[0][1], np.logical_or.reduce(np.broadcast_arrays(*(m for _, m in picked[1:]))))
            for t, m in picked:
                run.go(t, m)

        return jump

    def _exit(self, i: Instr, pc: int) -> Callable[[Run, int, Array | None], None]:
        guard = self._guard(i)

        def leave(run: Run, at: int, mask: Array | None) -> None:
            if i.op == "trap":
                raise findings.trapped(run.wave, at)
            if guard is None:
                return run.exit(mask, at)
            taken = guard(run.wave)
            yes = taken if mask is None else mask & taken
            no = ~taken if mask is None else mask & ~taken
            if yes.any():
                run.exit(None if not no.any() and mask is None else yes, at)
            if no.any():
                run.go(at + 1, mask if not yes.any() else no)

        return leave

    def _bar(self, i: Instr, pc: int) -> Callable[[Run, int, Array | None], None]:
        from labkit.emulator.barrier import barrier

        return barrier(i, self.program, pc)

    _barrier = _bar

    def run(self, wave: Wave, patience: float = PATIENCE, most: int | None = None,
            tick: Callable[[], None] | None = None, skipped: Skipped | None = None) -> None:  # fmt: skip
        """Run a wave until all of its threads have exited; with `skipped`, long loops in part (see loops.py)."""
        run = Run(self, wave, patience, most, tick)
        run.loops = None if skipped is None else Loops(run, skipped)
        run.loop()


def guarded(step: Step, i: Instr, p: Program) -> Step:
    """`@p op`: only the threads whose predicate holds take part, and only they are written."""
    if i.guard is None or controls(i, CONTROL):
        return step
    read, negative = reader(i.guard[0], "pred", p), i.guard[1]

    def masked(w: Wave) -> None:
        on = ~read(w) if negative else read(w)
        mask, merge = w.mask, w.merge
        w.mask, w.merge = on if mask is None else mask & on, -1
        try:
            step(w)
        finally:
            w.mask, w.merge = mask, merge

    return masked


def last_uses(p: Program) -> list[tuple[int, ...]]:
    """For each instruction, the registers that nothing reads after it.

    Their arrays are let go at once, so that the next result is written where the cache still is.
    """
    used = (reads | writes for reads, writes in (reads_writes(i, p) for i in p.code))
    after = [*p.live[1:], 0]
    return [tuple(s for s in slots if not live >> s & 1) for slots, live in zip(used, after, strict=True)]


class Run:
    """One wave under way: the groups, the threads that wait at barriers, and those that are still alive."""

    def __init__(self, machine: Machine, wave: Wave, patience: float, most: int | None,
                 tick: Callable[[], None] | None) -> None:  # fmt: skip
        self.machine, self.wave, self.patience, self.tick = machine, wave, patience, tick
        self.most, self.limit = most, 1 << 30
        self.started = time.monotonic()
        self.groups: dict[int, Array | None] = {0: None}
        self.waiting: dict[int, list[tuple[int, int, Array, bool]]] = {}
        self.held: dict[int, Array] = {}
        self.alive: Array | None = None
        self.loops: Loops | None = None
        self.executed, self.progress, self.retried, self.streak = 0, 0, -1, 0
        self.went_on: Array = np.zeros((1, 1), np.bool_)
        self.votes: Array = np.zeros((1, 1), np.bool_)

    def loop(self) -> None:
        turn = 0
        while True:
            while self.groups:
                self.turn(self.pick())
                turn += 1
                if turn & 63 == 0:
                    self.check(self.wave.pc)
            if not self.held:
                break
            self.retry()
        if self.waiting:
            raise findings.deadlock(self)

    def pick(self) -> int:
        """The group to run: the lowest, but for a lock's sake now and then the highest.

        Threads that spin for a lock stand below the one that holds it; it must run too.
        """
        self.streak += 1
        if len(self.groups) > 1 and self.streak & 1023 > 768:
            return max(self.groups)
        return min(self.groups)

    def turn(self, pc: int) -> None:
        """Run one group until it meets another one, or to its next branch, barrier or exit."""
        wave, groups = self.wave, self.groups
        mask = groups.pop(pc)
        limit = min((g for g in groups if g > pc), default=self.limit)
        end = min(self.machine.stop[pc], limit)
        wave.mask = mask
        wave.merge = 0 if mask is None else self.others()
        threads, warps = wave.thread_count(mask), wave.warp_count(mask)
        if mask is not None and 4 * warps <= wave.B * wave.W and self.may_narrow(pc):
            return self.through_view(pc, mask, limit)
        self.executed += (end - pc + 1) * threads
        at = pc
        try:
            for at, step in enumerate(self.machine.steps[pc:end], pc):
                wave.pc = at
                step(wave)
                if mask is None:
                    for slot in self.machine.last_use[at]:
                        wave.regs[slot] = NOTHING
        except Unmet as unmet:
            self.ran(pc, at, threads, warps)
            return self.hold(at, mask, unmet.here)
        self.progress += 1
        wave.pc = end
        if self.machine.writes[pc] < end:
            self.wrote(mask)
        if end == limit or self.leaves(end):
            self.ran(pc, end, threads, warps)
            return self.go(end, mask)
        self.ran(pc, end + 1, threads, warps)
        self.machine.control[end](self, end, mask)

    def wrote(self, mask: Array | None) -> None:
        """Threads of `mask` wrote memory; remember it while others wait at a barrier."""
        if self.waiting:
            self.went_on = (self.wave.active() if mask is None else mask) | self.went_on

    def leaves(self, pc: int) -> bool:
        """Whether the control instruction at `pc` is another's to execute."""
        return False

    def may_narrow(self, pc: int) -> bool:
        return self.wave.B * self.wave.W >= 32 and self.machine.stop[pc] > pc

    def through_view(self, pc: int, mask: Array, limit: int) -> None:
        """Run a group of few warps as a small wave, until all of it meets the others or a barrier."""
        inner = Inner(self, view_of(self.wave, mask), pc, limit)
        inner.loop()
        inner.finish(self)

    def ran(self, start: int, end: int, threads: int, warps: int) -> None:
        if self.wave.meter is not None:
            self.wave.meter.ran(start, end, threads, warps)

    def hold(self, pc: int, mask: Array | None, here: Array) -> None:
        """A warp instruction lacks lanes: complete warps go on, the others wait for theirs."""
        rest = (np.True_ if mask is None else mask) & ~here
        waited = self.held.pop(pc, None)
        if waited is not None:
            self.go(pc, waited | rest)
        elif rest.any():
            self.held[pc] = rest
        if here.any():
            self.go(pc, here)

    def retry(self) -> None:
        """Nothing else can run: lanes that exited meanwhile no longer count; the rest never come."""
        if self.retried == self.progress:
            pc, mask = next(iter(self.held.items()))
            row, column = np.argwhere(np.broadcast_to(mask, (self.wave.B, self.wave.T)))[0]
            if self.wave.strict:
                raise findings.unmet(self.wave, pc, int(row), int(column))
            self.wave.forced = True
        self.retried = self.progress
        for pc, mask in self.held.items():
            self.go(pc, mask)
        self.held.clear()

    def others(self) -> int:
        """Registers that threads outside the running group may still read."""
        live, bits = self.machine.program.live, 0
        for pc in self.groups:
            bits |= live[pc]
        for pc in self.held:
            bits |= live[pc]
        for entries in self.waiting.values():
            for resume, _, _, _ in entries:
                bits |= live[resume]
        return bits

    def join(self, a: Array | None, b: Array | None) -> Array | None:
        if a is None or b is None:
            return None
        both = a | b
        return None if self.alive is None and both.all() else both

    def go(self, pc: int, mask: Array | None) -> None:
        """Threads of `mask` continue at `pc`."""
        self.groups[pc] = self.join(self.groups[pc], mask) if pc in self.groups else mask

    def diverge(self, pc: int, yes: Array, no: Array) -> None:
        """Count the warps whose lanes part here."""
        w = self.wave
        if w.meter is None or yes.shape[1] == 1:
            return
        both = by_warp(yes, False).any(axis=2) & by_warp(no, False).any(axis=2)
        w.meter.divergent[pc] += int(np.count_nonzero(both)) * (w.B // both.shape[0])

    def exit(self, mask: Array | None, pc: int) -> None:
        self.started = time.monotonic()
        self.streak = 0
        if mask is None:
            return
        alive = np.True_ if self.alive is None else self.alive
        self.alive = self.wave.alive = alive & ~mask
        if self.waiting:
            from labkit.emulator.barrier import left

            left(self, mask, pc)

    def check(self, pc: int) -> None:
        """Stop a kernel that makes no headway; let the caller draw a progress bar."""
        if self.tick is not None:
            self.tick()
        over = self.most is not None and self.executed > self.most
        if over or time.monotonic() - self.started > self.patience:
            raise findings.endless(self.wave, pc, self.patience, self.executed)


class Inner(Run):
    """A group of few warps on its own: it branches here; barriers and exits are left to the outer run."""

    def __init__(self, outer: Run, view: View, pc: int, limit: int) -> None:
        super().__init__(outer.machine, view, outer.patience, outer.most, outer.tick)
        self.view, self.limit, self.started, self.executed = view, limit, outer.started, outer.executed
        self.alone = not (outer.groups or outer.held)
        self.groups = {pc: None if view.entry.all() else view.entry}
        self.outgoing: dict[int, Array | None] = {}
        self.missing: dict[int, Array] = {}
        self.has_written = False

    def loop(self) -> None:
        turn = 0
        while self.groups and (self.alone or turn < 512):
            self.turn(min(self.groups))
            turn += 1
            if turn & 63 == 0:
                self.check(self.wave.pc)
        self.streak = turn
        for pc, mask in self.groups.items():
            self.leave(pc, mask)

    def go(self, pc: int, mask: Array | None) -> None:
        if pc >= self.limit or self.leaves(pc):
            self.leave(pc, mask)
        else:
            super().go(pc, mask)

    def leave(self, pc: int, mask: Array | None) -> None:
        self.outgoing[pc] = self.join(self.outgoing[pc], mask) if pc in self.outgoing else mask

    def leaves(self, pc: int) -> bool:
        return pc in self.machine.control and self.machine.program.code[pc].op not in ("bra", "brx")

    def may_narrow(self, pc: int) -> bool:
        return False

    def wrote(self, mask: Array | None) -> None:
        self.has_written = True

    def hold(self, pc: int, mask: Array | None, here: Array) -> None:
        rest = (self.view.entry if mask is None else mask) & ~here
        self.missing[pc] = self.missing[pc] | rest if pc in self.missing else rest
        if here.any():
            self.go(pc, here)

    def others(self) -> int:
        live, bits = self.machine.program.live, super().others()
        for pc in (*self.outgoing, *self.missing):
            bits |= live[pc]
        return bits

    def finish(self, outer: Run) -> None:
        """Hand registers and threads back."""
        live, bits = self.machine.program.live, 0
        for pc in (*self.outgoing, *self.missing):
            bits |= live[pc]
        self.view.give_back(bits)
        outer.executed, outer.streak = self.executed, outer.streak + self.streak
        outer.progress += self.progress
        if self.has_written:
            outer.wrote(self.view.expand(None))
        for pc, mask in self.outgoing.items():
            outer.go(pc, self.view.expand(mask))
        for pc, mask in self.missing.items():
            outer.hold(pc, self.view.expand(mask), np.zeros((1, 1), np.bool_))
