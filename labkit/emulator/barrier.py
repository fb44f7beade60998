"""bar.sync: threads of a block wait for each other.

Threads that have exited no longer count.  What is reported: a barrier that only part of a warp can reach,
because the rest is waiting elsewhere or went past it, and a block that waits for ever.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from labkit.emulator import findings
from labkit.emulator.meter import by_warp
from labkit.emulator.program import Program
from labkit.emulator.ptx import Instr, Reg
from labkit.emulator.types import Array, reader

if TYPE_CHECKING:
    from labkit.emulator.machine import Run


Reduction = Callable[[Array, Array], Array]
REDUCTIONS: dict[str, Reduction] = {
    "popc": lambda votes, here: (votes & here).sum(axis=1, keepdims=True).astype(np.uint32),
    "and": lambda votes, here: np.asarray((votes | ~here).all(axis=1, keepdims=True)),
    "or": lambda votes, here: np.asarray((votes & here).any(axis=1, keepdims=True)),
}


def barrier(i: Instr, p: Program, pc: int) -> Callable[[Run, int, Array | None], None]:
    """The control function of one barrier instruction."""
    reduces = "red" in i.mods
    args = i.args[1:-1] if reduces else i.args
    number = reader(args[0], "u32", p)
    count = reader(args[1], "u32", p) if len(args) > 1 else None
    vote = reader(i.args[-1], "pred", p) if reduces else None

    def arrive(run: Run, at: int, mask: Array | None) -> None:
        w = run.wave
        if mask is None and count is None and vote is None and not run.waiting:
            w.passed_barrier(None)
            return run.go(at + 1, None)
        name = int(number(w).flat[0])
        on = w.active() if mask is None else mask
        if vote is not None:
            run.votes = np.where(on, vote(w), run.votes)
        run.went_on = run.went_on & ~on
        run.waiting.setdefault(name, []).append((at + 1, at, on, "arrive" in i.mods))
        release(run, name, int(count(w).flat[0]) if count else None)

    return arrive


def answer(run: Run, at: int, mask: Array, arrived: Array) -> None:
    """__syncthreads_count, _and, _or: every thread learns what all of its block voted."""
    w, i = run.wave, run.machine.program.code[at]
    name = next((m for m in i.mods if m in REDUCTIONS), None)
    if "red" in i.mods and name and isinstance(i.args[0], Reg):
        w.mask, w.merge = mask, -1
        votes = np.broadcast_to(run.votes, arrived.shape)
        w.put(run.machine.program.slot(i.args[0]), REDUCTIONS[name](votes, arrived))


def release(run: Run, name: int, count: int | None = None) -> None:
    """Let the blocks go on whose threads have all arrived."""
    w = run.wave
    entries = run.waiting[name]
    shape = (w.B, w.T)
    arrived = np.zeros(shape, np.bool_)
    for _, _, mask, _ in entries:
        arrived |= mask
    alive = np.broadcast_to(np.True_ if run.alive is None else run.alive, shape)
    full = arrived.sum(axis=1) >= count if count else ((arrived == alive) | ~alive).all(axis=1) & arrived.any(axis=1)
    if not full.any():
        return
    row = full[:, None]
    if w.strict and count is None:
        together(run, entries, row)
    w.passed_barrier(None if full.all() else row)
    rest = []
    for resume, at, mask, only_arrive in entries:
        on, off = mask & row, mask & ~row
        if on.any():
            answer(run, at, on, arrived)
            run.go(resume, None if run.alive is None and on.all() and on.shape == shape else on)
        if off.any():
            rest.append((resume, at, off, only_arrive))
    if rest:
        run.waiting[name] = rest
    else:
        del run.waiting[name]


def together(run: Run, entries: list[tuple[int, int, Array, bool]], row: Array) -> None:
    """The lanes of a warp must meet at one and the same barrier instruction."""
    w = run.wave
    seen: dict[int, Array] = {}
    for _, at, mask, _ in entries:
        here = by_warp(np.broadcast_to(mask & row, (w.B, w.T)), False).any(axis=2)
        for other, there in seen.items():
            if other != at and (both := here & there).any():
                block, warp = (int(x) for x in np.argwhere(both)[0])
                column = 32 * warp + int(np.broadcast_to(mask, (w.B, w.T))[block, 32 * warp : 32 * warp + 32].argmax())
                why = f"of the same warp does not reach; it waits at another one ({w.program.where(other)})"
                raise findings.divergent_barrier(w, at, block, column, why)
        seen[at] = seen.get(at, np.zeros_like(here)) | here


def left(run: Run, gone: Array, pc: int) -> None:
    """Some threads exited: the others may have all arrived now.

    A thread that merely left early is no fault; one that went on past the barrier, and wrote something, is.
    """
    w = run.wave
    past = np.broadcast_to(gone & run.went_on, (w.B, w.T))
    if w.strict and past.any():
        for entries in run.waiting.values():
            for _, at, mask, _ in entries:
                blocks = past.any(axis=1) & np.broadcast_to(mask, past.shape).any(axis=1)
                if blocks.any():
                    block = int(blocks.argmax())
                    column = int(np.broadcast_to(mask, past.shape)[block].argmax())
                    why = f"of the same block, number {int(past[block].argmax())}, went past"
                    raise findings.divergent_barrier(w, at, block, column, why)
    for name in list(run.waiting):
        release(run, name)
