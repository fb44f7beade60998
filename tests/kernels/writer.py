"""Writes a random kernel, statement by statement, as CUDA C and as Python.

What makes it valid: no signed overflow, shift counts in range, everything written before it is read, no races,
barriers and warp exchanges only where all threads pass (`together`), atomics of one commutative kind for each
array, their results unused.
"""

from __future__ import annotations

import math
import operator
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import operations
from operations import BY_RESULT, INTEGERS, NUMBERS, C

INPUTS, BINS, SLOTS, LOCALS, CELLS = 64, 32, 8, 8, 16
BLOCKS = ((32, 1, 1), (64, 1, 1), (96, 1, 1), (8, 8, 1), (4, 4, 4), (32, 3, 1), (20, 1, 1), (7, 5, 1))
PARAMETERS = (
    "const unsigned* a, const unsigned long long* b, const float* x, const double* y, "
    "unsigned long long* out, unsigned* bins"
)
LOADS = {
    "u32": [("a[{0} % 64u]", "a[{0} % 64]"), ("__ldg(&a[{0} & 63u])", "a[{0} & 63]"),
            ("fold(((const uint4*)a)[{0} % 16u])", "fold(*a[{0} % 16 * 4 : {0} % 16 * 4 + 4])"),
            ("(unsigned)((const unsigned char*)a)[{0} % 256u]", "a[{0} % 256 >> 2] >> ({0} & 3) * 8 & 255")],
    "i32": [("(int)a[{0} % 64u]", "i32(a[{0} % 64])"),
            ("(int)((const short*)a)[{0} % 128u]", "i32((a[{0} % 128 >> 1] >> ({0} & 1) * 16) << 16) >> 16")],
    "u64": [("b[{0} % 64u]", "b[{0} % 64]"), ("((const ulonglong2*)b)[{0} % 32u].y", "b[{0} % 32 * 2 + 1]")],
    "i64": [("(long long)b[{0} % 64u]", "i64(b[{0} % 64])")],
    "f32": [("x[{0} % 64u]", "x[{0} % 64]"), ("((const float2*)x)[{0} % 32u].y", "x[{0} % 32 * 2 + 1]")],
    "f64": [("y[{0} % 64u]", "y[{0} % 64]"), ("__ldg(&y[{0} & 63u])", "y[{0} & 63]")],
}  # fmt: skip
ATOMICS: dict[str, tuple[str, Callable[[int, int], int]]] = {
    "Add": ("0u", lambda p, q: p + q & 0xFFFFFFFF), "Xor": ("5u", operator.xor), "Or": ("0u", operator.or_),
    "And": ("~0u", operator.and_), "Min": ("~0u", min), "Max": ("0u", max),
}  # fmt: skip
STARTS = {"0u": 0, "5u": 5, "~0u": 0xFFFFFFFF}
EDGES: dict[str, list[float]] = {
    "u32": [0, 1, 31, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF], "i32": [0, 1, -1, 2**31 - 1, -(2**31)],
    "u64": [0, 1, 2**32, 2**63, 2**64 - 1], "i64": [0, -1, 2**63 - 1, -(2**63), 2**40],
    "f32": [0.0, -0.0, 1.0, -1.5, 3.0, 2.0**-126, 2.0**-149, 2.0**127, 16777216.0, 0.10000000149011612],
    "f64": [0.0, -0.0, 1.0, -2.5, 3.0, 2.0**-1022, 5e-324, 1e308, 2.0**53, 0.1],
}  # fmt: skip


class Text(NamedTuple):
    """An expression in both languages."""

    cuda: str
    python: str


class Writer:
    """Writes one kernel, statement by statement, in both languages."""

    def __init__(self, rng: random.Random, name: str) -> None:
        self.rng, self.name = rng, name
        self.block = rng.choice(BLOCKS)
        self.threads = math.prod(self.block)
        self.cuda: list[str] = []
        self.python: list[str] = []
        self.depth, self.serial, self.loops = 1, 0, 0
        self.fixed: list[tuple[str, str]] = [("t", "u32"), ("i", "u32"), ("block", "u32")]
        self.variables: list[tuple[str, str]] = []
        self.kind = rng.choice(sorted(ATOMICS))  # of the atomics on `bins`

    def write(self) -> tuple[str, str]:
        """The kernel's CUDA C and its Python."""
        self.prologue()
        for _ in range(self.rng.randint(5, 10)):
            self.together()
        for _ in range(self.rng.randint(1, 4)):
            self.statement()
        if self.rng.random() < 0.3:
            with self.suite(f"if ({(c := self.expression('bool', 2)).cuda})", f"if {c.python}:"):
                self.line("out[i] = 7; return;", "out[i] = 7; return")
        self.statement()
        self.epilogue()
        head = f'extern "C" __global__ void {self.name}({PARAMETERS}) {{'
        source = "\n".join([head, *self.cuda, "}\n"])
        head = f"def {self.name}(t, block, n, a, b, x, y, out, bins):"
        python = "\n".join([head, *self.python, "    if 0: yield\n"])
        return source, python

    def prologue(self) -> None:
        self.line("const unsigned n = blockDim.x * blockDim.y * blockDim.z, block = blockIdx.x;")
        self.line("const unsigned t = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);")
        self.line("const unsigned i = block * n + t;", "i = block * n + t")
        for kind in ("u32", "u64", "f64"):
            self.line(f"__shared__ {C[kind]} s{kind}[{self.threads}];")
        self.line(f"__shared__ unsigned cells[{CELLS}];")
        self.line(f"unsigned local[{LOCALS}];", f"local = [u32(a[i + j & 63] + j) for j in range({LOCALS})]")
        self.line(f"for (int j = 0; j < {LOCALS}; j++) local[j] = a[(i + j) & 63] + j;")
        for kind in ("u32", "i32", "u64", "f32", "f64"):
            self.declare(kind, self.load(kind, Text("i", "i")))

    def epilogue(self) -> None:
        """Every variable goes to memory, the floats as their bits."""
        shown = {"f32": ("(unsigned long long)bits({})", "bits32({})"), "f64": ("bits({})", "bits64({})")}
        for slot, (name, kind) in enumerate(self.variables[-SLOTS:]):
            cuda, python = shown.get(kind, ("(unsigned long long){}", "u64({})"))
            self.line(f"out[i + gridDim.x * n * {slot}] = {cuda.format(name)};",
                      f"out[i + len(out) // {SLOTS} * {slot}] = {python.format(name)}")  # fmt: skip

    def line(self, cuda: str, python: str = "") -> None:
        if cuda:
            self.cuda.append("  " * self.depth + cuda)
        if python:
            self.python.append("    " * self.depth + python)

    @contextmanager
    def suite(self, cuda: str, python: str, loop: bool | None = None) -> Iterator[None]:
        """An indented block; what is declared inside ends with it."""
        kept, loops = (len(self.variables), len(self.fixed)), self.loops
        if loop is not None:
            self.loops = loops + 1 if loop else 0
        self.line(cuda + " {", python)
        self.depth += 1
        self.line("", "pass")
        yield
        self.depth -= 1
        self.line("}")
        del self.variables[kept[0] :], self.fixed[kept[1] :]
        self.loops = loops

    def fresh(self, letter: str) -> str:
        self.serial += 1
        return f"{letter}{self.serial}"

    def declare(self, kind: str, value: Text) -> None:
        name = self.fresh("v")
        self.line(f"{C[kind]} {name} = {value.cuda};", f"{name} = {value.python}")
        self.variables.append((name, kind))

    # Expressions

    def expression(self, kind: str, depth: int = 3) -> Text:
        if depth <= 0 or (self.rng.random() < 0.15 and kind != "bool"):
            return self.leaf(kind)
        op = self.rng.choice(BY_RESULT[kind])
        parts = [self.expression(k, depth - 1) for k in op.operands]
        return Text(op.cuda.format(*(p.cuda for p in parts)), op.python.format(*(p.python for p in parts)))

    def leaf(self, kind: str) -> Text:
        if kind == "bool":
            return Text(f"((i >> {(k := self.rng.randrange(6))}) & 1u)", f"(i >> {k} & 1 == 1)")
        names = [name for name, k in self.variables + self.fixed if k == kind]
        roll = self.rng.random()
        if names and roll < 0.7:
            return Text(name := self.rng.choice(names), name)
        if roll < 0.85:
            return self.load(kind, self.leaf("u32"))
        return self.literal(kind)

    def load(self, kind: str, index: Text) -> Text:
        if kind == "u32" and self.rng.random() < 0.4:
            return Text(f"local[{index.cuda} % {LOCALS}u]", f"local[{index.python} % {LOCALS}]")
        cuda, python = self.rng.choice(LOADS[kind])
        return Text(f"({cuda.format(index.cuda)})", f"({python.format(index.python)})")

    def literal(self, kind: str) -> Text:
        value = self.rng.choice(EDGES[kind]) if self.rng.random() < 0.4 else number(self.rng, kind)
        if kind in INTEGERS:
            size = int(kind[1:])
            return Text(f"({C[kind]}){value % 2**size:#x}{'u' if size == 32 else 'ull'}", f"({value})")
        return Text(f"({value.hex()}{'f' if kind == 'f32' else ''})", f"({value!r})")

    # Statements that threads may pass each on its own way

    def statement(self) -> None:
        choices = [self.assign, self.assign, self.assign, self.new, self.store_local, self.atomic]
        if self.depth < 4:
            choices += [self.branch, self.branch, self.loop, self.loop, self.countdown, self.switch]
        self.rng.choice(choices)()

    def body(self) -> None:
        for _ in range(self.rng.randint(1, 3)):
            self.statement()
        if self.loops and self.rng.random() < 0.5:
            with self.suite(f"if ({(c := self.expression('bool', 2)).cuda})", f"if {c.python}:"):
                self.statement()
                word = self.rng.choice(("break", "continue"))
                self.line(f"{word};", word)

    def new(self) -> None:
        kind = self.rng.choice(NUMBERS)
        self.declare(kind, self.expression(kind))

    def assign(self) -> None:
        name, kind = self.rng.choice(self.variables)
        value = self.expression(kind)
        self.line(f"{name} = {value.cuda};", f"{name} = {value.python}")

    def store_local(self) -> None:
        at, value = self.expression("u32", 1), self.expression("u32", 2)
        self.line(f"local[{at.cuda} % {LOCALS}u] = {value.cuda};",
                  f"local[{at.python} % {LOCALS}] = {value.python}")  # fmt: skip

    def atomic(self) -> None:
        at, value = self.expression("u32", 1), self.expression("u32", 2)
        self.line(f"atomic{self.kind}(&bins[{at.cuda} % {BINS}u], {value.cuda});", f"at = {at.python} % {BINS}")
        self.line("", f"bins[at] = ATOMICS[{self.kind!r}][1](bins[at], {value.python})")

    def branch(self) -> None:
        condition = self.expression("bool", 2)
        with self.suite(f"if ({condition.cuda})", f"if {condition.python}:"):
            self.body()
        if self.rng.random() < 0.6:
            with self.suite("else", "else:"):
                self.body()

    def loop(self) -> None:
        """A loop whose trip count differs from thread to thread."""
        name, end, trips = self.fresh("j"), self.fresh("e"), self.expression("u32", 1)
        self.line(f"const int {end} = (int)({trips.cuda} % 6u);", f"{end} = {trips.python} % 6")
        cuda = f"for (int {name} = 0; {name} < {end}; {name}++)"
        with self.suite(cuda, f"for {name} in range({end}):", loop=True):
            self.fixed.append((name, "i32"))
            self.body()

    def countdown(self) -> None:
        name, trips = self.fresh("w"), self.expression("u32", 1)
        self.line(f"unsigned {name} = {trips.cuda} % 6u;", f"{name} = {trips.python} % 6")
        with self.suite(f"while ({name})", f"while {name}:", loop=True):
            self.line(f"{name}--;", f"{name} -= 1")
            self.fixed.append((name, "u32"))
            self.body()

    def switch(self) -> None:
        value, ways = self.expression("u32", 2), self.rng.randint(3, 7)
        chosen = self.fresh("c")
        self.line(f"const unsigned {chosen} = {value.cuda} % {ways}u;", f"{chosen} = {value.python} % {ways}")
        self.line(f"switch ({chosen}) {{")
        for way in range(ways):
            label = f"case {way}:" if way < ways - 1 else "default:"
            with self.suite(label, f"if {chosen} == {way}:", loop=False):
                self.assign()
            self.cuda[-1] += " break;"
        self.line("}")

    # Statements that all threads of the block pass

    def together(self) -> None:
        choices = [self.statement, self.statement, self.exchange, self.shared_atomic, self.vote]
        if self.threads % 32 == 0:
            choices += [self.shuffle, self.shuffle, self.ballot]
        if self.depth < 3:
            choices += [self.uniform_loop, self.uniform_branch]
        self.rng.choice(choices)()

    def gathered(self, value: str) -> str:
        """Python: the values of all threads of the block."""
        name = self.fresh("g")
        self.line("", f"{name} = yield {value}")
        return name

    def exchange(self) -> None:
        """Write the own cell of shared memory, read another's."""
        kind = self.rng.choice(("u32", "u64", "f64"))
        value, at = self.expression(kind, 2), self.expression("u32", 1)
        all_values = self.gathered(value.python)
        self.line(f"s{kind}[t] = {value.cuda};")
        self.line("__syncthreads();")
        self.declare(kind, Text(f"s{kind}[{at.cuda} % n]", f"{all_values}[{at.python} % n]"))
        self.line("__syncthreads();")

    def shared_atomic(self) -> None:
        kind = self.rng.choice(sorted(ATOMICS))
        start = ATOMICS[kind][0]
        mine, at, value = self.expression("bool", 1), self.expression("u32", 1), self.expression("u32", 2)
        self.line(f"if (t < {CELLS}) cells[t] = {start};")
        self.line("__syncthreads();")
        self.line(f"if ({mine.cuda}) atomic{kind}(&cells[{at.cuda} % {CELLS}u], {value.cuda});")
        self.line("__syncthreads();")
        all_values = self.gathered(f"({at.python} % {CELLS}, {value.python}) if {mine.python} else ()")
        read = self.expression("u32", 1)
        cells = self.fresh("g")
        self.line("", f"{cells} = tally({kind!r}, {STARTS[start]}, {all_values})")
        self.declare("u32", Text(f"cells[{read.cuda} % {CELLS}u]", f"{cells}[{read.python} % {CELLS}]"))
        self.line("__syncthreads();")

    def vote(self) -> None:
        """A barrier that counts."""
        mine = self.expression("bool", 2)
        name, python = self.rng.choice((("count", "sum"), ("or", "any"), ("and", "all")))
        call = f"__syncthreads_{name}({mine.cuda})"
        self.declare("u32", Text(f"(unsigned)({call}{'' if name == 'count' else ' != 0'})",
                                 f"int({python}({self.gathered(f'bool({mine.python})')}))"))  # fmt: skip

    def shuffle(self) -> None:
        kind = self.rng.choice(NUMBERS)
        value, lane, width = self.expression(kind, 2), self.leaf("u32"), self.rng.choice((32, 32, 16, 8))
        step = self.rng.randrange(width)
        g = self.gathered(value.python)
        inside = f"(t & {width - 1})"
        how, argument, python = self.rng.choice((
            ("", f"(int)({lane.cuda} & 31u)", f"{g}[(t & {-width}) + ({lane.python} & {width - 1})]"),
            ("_xor", f"{step}", f"{g}[t ^ {step}]"),
            ("_up", f"{step}", f"{g}[t - {step} if {inside} >= {step} else t]"),
            ("_down", f"{step}", f"{g}[t + {step} if {inside} + {step} < {width} else t]"),
        ))  # fmt: skip
        self.declare(kind, Text(f"__shfl{how}_sync(0xffffffffu, {value.cuda}, {argument}, {width})", python))

    def ballot(self) -> None:
        mine, value = self.expression("bool", 2), self.expression("u32", 2)
        vote, some = f"(0xffffffffu, {mine.cuda})", f"(0xffffffffu, {value.cuda} & 3u)"
        cuda, python, given = self.rng.choice((
            (f"__ballot_sync{vote}", "sum(p << k for k, p in enumerate({0}))", mine.python),
            (f"(unsigned)(__any_sync{vote} != 0)", "int(any({0}))", mine.python),
            (f"(unsigned)(__all_sync{vote} != 0)", "int(all({0}))", mine.python),
            (f"__match_any_sync{some}", "sum((p == {1}) << k for k, p in enumerate({0}))",
             f"{value.python} & 3"),
            (f"__reduce_add_sync(0xffffffffu, {value.cuda})", "u32(sum({0}))", value.python),
            (f"__reduce_max_sync(0xffffffffu, {value.cuda})", "max({0})", value.python),
        ))  # fmt: skip
        g = self.gathered(f"({given})")
        self.declare("u32", Text(cuda, python.format(f"{g}[t & -32 : (t & -32) + 32]", f"{g}[t]")))

    def uniform_loop(self) -> None:
        name, trips = self.fresh("j"), self.rng.randint(1, 4)
        cuda = f"for (int {name} = 0; {name} < {trips}; {name}++)"
        with self.suite(cuda, f"for {name} in range({trips}):"):
            self.fixed.append((name, "i32"))
            for _ in range(self.rng.randint(1, 3)):
                self.together()

    def uniform_branch(self) -> None:
        block = self.rng.randrange(2)
        with self.suite(f"if (block == {block}u)", f"if block == {block}:"):
            self.together()
        with self.suite("else", "else:"):
            self.together()


def number(rng: random.Random, kind: str) -> Any:
    """A random value of a type; floats of ordinary size mostly."""
    if kind in INTEGERS:
        size = rng.choice((4, 16, int(kind[1:])))
        value = rng.getrandbits(size)
        return getattr(operations, kind)(value if rng.random() < 0.7 else -value)
    scale = 1.0 if rng.random() < 0.7 else 2.0 ** rng.randint(-60, 60)
    return getattr(operations, kind)((rng.random() * 20 - 10) * scale)
