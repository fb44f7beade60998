"""Launches: counters known from hardware, sampling, undoing, arguments, and what goes wrong before a run."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import labkit
from labkit.emulator import Buffer, Compiled, Counts, compile_kernel, compiled_from_ptx, launch
from labkit.errors import LabError

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "kernels")]
from arguments import prepare  # noqa: E402 — shared by the emulator's tests
from cases import source  # noqa: E402 — the corpus is a folder of its own

pytestmark = pytest.mark.compiler
i4, f4 = np.int32, np.float32


def count(
    name: str, grid: tuple[int, int, int], block: tuple[int, int, int], args: list[object], **options: object
) -> Counts:
    return launch(compile_kernel(source(name)), grid, block, prepare(args)[1], **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("stride, sectors", [(1, 131_072), (2, 262_144), (8, 1_048_576), (32, 1_048_576)])
def test_strided_read_counts_as_on_an_h200(stride: int, sectors: int) -> None:
    n = 1 << 20
    a = np.zeros(n, f4)
    c = count("strided_read", (n // 256, 1, 1), (256, 1, 1), [a, a, i4(n), i4(stride)])
    assert (c.global_load_requests, c.global_load_sectors) == (32_768, sectors)
    assert c.global_store_sectors == 131_072


def test_transpose_counts_as_on_an_h200() -> None:
    a = np.zeros((1024, 1024), f4)
    c = count("transpose_tiled", (32, 32, 1), (32, 8, 1), [a, a.copy(), i4(1024)])
    assert (c.global_load_requests, c.global_load_sectors) == (32_768, 131_072)
    assert (c.shared_load_conflicts, c.shared_store_conflicts) == (1_015_808, 0)
    padded = count("transpose_padded", (32, 32, 1), (32, 8, 1), [a, a.copy(), i4(1024)])
    assert padded.shared_load_conflicts == 0


def test_sample_agrees_with_the_whole() -> None:
    n = 1 << 18
    args = [np.zeros(n, f4), np.zeros(n, f4), i4(n - 37), i4(3)]
    whole = count("strided_read", (n // 256, 1, 1), (256, 1, 1), args)
    part = count("strided_read", (n // 256, 1, 1), (256, 1, 1), args, budget=200_000)
    assert part.sampled and not whole.sampled and part.blocks == whole.blocks
    for name in ("global_load_requests", "global_store_requests", "thread_instructions", "warp_instructions"):
        assert getattr(part, name) == getattr(whole, name), name
    assert part.global_load_sectors == pytest.approx(whole.global_load_sectors, rel=0.05)
    assert part.unique_load_bytes >= 0.9 * whole.unique_load_bytes  # far blocks read the same: not seen in a sample
    again = count("strided_read", (n // 256, 1, 1), (256, 1, 1), args, budget=200_000)
    assert again.by_line == part.by_line


def test_sample_is_deterministic_and_huge_grids_are_cheap() -> None:
    args = [np.zeros(256, f4), np.zeros(256, f4), i4(1), i4(1)]
    first, second = (count("strided_read", (1 << 22, 1, 1), (256, 1, 1), args, budget=100_000) for _ in range(2))
    assert first.thread_instructions == second.thread_instructions > 1 << 30
    assert first.by_line == second.by_line


@pytest.mark.parametrize("size", [1000, 2_000_000])
def test_keep_false_leaves_arrays_alone(size: int) -> None:
    y = np.ones(size, f4)
    kept, args = prepare([f4(2), np.ones(size, f4), y, i4(1000)])
    launch(compile_kernel(source("saxpy")), (8, 1, 1), (128, 1, 1), args, keep=False)
    np.testing.assert_array_equal(kept[2], y)


def test_lanes_are_those_of_the_middle_block() -> None:
    n = 4096
    c = count("strided_read", (16, 1, 1), (256, 1, 1), [np.zeros(n, f4), np.zeros(n, f4), i4(n), i4(2)])
    load, store = c.lanes
    assert (load.op, load.array, load.bytes_per_lane) == ("load", "argument 0", 4)
    assert load.addresses == tuple((2048 + k) * 2 % n * 4 for k in range(32))
    assert store.addresses == tuple((2048 + k) * 4 for k in range(32))
    assert "b[i] = a" in source("strided_read").splitlines()[load.line - 1]


def test_two_arguments_in_one_allocation_keep_their_names() -> None:
    root = np.arange(200, dtype=f4).view(np.uint8)
    args = [f4(1).tobytes(), Buffer(root, 0, 400, "x"), Buffer(root, 400, 400, "y"), i4(100).tobytes()]
    c = launch(compile_kernel(source("saxpy")), (1, 1, 1), (128, 1, 1), args)
    assert {x.array for x in c.lanes} == {"x", "y"}
    np.testing.assert_array_equal(root.view(f4)[100:], np.arange(100) * 2 + 100)


def test_counts_survive_json_and_add_up() -> None:
    import json

    c = count("transpose_tiled", (2, 2, 1), (32, 8, 1), [np.zeros((64, 64), f4), np.zeros((64, 64), f4), i4(64)])
    again = Counts.from_dict(json.loads(json.dumps(c.to_dict())))
    assert again == c
    twice = c + c
    assert twice.shared_load_conflicts == 2 * c.shared_load_conflicts and len(twice.by_line) == len(c.by_line)
    assert c.shared_load_conflicts == sum(x.shared_load_conflicts for x in c.by_line)
    assert "tile[threadIdx.x]" in c._repr_html_()


def test_device_variables_live_as_long_as_the_kernel() -> None:
    k = compile_kernel('__device__ int calls = 5; extern "C" __global__ void k(int* o) { o[0] = ++calls; }')
    (o,), args = prepare([np.zeros(1, i4)])
    seen = []
    for keep in (True, True, False, True):
        launch(k, (1, 1, 1), (1, 1, 1), args, keep=keep)
        seen.append(int(o[0]))
    assert seen == [6, 7, 7, 8]


def test_printf(capsys: pytest.CaptureFixture[str]) -> None:
    k = compile_kernel(
        r'extern "C" __global__ void k(float x) { printf("%d of %5.2f%% %s %c %llx\n", threadIdx.x, x, '
        r'"ok", 65, 1ull << 40); }'
    )
    launch(k, (1, 1, 1), (2, 1, 1), [f4(1.5).tobytes()])
    assert capsys.readouterr().out == "".join(f"{t} of  1.50% ok A 10000000000\n" for t in range(2))


def refused(call: object, *words: str) -> None:
    with pytest.raises(LabError) as caught:
        call()  # type: ignore[operator]
    for word in words:
        assert word in str(caught.value), (word, str(caught.value))


def test_impossible_launches() -> None:
    k = compile_kernel(source("saxpy"))
    x = Buffer(np.zeros(40, np.uint8), 0, 40, "x")
    good = [f4(1).tobytes(), x, x, i4(10).tobytes()]
    one = (1, 1, 1)
    refused(lambda: launch(k, one, (2048, 1, 1), good), "1,024")
    refused(lambda: launch(k, (0, 1, 1), one, good), "at least 1")
    refused(lambda: launch(k, (1, 70000, 1), one, good), "65,535")
    refused(lambda: launch(k, one, one, good[:3]), "3 arguments for 4")
    refused(lambda: launch(k, one, one, [b"12345678", x, x, good[3]]), "4 bytes")
    refused(lambda: launch(k, one, one, [x, x, x, good[3]]), "array for parameter")
    refused(lambda: launch(k, one, one, good, 300_000), "shared memory")


def test_compile_errors_quote_the_readers_line() -> None:
    refused(
        lambda: compile_kernel('extern "C" __global__ void k(int* a) {\n  a[0] = wrong;\n}'),
        "line 2",
        "a[0] = wrong;",
        "undefined",
    )
    two = "__global__ void one() {}\n__global__ void two() {}"
    refused(lambda: compile_kernel(two), "one, two")
    refused(lambda: compile_kernel(two, "three"), "one, two")
    refused(lambda: compile_kernel("int f() { return 1; }"), "no __global__")
    assert compile_kernel(two, "two").name == "_Z3twov"


def test_an_unknown_instruction_is_refused_before_it_runs() -> None:
    text = 'extern "C" __global__ void k(int* a) {\n  a[0] = 1;\n'
    text += '  asm volatile("mbarrier.inval.shared.b64 [%0];" :: "r"(0));\n}'
    k = compile_kernel(text)
    (a,), args = prepare([np.zeros(1, i4)])
    refused(lambda: launch(k, (1, 1, 1), (1, 1, 1), args), "mbarrier.inval", "line 3", "asm volatile")
    assert a[0] == 0


def test_recursion_is_refused_by_name() -> None:
    text = (
        "__device__ __noinline__ int f(int n) { return n < 2 ? n : f(n - 1) + f(n - 2); }\n"
        'extern "C" __global__ void k(int* a) { a[0] = f(a[1]); }'
    )
    refused(lambda: compile_kernel(text), "calls itself", "loop")


def test_ptx_alone_is_enough() -> None:
    k = compile_kernel(source("saxpy"))
    again = compiled_from_ptx(k.ptx, "saxpy", source("saxpy"))
    kept, args = prepare([f4(2), np.ones(10, f4), np.ones(10, f4), i4(10)])
    launch(again, (1, 1, 1), (32, 1, 1), args)
    assert isinstance(again, Compiled) and (kept[2] == 3).all()


def test_an_endless_kernel_is_stopped_with_its_line() -> None:
    k = compile_kernel('extern "C" __global__ void k(volatile int* a) {\n  while (a[0] == 0)\n    ;\n}')
    started = time.monotonic()
    refused(
        lambda: launch(k, (1, 1, 1), (32, 1, 1), prepare([np.zeros(1, i4)])[1], patience=0.2),
        "spins",
        "line 2",
    )
    refused(
        lambda: launch(k, (1, 1, 1), (32, 1, 1), prepare([np.zeros(1, i4)])[1], max_thread_instructions=10_000),
        "spins",
    )
    assert time.monotonic() - started < 5


def test_progress_is_told() -> None:
    told: list[float] = []
    a = np.zeros(1 << 16, f4)
    count("strided_read", (256, 1, 1), (256, 1, 1), [a, a, i4(a.size), i4(1)], progress=told.append)
    assert told == sorted(told) and told[-1] == 1.0 and len(told) > 1


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 7), st.integers(1, 130), st.integers(0, 900))
def test_any_shape_of_launch(blocks: int, threads: int, n: int) -> None:
    x = np.arange(1000, dtype=f4)
    kept, args = prepare([f4(3), x, x, i4(n)])
    launch(compile_kernel(source("saxpy")), (blocks, 1, 1), (threads, 1, 1), args)
    done = min(n, blocks * threads)
    np.testing.assert_array_equal(kept[2], np.where(np.arange(1000) < done, 4 * x, x))


def test_what_was_loaded_from_a_local_array_outlives_a_later_store():
    source = r"""extern "C" __global__ void keep(const unsigned* a, unsigned* out, int at) {
      unsigned t = threadIdx.x, local[8];
      for (int j = 0; j < 8; j++) local[j] = a[t + j];
      unsigned before = local[at];
      local[at] = 7;
      out[t] = before + 1000 * local[(at + t) % 8]; }"""
    a, out = np.arange(100, 140, dtype=np.uint32), np.zeros(32, np.uint32)
    labkit.kernel(source).run_emulated(1, 32, (a, out, 3))
    t = np.arange(32)
    other = (3 + t) % 8
    assert (out == a[t + 3] + 1000 * np.where(other == 3, 7, a[t + other])).all()
