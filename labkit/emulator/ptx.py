"""PTX text -> a typed program with source lines.

PTX is the assembly language that the CUDA compiler writes for an imaginary GPU with as many registers as it
likes.  A module is a list of variables and functions; a function is a list of statements ended by `;`.
Here the text becomes plain tuples and dataclasses; names are resolved later (`program.py`), nothing is
executed.

Grammar: PTX ISA, "Syntax" and "State Spaces, Types, and Variables".
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

WIDTH = {
    "pred": 1,
    "b8": 1,
    "u8": 1,
    "s8": 1,
    "b16": 2,
    "u16": 2,
    "s16": 2,
    "f16": 2,
    "bf16": 2,
    "b32": 4,
    "u32": 4,
    "s32": 4,
    "f32": 4,
    "f16x2": 4,
    "bf16x2": 4,
    "tf32": 4,
    "b64": 8,
    "u64": 8,
    "s64": 8,
    "f64": 8,
    "b128": 16,
    "e4m3": 1,
    "e5m2": 1,
    "e4m3x2": 2,
    "e5m2x2": 2,
    "f32x2": 8,
}


@dataclass(frozen=True)
class Reg:
    """A virtual register: one value per thread."""

    name: str
    type: str


@dataclass(frozen=True)
class Imm:
    """A literal; floats keep their own bits, `kind` is "int", "f32" or "f64"."""

    value: int | float
    kind: str = "int"


@dataclass(frozen=True)
class Sym:
    """A variable, label or function by name."""

    name: str


@dataclass(frozen=True)
class Addr:
    """`[base + offset]`."""

    base: Operand
    offset: int = 0
    extra: tuple[Operand, ...] = ()


@dataclass(frozen=True)
class Vec:
    """`{a, b, c, d}`."""

    items: tuple[Operand, ...]


@dataclass(frozen=True)
class Pair:
    """`d|p`: two destinations of one instruction."""

    first: Operand
    second: Operand


@dataclass(frozen=True)
class Not:
    """`!p`: a predicate read upside down."""

    of: Operand


Operand = Reg | Imm | Sym | Addr | Vec | Pair | Not


@dataclass(frozen=True)
class Instr:
    """One instruction: `@guard op.mods operands;` and the reader's source line it came from."""

    op: str
    mods: tuple[str, ...]
    args: tuple[Operand, ...]
    guard: tuple[Reg, bool] | None = None
    line: int = 0

    @property
    def name(self) -> str:
        return ".".join((self.op, *self.mods))

    @property
    def types(self) -> tuple[str, ...]:
        return tuple(m for m in self.mods if m in WIDTH)


@dataclass(frozen=True)
class Label:
    """A place a branch can name."""

    name: str


@dataclass(frozen=True)
class Variable:
    """A declared variable: `.shared .align 4 .b8 tile[4224];` (size 0: `extern`, sized at launch)."""

    name: str
    space: str
    type: str
    align: int
    size: int
    init: bytes = b""
    links: tuple[tuple[int, str], ...] = ()


@dataclass
class Function:
    """A kernel (`entry`) or a device function, with its variables and body still in text order."""

    name: str
    entry: bool
    params: list[Variable] = field(default_factory=list)
    returns: list[Variable] = field(default_factory=list)
    body: list[Instr | Label] = field(default_factory=list)
    variables: list[Variable] = field(default_factory=list)
    targets: dict[str, list[str]] = field(default_factory=dict)
    block_limit: int = 0


@dataclass
class Module:
    """Everything one PTX file declares."""

    functions: dict[str, Function] = field(default_factory=dict)
    variables: dict[str, Variable] = field(default_factory=dict)
    files: dict[int, str] = field(default_factory=dict)


COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.S)


def parse(text: str) -> Module:
    """The module that PTX text declares.

    text: PTX as NVRTC or nvcc writes it.  Returns a Module; `.loc` lines become each instruction's source
    line.
    """
    return _Parser(COMMENT.sub(" ", text)).module


class _Parser:
    """Reads statement by statement; scopes rename registers, because inline assembly reuses their names."""

    def __init__(self, text: str) -> None:
        self.module = Module()
        self.function: Function | None = None
        self.line = 0
        self.scopes: list[dict[str, Reg | str]] = []
        self.count = 0
        self.text = text
        for statement in self.statements(text):
            self.take(statement)

    def statements(self, text: str) -> Iterator[str]:
        position, size = 0, len(text)
        while position < size:
            found = _next(text, position)
            position = found[1]
            if found[0]:
                yield found[0]

    def take(self, s: str) -> None:
        if s == "{":
            self.scopes.append({})
        elif s == "}":
            self.scopes.pop()
            if not self.scopes:
                self.function = None
        elif re.match(r"\.loc\s", s):
            self.locate(s)
        elif s.startswith(".file"):
            number, name = re.match(r'\.file\s+(\d+)\s+"(.*?)"', s).groups()  # type: ignore[union-attr]
            self.module.files[int(number)] = name
        elif re.match(r"(\.(visible|weak|extern)\s+)*\.(entry|func)\b", s):
            self.begin(s)
        elif s.startswith("."):
            self.declare(s)
        elif s.endswith(":"):
            assert self.function is not None
            self.function.body.append(Label(s[:-1]))
        elif self.function is not None:
            self.function.body.append(self.instruction(s))

    def locate(self, s: str) -> None:
        """`.loc file line column [, …, inlined_at file line column]`; the reader's file is 1."""
        places = [tuple(map(int, p)) for p in re.findall(r"(?:\.loc|inlined_at)\s+(\d+)\s+(\d+)", s)]
        own = [line for file, line in places if file == 1 and line > 0]
        if own:
            self.line = own[0]

    def begin(self, s: str) -> None:
        head = re.sub(r"\s+", " ", s)
        entry = ".entry" in head.split("(")[0]
        m = re.search(r"\.(?:entry|func)\s*(\([^()]*\))?\s*([\w$]+)\s*(\([^()]*\))?(.*)", head)
        assert m is not None
        f = Function(m[2], entry, self.formals(m[3]), self.formals(m[1]))
        limit = re.search(r"\.(?:maxntid|reqntid) (\d+)(?:, (\d+))?(?:, (\d+))?", m[4] or "")
        f.block_limit = int(limit[1]) * int(limit[2] or 1) * int(limit[3] or 1) if limit else 0
        if not s.endswith(";"):
            self.module.functions[f.name] = self.function = f
            self.scopes, self.line = [], 0
        else:
            self.module.functions.setdefault(f.name, f)

    def formals(self, text: str | None) -> list[Variable]:
        return [_variable(p.strip()) for p in (text or "()")[1:-1].split(",") if p.strip()]

    def declare(self, s: str) -> None:
        s = s.rstrip(";").strip()
        if s.startswith(".reg"):
            self.registers(s)
        elif s.startswith((".branchtargets", ".pragma", ".noreturn")):
            if s.startswith(".branchtargets") and self.function is not None:
                last = self.function.body.pop()
                assert isinstance(last, Label)
                self.function.targets[last.name] = [x.strip() for x in s.split(None, 1)[1].split(",")]
        elif re.match(r"(\.(visible|weak|extern|common)\s+)*\.(shared|global|const|local|param)\b", s):
            v = _variable(s)
            if self.function is None:
                self.module.variables.setdefault(v.name, v)
            else:
                name = self.rename(v.name)
                self.function.variables.append(Variable(name, v.space, v.type, v.align, v.size, v.init, v.links))

    def registers(self, s: str) -> None:
        _, kind, names = s.split(None, 2)
        kind = kind[1:]
        for name in (n.strip() for n in names.split(",")):
            m = re.fullmatch(r"([\w$%]+)<(\d+)>", name)
            for n in [f"{m[1]}{i}" for i in range(int(m[2]))] if m else [name]:
                self.scopes[-1][n] = Reg(n if len(self.scopes) == 1 else self.fresh(n), kind)

    def fresh(self, name: str) -> str:
        self.count += 1
        return f"{name}'{self.count}"

    def rename(self, name: str) -> str:
        new = name if len(self.scopes) == 1 else self.fresh(name)
        self.scopes[-1][name] = new
        return new

    def find(self, name: str) -> Operand:
        for scope in reversed(self.scopes):
            if name in scope:
                found = scope[name]
                return found if isinstance(found, Reg) else Sym(found)
        return Reg(name, "special") if name.startswith("%") else Sym(name)

    def instruction(self, s: str) -> Instr:
        s = s.rstrip(";").strip()
        guard = None
        if s.startswith("@"):
            mark, s = s[1:].split(None, 1)
            reg = self.find(mark.lstrip("!"))
            assert isinstance(reg, Reg)
            guard = (reg, mark.startswith("!"))
        head, _, rest = s.partition(" ") if "\t" not in s.split(" ")[0] else s.partition("\t")
        op, *mods = [p for p in head.strip().replace("::", "_").split(".") if p]
        if op == "call":
            return Instr(op, tuple(mods), tuple(self.call(rest)), guard, self.line)
        return Instr(op, tuple(mods), tuple(self.operand(a) for a in split(rest)), guard, self.line)

    def call(self, rest: str) -> Iterator[Operand]:
        """`call (ret), name, (args)` -> callee, returns, arguments, prototype if any."""
        parts = split(rest)
        returns = parts.pop(0) if parts[0].startswith("(") else "()"
        args = parts[1] if len(parts) > 1 else "()"
        yield self.operand(parts[0])
        for group in (returns, args):
            yield Vec(tuple(self.operand(a) for a in split(group.strip()[1:-1])))

    def operand(self, s: str) -> Operand:
        s = s.strip()
        if s.startswith("["):
            return self.address(s[1:-1])
        if s.startswith("{"):
            return Vec(tuple(self.operand(a) for a in split(s[1:-1])))
        if s.startswith("!"):
            return Not(self.operand(s[1:]))
        if "|" in s:
            first, second = s.split("|")
            return Pair(self.operand(first), self.operand(second))
        return literal(s) or self.find(s)

    def address(self, s: str) -> Addr:
        """`base`, `base+off`, `base+-off`, and `base, {coordinates}` of tensor accesses."""
        base, *extra = split(s)
        m = re.fullmatch(r"\s*([\w$%.']+)\s*(?:\+\s*(-?\w+))?\s*", base)
        assert m is not None, s
        return Addr(self.operand(m[1]), int(m[2], 0) if m[2] else 0, tuple(self.operand(e) for e in extra))


def _next(text: str, start: int) -> tuple[str, int]:
    """The next statement at or after `start`, and where it ends."""
    size = len(text)
    while start < size and text[start].isspace():
        start += 1
    if start >= size:
        return "", size
    if text[start] in "{}":
        return text[start], start + 1
    if re.compile(r"\.(loc|file|version|target|address_size)\b").match(text, start):
        end = text.find("\n", start)
        end = size if end < 0 else end
        return text[start:end].strip(), end
    if text.startswith(".section", start):
        end = text.find("}", start) + 1
        return "", end
    label = re.compile(r"[\w$%]+\s*:(?!:)").match(text, start)
    if label:
        return label[0].replace(" ", ""), label.end()
    return _plain(text, start)


HEAD = re.compile(r"(\.(visible|weak|extern)\s+)*\.(entry|func)\b")


def _plain(text: str, start: int) -> tuple[str, int]:
    """A statement up to its `;`, or a function's head up to its `{`."""
    semicolon = text.find(";", start)
    semicolon = len(text) if semicolon < 0 else semicolon
    if HEAD.match(text, start):
        brace = text.find("{", start)
        if 0 <= brace < semicolon:
            return text[start:brace].strip(), brace
    return text[start : semicolon + 1].strip(), semicolon + 1


def split(s: str) -> list[str]:
    """Comma-separated parts, brackets kept whole."""
    parts, depth, start = [], 0, 0
    for i, c in enumerate(s):
        depth += (c in "([{") - (c in ")]}")
        if c == "," and depth == 0:
            parts.append(s[start:i].strip())
            start = i + 1
    last = s[start:].strip()
    return [*parts, last] if last else parts


def literal(s: str) -> Imm | None:
    """An integer, `0f3F800000` (float) or `0d…` (double) literal; None for a name."""
    if re.fullmatch(r"0[fF][0-9a-fA-F]{8}", s):
        return Imm(int(s[2:], 16), "f32")
    if re.fullmatch(r"0[dD][0-9a-fA-F]{16}", s):
        return Imm(int(s[2:], 16), "f64")
    m = re.fullmatch(r"(-?(?:0[xX][0-9a-fA-F]+|0[bB][01]+|\d+))U?", s)
    return Imm(int(m[1], 0) if not re.fullmatch(r"-?0\d+", m[1]) else int(m[1], 8)) if m else None


def _variable(s: str) -> Variable:
    """One declaration, with its initial bytes (`links`: where addresses of other variables go)."""
    declared, _, initial = s.partition("=")
    words = declared.replace("[", " [").split()
    space = next((w[1:] for w in words if w[1:] in ("param", "shared", "global", "const", "local")), "")
    align = int(words[words.index(".align") + 1]) if ".align" in words else 0
    kind = next(w[1:] for w in words if w[1:] in WIDTH)
    name = next(w for w in words[words.index("." + kind) + 1 :] if not w.startswith((".", "[")) and not w.isdigit())
    dims = re.findall(r"\[(\d*)\]", declared)
    size = WIDTH[kind]
    for d in dims:
        size *= int(d or 0)
    init, links = _initial(initial.strip(), WIDTH[kind])
    return Variable(name, space, kind, align or WIDTH[kind], size, init, links)


def _initial(s: str, width: int) -> tuple[bytes, tuple[tuple[int, str], ...]]:
    if not s:
        return b"", ()
    out, links = bytearray(), []
    for item in split(s.replace("{", "").replace("}", "")):
        imm = literal(item)
        if imm is None:
            links.append((len(out), item))
        out += (int(imm.value) if imm else 0).__and__((1 << 8 * width) - 1).to_bytes(width, "little")
    return bytes(out), tuple(links)
