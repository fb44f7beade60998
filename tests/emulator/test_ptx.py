"""Reading PTX: variables, scopes, guards, literals and source lines."""

from __future__ import annotations

from labkit.emulator.ptx import Addr, Imm, Instr, Label, Pair, Reg, Vec, parse, split

TEXT = """
.version 8.5
.target sm_90
.address_size 64
.const .align 4 .b8 table[8] = {1, 0, 0, 0, 255, 255, 255, 255};
.extern .shared .align 16 .b8 dynamic[];
.visible .entry k(
  .param .u64 k_param_0,
  .param .align 8 .b8 k_param_1[24]
)
.maxntid 128, 2, 1
{
  .reg .pred %p<3>;
  .reg .b32 %r<5>;
  .reg .f32 %f<5>;
  .loc 1 7 3
  mov.u32 %r1, %tid.x;
  @!%p1 bra $L1;
  // begin inline asm
  { .reg .b32 %r1; mov.b32 %r1, 5; add.s32 %r2, %r1, -7; }
  // end inline asm
  .loc 2 99 1, function_name $info, inlined_at 1 9 5
  ld.global.v4.f32 {%f1, %f2, %f3, %f4}, [%rd1+-16];
$L1:
  shfl.sync.bfly.b32 %r3|%p2, %r1, 16, 31, -1;
  mul.f32 %f1, %f2, 0f3F800000;
  ret;
}
.file 1 "kernel.cu"
.file 2 "math.h"
"""


def instructions() -> list[Instr]:
    return [i for i in parse(TEXT).functions["k"].body if isinstance(i, Instr)]


def test_declarations() -> None:
    module = parse(TEXT)
    assert module.variables["table"].init == bytes([1, 0, 0, 0, 255, 255, 255, 255])
    assert module.variables["dynamic"].size == 0 and module.variables["dynamic"].space == "shared"
    k = module.functions["k"]
    assert [(p.size, p.align) for p in k.params] == [(8, 8), (24, 8)] and k.entry and k.block_limit == 256
    assert module.files == {1: "kernel.cu", 2: "math.h"}


def test_lines_are_the_readers() -> None:
    lines = {i.name: i.line for i in instructions()}
    assert lines["mov.u32"] == 7 and lines["ld.global.v4.f32"] == 9


def test_operands() -> None:
    by_name = {i.name: i for i in instructions()}
    assert by_name["bra"].guard == (Reg("%p1", "pred"), True)
    load = by_name["ld.global.v4.f32"]
    assert isinstance(load.args[0], Vec) and load.args[1] == Addr(Reg("%rd1", "special"), -16)
    assert isinstance(by_name["shfl.sync.bfly.b32"].args[0], Pair)
    assert by_name["mul.f32"].args[2] == Imm(0x3F800000, "f32")


def test_inline_assembly_has_registers_of_its_own() -> None:
    inner = next(i for i in instructions() if i.name == "mov.b32").args[0]
    outer = next(i for i in instructions() if i.name == "mov.u32").args[0]
    assert inner != outer
    assert next(i for i in instructions() if i.name == "add.s32").args[1] == inner


def test_labels_stay_in_order() -> None:
    body = parse(TEXT).functions["k"].body
    at = next(n for n, i in enumerate(body) if isinstance(i, Label))
    assert isinstance(body[at + 1], Instr) and body[at + 1].op == "shfl"


def test_split_keeps_brackets() -> None:
    assert split("{a, b}, [c+4], (d, e)") == ["{a, b}", "[c+4]", "(d, e)"]
