"""Random kernels give in the emulator what plain Python gives thread by thread, to the last bit."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from labkit.emulator import Compiled, Counts, compiled_from_ptx, launch
from labkit.errors import LabError

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "kernels")]
from arguments import prepare  # noqa: E402 — shared by the emulator's tests
from generate import Kernel, Program, compile_program, differences, program  # noqa: E402 — a folder of its own
from operations import fma  # noqa: E402

pytestmark = pytest.mark.compiler
COUNT = 24
OPCODES = """
    bra call bar.sync bar.red shfl.sync.bfly shfl.sync.up shfl.sync.down shfl.sync.idx vote.sync redux.sync
    match.any.sync atom.shared ld.shared ld.local ld.global.nc fma.rn.f32 fma.rn.f64 div.rn.f32 div.rn.f64
    sqrt.rn.f32 div.s64 rem.u64 mul.hi.s64 shf.l.wrap prmt.b32 brev.b64 popc.b64 clz.b64 cvt.rn.f32.u64
    cvt.rzi.s64.f64
"""


@pytest.fixture(scope="module")
def made() -> Program:
    return program(seed=7, count=COUNT)


@pytest.fixture(scope="module")
def compiled(made: Program) -> list[Compiled]:
    return compile_program(made)


def run(kernel: Kernel, ready: Compiled, **options: object) -> tuple[tuple[np.ndarray, ...], Counts]:
    arrays, args = prepare(list(kernel.args))
    counts = launch(ready, kernel.grid, kernel.block, args, **options)  # type: ignore[arg-type]
    return tuple(arrays[4:]), counts


@pytest.mark.parametrize("number", range(COUNT))
def test_as_python(number: int, made: Program, compiled: list[Compiled]) -> None:
    kernel = made.kernels[number]
    outputs, _ = run(kernel, compiled[number])
    assert not differences(kernel.expected(), outputs), kernel.alone()


def test_the_generator_reaches_the_instruction_set(compiled: list[Compiled]) -> None:
    ptx = "\n".join(c.ptx for c in compiled)
    assert not [opcode for opcode in OPCODES.split() if opcode not in ptx]


def test_threads_part(made: Program, compiled: list[Compiled]) -> None:
    counts = [run(k, c)[1] for k, c in zip(made.kernels[:8], compiled, strict=False)]
    assert sum(c.divergent_branches > 0 for c in counts) > 4


@pytest.mark.parametrize(("right", "wrong"), [
    ("xor.b32", "or.b32"), ("add.s32", "sub.s32"), ("mul.hi.u32", "mul.hi.s32"),
    ("div.s32", "div.u32"), ("mul.rn.f64", "mul.rz.f64"), ("neg.f32", "abs.f32"),
    ("setp.lt.s32", "setp.le.s32"), ("cvt.rn.f32.u64", "cvt.rz.f32.u64"), ("shfl.sync.up", "shfl.sync.down"),
])  # fmt: skip
def test_a_wrong_instruction_is_caught(right: str, wrong: str, made: Program, compiled: list[Compiled]) -> None:
    assert any(_differs(k, c, right, wrong) for k, c in zip(made.kernels, compiled, strict=True) if right in c.ptx)


def _differs(kernel: Kernel, compiled: Compiled, right: str, wrong: str) -> bool:
    changed = compiled_from_ptx(compiled.ptx.replace(right, wrong), kernel.name)
    try:
        outputs, _ = run(kernel, changed, max_thread_instructions=10**7)
    except LabError:  # a wrong address, or an endless loop
        return True
    return bool(differences(kernel.expected(), outputs))


def test_programs_repeat() -> None:
    one, two = (program(seed=3, count=2) for _ in range(2))
    assert one.source == two.source
    for first, second in zip(one.kernels, two.kernels, strict=True):
        assert all(map(np.array_equal, first.args, second.args))


def test_fused_sum_is_rounded_once() -> None:
    rng = np.random.default_rng(1)
    a, b, c = rng.random((3, 500)).astype(np.float32) - np.float32(0.5)
    exact = (a.astype(np.longdouble) * b + c).astype(np.float32)
    assert [fma(p, q, r, True) for p, q, r in zip(*(v.tolist() for v in (a, b, c)), strict=True)] == exact.tolist()
