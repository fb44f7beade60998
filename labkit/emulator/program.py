"""From parsed functions to one flat program: calls inlined, names resolved, liveness known.

A GPU has a call stack; this machine does without: every call is replaced by the callee's body with
registers of its own, so that a program is one list of instructions and a thread's whole control state is
one number, its program counter.  Recursion is refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from labkit.emulator.ptx import (
    Addr,
    Function,
    Instr,
    Label,
    Module,
    Not,
    Operand,
    Pair,
    Reg,
    Sym,
    Variable,
    Vec,
)
from labkit.errors import LabError

BUILTIN = {"vprintf", "__assertfail"}
READ_FIRST = {
    "st",
    "red",
    "prefetch",
    "bra",
    "bar",
    "barrier",
    "ret",
    "exit",
    "trap",
    "membar",
    "fence",
    "cp",
    "vprintf",
    "__assertfail",
    "brx",
    "stmatrix",
    "wmma.store",
    "nanosleep",
    "brkpt",
    "discard",
    "applypriority",
    "griddepcontrol",
    "setmaxnreg",
    "pmevent",
    "prefetchu",
}


@dataclass
class Program:
    """A kernel as the machine runs it.

    code: instructions in text order.  targets: where each label is.  registers: name -> (slot, type).
    live: for each instruction, the registers (bits) some later instruction may still read.
    """

    name: str
    source: str
    code: list[Instr] = field(default_factory=list)
    targets: dict[str, int] = field(default_factory=dict)
    tables: dict[str, list[str]] = field(default_factory=dict)
    registers: dict[str, tuple[int, str]] = field(default_factory=dict)
    variables: dict[str, Variable] = field(default_factory=dict)
    params: list[Variable] = field(default_factory=list)
    live: list[int] = field(default_factory=list)
    block_limit: int = 0
    waits: list[int] = field(default_factory=list)
    flushed: frozenset[int] = frozenset()
    flushed_with_shared: frozenset[int] = frozenset()

    def slot(self, reg: Reg) -> int:
        return self.registers.setdefault(reg.name, (len(self.registers), reg.type))[0]

    def line_text(self, line: int) -> str:
        lines = self.source.splitlines()
        return lines[line - 1].strip() if 0 < line <= len(lines) else ""

    def where(self, pc: int) -> str:
        """`line 12: b[i] = a[i];` for an instruction."""
        line = self.code[min(pc, len(self.code) - 1)].line
        text = self.line_text(line)
        return f"line {line}: {text}" if text else f"line {line}"


def build(module: Module, name: str, source: str) -> Program:
    """The flat program of kernel `name`."""
    entry = module.functions[name]
    program = Program(name, source, params=entry.params, block_limit=entry.block_limit)
    program.variables = dict(module.variables)
    flat = list(_Inliner(module, program).body(entry, "", {}, ()))
    for item in flat:
        if isinstance(item, Label):
            program.targets[item.name] = len(program.code)
        else:
            program.code.append(item)
    program.code.append(Instr("exit", (), (), None, program.code[-1].line if program.code else 0))
    for instr in program.code:
        for reg in registers(instr):
            program.slot(reg)
    program.live = liveness(program)
    return program


class _Inliner:
    """Writes a function's body with names of its own, and its callees' bodies in place of calls."""

    def __init__(self, module: Module, program: Program) -> None:
        self.module, self.program, self.copies = module, program, 0

    def body(self, f: Function, prefix: str, names: dict[str, str], stack: tuple[str, ...]) -> Iterator[Instr | Label]:
        names = dict(names)
        for v in f.variables:
            if v.space in ("local", "param"):
                names[v.name] = prefix + v.name
            self.program.variables[names.get(v.name, v.name)] = replace(v, name=names.get(v.name, v.name))
        for label, targets in f.targets.items():
            self.program.tables[prefix + label] = [prefix + t for t in targets]
        labels = {i.name for i in f.body if isinstance(i, Label)} | set(f.targets)
        rename = _Rename(prefix, names, labels)
        for item in f.body:
            if isinstance(item, Label):
                yield Label(prefix + item.name)
            elif item.op == "call":
                yield from self.call(rename.instr(item), (*stack, f.name))
            elif item.op == "ret" and prefix:
                yield Instr("bra", ("uni",) if not item.guard else (), (Sym(prefix + "ret"),),
                            rename.instr(item).guard, item.line)  # fmt: skip
            else:
                yield rename.instr(item)
        if prefix:
            yield Label(prefix + "ret")

    def call(self, call: Instr, stack: tuple[str, ...]) -> Iterator[Instr | Label]:
        target, returns, args = call.args
        name = target.name if isinstance(target, Sym) else ""
        assert isinstance(returns, Vec) and isinstance(args, Vec)
        if name in BUILTIN:
            yield replace(call, op=name, mods=(), args=args.items)
            return
        f = self.module.functions.get(name)
        if f is None or not f.body or name in stack:
            raise self.refuse(call, name, name in stack)
        self.copies += 1
        prefix = f"{name}#{self.copies}."
        formal = [*f.params, *f.returns]
        actual = [a.name for a in (*args.items, *returns.items) if isinstance(a, Sym)]
        end = f"{prefix}skip"
        if call.guard:
            yield Instr("bra", (), (Sym(end),), (call.guard[0], not call.guard[1]), call.line)
        yield from self.body(f, prefix, {v.name: a for v, a in zip(formal, actual, strict=True)}, stack)
        yield Label(end)

    def refuse(self, call: Instr, name: str, recursive: bool) -> LabError:
        why = (
            f"`{name}` calls itself"
            if recursive
            else f"`{name or 'a function pointer'}` has no body the emulator can see"
        )
        text = self.program.line_text(call.line)
        return LabError(
            f"run `{self.program.name}` in the emulator",
            f"line {call.line}: {text} — {why}",
            "write the recursion as a loop" if recursive else "call a __device__ function of this source",
        )


class _Rename:
    """Gives every register, label and local variable of an inlined body a name of its own."""

    def __init__(self, prefix: str, names: dict[str, str], labels: set[str]) -> None:
        self.prefix, self.names, self.labels = prefix, names, labels

    def instr(self, i: Instr) -> Instr:
        guard = (self.reg(i.guard[0]), i.guard[1]) if i.guard else None
        return replace(i, args=tuple(self.operand(a) for a in i.args), guard=guard)

    def reg(self, r: Reg) -> Reg:
        return r if r.type == "special" or not self.prefix else Reg(self.prefix + r.name, r.type)

    def operand(self, a: Operand) -> Operand:
        if isinstance(a, Reg):
            return self.reg(a)
        if isinstance(a, Sym):
            return Sym(self.prefix + a.name if a.name in self.labels else self.names.get(a.name, a.name))
        if isinstance(a, Addr):
            return Addr(self.operand(a.base), a.offset, tuple(self.operand(e) for e in a.extra))
        if isinstance(a, Vec):
            return Vec(tuple(self.operand(e) for e in a.items))
        if isinstance(a, Pair):
            return Pair(self.operand(a.first), self.operand(a.second))
        return Not(self.operand(a.of)) if isinstance(a, Not) else a


def _regs(a: Operand) -> Iterator[Reg]:
    if isinstance(a, Reg):
        if a.type != "special" and a.name != "_":
            yield a
    elif isinstance(a, Addr):
        yield from _regs(a.base)
        for e in a.extra:
            yield from _regs(e)
    elif isinstance(a, Vec):
        for e in a.items:
            yield from _regs(e)
    elif isinstance(a, Pair):
        yield from _regs(a.first)
        yield from _regs(a.second)
    elif isinstance(a, Not):
        yield from _regs(a.of)


def param_cell(a: Operand, program: Program) -> Reg | None:
    """The register that stands for a slot of a call's parameter: `[param0+4]`."""
    if isinstance(a, Addr) and isinstance(a.base, Sym):
        v = program.variables.get(a.base.name)
        if v is not None and v.space == "param":
            return Reg(f"{a.base.name}+{a.offset}", "b64")
    return None


def registers(i: Instr) -> Iterator[Reg]:
    """All registers an instruction names."""
    for a in i.args:
        yield from _regs(a)
    if i.guard:
        yield i.guard[0]


def reads_writes(i: Instr, p: Program) -> tuple[set[int], set[int]]:
    """The slots an instruction reads and writes."""
    reads: set[int] = set()
    writes: set[int] = set()
    for n, a in enumerate(i.args):
        cell = param_cell(a, p) if i.op in ("ld", "st") else None
        if cell is not None:
            (writes if i.op == "st" else reads).add(p.slot(cell))
            continue
        regs = [p.slot(r) for r in _regs(a)]
        written = n == 0 and not isinstance(a, Addr) and i.op not in READ_FIRST
        written = written and not (i.op == "wmma" and "store" in i.mods)
        written = written or (n == 0 and i.op in ("bar", "barrier") and "red" in i.mods)
        (writes if written else reads).update(regs)
    if i.guard:
        reads.add(p.slot(i.guard[0]))
    if i.op in ("vprintf", "__assertfail"):
        names = tuple(f"{a.name}+" for a in i.args if isinstance(a, Sym))
        reads.update(s for r, (s, _) in p.registers.items() if r.startswith(names))
    if i.op in ("addc", "subc", "madc"):
        reads.add(p.slot(CARRY))
    if "cc" in i.mods:
        writes.add(p.slot(CARRY))
    return reads, writes


CARRY = Reg("%carry", "pred")


def successors(p: Program, pc: int) -> list[int]:
    """The program counters that may follow instruction `pc`."""
    i = p.code[pc]
    following = [pc + 1] if pc + 1 < len(p.code) else []
    if i.op == "bra":
        target = _target(p, i.args[0])
        return [target, *following] if i.guard else [target]
    if i.op == "brx":
        return [p.targets[t] for t in p.tables[_name(i.args[1])]]
    if i.op in ("ret", "exit", "trap"):
        return following if i.guard else []
    return following


def _name(a: Operand) -> str:
    assert isinstance(a, Sym)
    return a.name


def _target(p: Program, a: Operand) -> int:
    return p.targets[_name(a)]


def liveness(p: Program) -> list[int]:
    """For each instruction, a bit set of registers that are read later before they are overwritten.

    The usual backward data-flow equation live_in = reads | (live_out - writes), a predicated write keeping
    the old value alive; repeated until nothing changes.
    """
    size = len(p.code)
    use, kill, succ = [0] * size, [0] * size, [successors(p, pc) for pc in range(size)]
    for pc, i in enumerate(p.code):
        reads, writes = reads_writes(i, p)
        use[pc] = sum(1 << r for r in reads)
        kill[pc] = ~(0 if i.guard else sum(1 << w for w in writes))
        if i.guard:
            use[pc] |= sum(1 << w for w in writes)
    live, changed = [0] * size, True
    while changed:
        changed = False
        for pc in range(size - 1, -1, -1):
            out = 0
            for s in succ[pc]:
                out |= live[s]
            new = use[pc] | (out & kill[pc])
            if new != live[pc]:
                live[pc], changed = new, True
    return live
