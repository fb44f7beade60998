"""bar.sync: threads of a block wait for each other.

Threads that have exited no longer count.  What is reported: a barrier that only part of a warp can reach, because
the rest is waiting elsewhere or went past it, and a block that waits for ever.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from labkit.emulator import findings
from labkit.emulator.program import Program
from labkit.emulator.ptx import Instr
from labkit.emulator.types import Array, reader

if TYPE_CHECKING:
    from labkit.emulator.machine import Run


def barrier(i: Instr, p: Program, pc: int) -> Callable[[Run, int, Array | None], None]:
    """The control function of one barrier instruction."""
    args = i.args[1:] if "red" in i.mods else i.args
    number = reader(args[0], "u32", p)
    count = reader(args[1], "u32", p) if len(args) > 1 and "red" not in i.mods else None

    def arrive(run: Run, at: int, mask: Array | None) -> None:
        w = run.wave
        if mask is None and count is None and not run.waiting:
            w.passed_barrier(None)
            return run.go(at + 1, None)
        name = int(number(w).flat[0])
        on = w.active() if mask is None else mask
        run.waiting.setdefault(name, []).append((at + 1, at, on, "arrive" in i.mods))
        release(run, name, int(count(w).flat[0]) if count else None)

    return arrive


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
    w.passed_barrier(None if full.all() else row)
    rest = []
    for resume, at, mask, only_arrive in entries:
        on, off = mask & row, mask & ~row
        if on.any():
            run.go(resume, None if run.alive is None and on.all() and on.shape == shape else on)
        if off.any():
            rest.append((resume, at, off, only_arrive))
    if rest:
        run.waiting[name] = rest
    else:
        del run.waiting[name]


def left(run: Run, gone: Array, pc: int) -> None:
    """Some threads exited: the others may have all arrived now."""
    for name in list(run.waiting):
        release(run, name)


def stuck(run: Run) -> None:
    """No group can run, some wait: say who waits for whom."""
    raise findings.deadlock(run)
