"""printf and assert from inside a kernel: the arguments lie in the thread's local memory."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from labkit.emulator import findings
from labkit.emulator.access import load_generic
from labkit.emulator.lanes import Lanes
from labkit.emulator.program import Program
from labkit.emulator.ptx import Instr, Reg, Sym
from labkit.emulator.types import Step, reader
from labkit.emulator.wave import Wave

CONVERSION = re.compile(r"%[-+ #0]*\d*(?:\.\d+)?(hh|h|ll|l|z|j|t)?([diouxXeEfFgGaAcsp%])")


def _argument(i: Instr, n: int, kind: str, p: Program) -> Any:
    name = i.args[n]
    assert isinstance(name, Sym)
    return reader(Reg(f"{name.name}+0", "b64"), kind, p)


def vprintf(i: Instr, p: Program, pc: int) -> Step:
    """Prints at once, thread after thread."""
    text, values = _argument(i, 0, "s64", p), _argument(i, 1, "s64", p)

    def step(w: Wave) -> None:
        formats, places = text(w), values(w)
        lanes = Lanes(w, formats, (w.B, w.T))
        layout: dict[int, tuple[str, list[tuple[int, str]]]] = {}
        for address in np.unique(lanes.at).tolist():
            form = string(w, address)
            layout[address] = (re.sub(CONVERSION, _plain, form), _slots(form))
        fetched = {a: [_fetch(w, pc, places + at, kind) for at, kind in slots] for a, (_, slots) in layout.items()}
        for row, column, address in zip(*np.nonzero(_where(w)), lanes.at.ravel().tolist(), strict=True):
            given = [
                _value(w, v, row, column, kind)
                for v, (_, kind) in zip(fetched[address], layout[address][1], strict=True)
            ]
            sys.stdout.write(layout[address][0] % tuple(given))

    return step


def _where(w: Wave) -> Any:
    return w.active()


def _plain(m: re.Match[str]) -> str:
    """C's conversion as Python's: no length, %p as hexadecimal."""
    whole, length = m[0], m[1] or ""
    kind = {"p": "s", "i": "d", "F": "f", "u": "d", "a": "s", "A": "s"}.get(m[2], m[2])
    return whole[: len(whole) - 1 - len(length)] + kind


def _slots(form: str) -> list[tuple[int, str]]:
    """Where each value lies in the argument block, and how it is read."""
    out, at = [], 0
    for m in CONVERSION.finditer(form):
        if m[2] == "%":
            continue
        wide = m[2] in "eEfFgGaAsp" or m[1] in ("l", "ll", "z", "j", "t")
        size = 8 if wide else 4
        at = -(-at // size) * size
        kind = (
            "f8"
            if m[2] in "eEfFgGaA"
            else "p"
            if m[2] == "p"
            else "s"
            if m[2] == "s"
            else f"{'u' if m[2] in 'ouxX' else 'i'}{size}"
        )
        out.append((at, kind if m[2] != "c" else "c"))
        at += size
    return out


def _fetch(w: Wave, pc: int, address: Any, kind: str) -> Any:
    dtype = np.dtype({"p": "u8", "s": "i8", "c": "i4"}.get(kind, kind))
    meter, w.meter = w.meter, None
    try:
        return load_generic(w, pc, address, dtype, 1)[0]
    finally:
        w.meter = meter


def _value(w: Wave, values: Any, row: int, column: int, kind: str) -> Any:
    v = np.broadcast_to(values, (w.B, w.T))[row, column].item()
    as_text: dict[str, Callable[[int], str]] = {
        "s": lambda x: string(w, x),
        "p": hex,
        "c": lambda x: chr(x & 255),
    }
    return as_text[kind](v) if kind in as_text else v


def string(w: Wave, address: int) -> str:
    """The zero-ended text at a global address."""
    s = w.memory.find(address)
    if s is None:
        return "(null)"
    data = s.data[address - s.base :].tobytes()
    return data.split(b"\0")[0].decode(errors="replace")


def assertfail(i: Instr, p: Program, pc: int) -> Step:
    """A failed assert ends the launch and says where."""
    message = _argument(i, 0, "s64", p)

    def step(w: Wave) -> None:
        on = w.active()
        if not on.any():
            return
        row, column = np.argwhere(on)[0]
        text = string(w, int(np.broadcast_to(message(w), (w.B, w.T))[row, column]))
        raise findings.finding(
            w, pc, int(row), int(column), f"fails assert({text})", "see why the condition does not hold"
        )

    return step
