"""A fingerprint changes with the code and with nothing else."""

import types
from pathlib import Path

import numpy as np
import pytest

import labkit
from labkit.cuda import Geometry, Rung
from labkit.fingerprint import canonical, fingerprint

pytestmark = pytest.mark.compiler
COPY = 'extern "C" __global__ void k(float* a) { a[threadIdx.x] *= 2; }'


def made(body, **names):
    import linecache

    name = f"<test {hash(body)}>"
    linecache.cache[name] = (len(body), None, body.splitlines(keepends=True), name)
    space = {"__name__": "cells", **names}
    exec(compile(body, name, "exec"), space)
    return space


def mark(body, **names):
    return fingerprint(made(body, **names)["f"])


BODY = "def f(x):\n    y = g(x) + N\n    return f'{x!r} {y:>{N}}'\ndef g(x):\n    return x\n"


def test_comments_and_blank_space_do_not_count():
    noisy = BODY.replace("    y", "    # why\n\n    y").replace("x):\n    return x", "x):  # no\n    return  x")
    assert mark(BODY, N=3) == mark(noisy, N=3)


@pytest.mark.parametrize(
    "changed",
    [
        (BODY.replace("+ N", "- N"), {"N": 3}),
        (BODY, {"N": 4}),
        (BODY.replace("return x\n", "return -x\n"), {"N": 3}),
        (BODY.replace("{y:>", "{y:<"), {"N": 3}),
    ],
)
def test_code_values_and_called_functions_count(changed):
    assert mark(changed[0], **changed[1]) != mark(BODY, N=3)


def test_a_kernels_source_counts_but_not_its_comments():
    body = "def f(n):\n    return k, a\n"
    a = np.zeros(4, np.float32)
    base = mark(body, k=labkit.kernel(COPY), a=a)
    assert base == mark(body, k=labkit.kernel(COPY.replace("{ a", "{ // twice\n a")), a=a + 1)
    assert base != mark(body, k=labkit.kernel(COPY.replace("2", "3")), a=a)
    assert base != mark(body, k=labkit.kernel(COPY), a=np.zeros(5, np.float32))
    assert mark(body, k={4: labkit.kernel(COPY)}, a=a) != mark(body, k={8: labkit.kernel(COPY)}, a=a)


@pytest.fixture
def rung(tmp_path):
    path = tmp_path / "k.cu"
    path.write_text(COPY)
    return Rung("k", str(path), (("BM", 16),), lambda defines: Geometry((defines["BM"], 1), 32))


@pytest.mark.parametrize("body", ["rung(a, b, c)", "table['k'](a, b, c)", "kit.table['k'](a, b, c)"])
def test_a_rungs_source_and_defines_count_however_it_is_reached(rung, body):
    def now(rung):
        kit = types.ModuleType("kit")
        kit.table = table = {"k": rung}
        return mark(f"def f(a, b, c):\n    {body}\n", rung=rung, table=table, kit=kit)

    base = now(rung)
    assert base != now(rung.with_(BM=32))
    Path(rung.path).write_text("// why\n" + COPY)
    assert base == now(rung)
    Path(rung.path).write_text(COPY.replace("2", "3"))
    assert base != now(rung)


def test_decorators_do_not_count_and_a_lambda_counts_by_its_statement():
    body = "import labkit\n@labkit.experiment(n=[1, 2])\ndef f(n):\n    return table[n]\n"
    table = "table = {1: lambda: 'one',\n         2: lambda: 'two'}\n"
    base = made(body + table)["f"].fingerprint
    assert base == made(body.replace("[1, 2]", "[1, 2, 3]") + table)["f"].fingerprint
    assert base != made(body + table.replace("two", "zwei"))["f"].fingerprint


def test_library_functions_and_modules_count_by_nothing():
    body = "def f(n):\n    return xp.ones(n), stack\n"
    assert mark(body, xp=np, stack=np.stack) == mark(body, xp=labkit, stack=np.stack)


def test_an_f_string_is_one_token_on_every_python():
    # What tokenize of Python 3.11 gives for these strings; 3.12 and newer split them.
    assert canonical("x = f'a{b}c' + f\"{d!r:>{w}}\"\n") == "x = f'a{b}c' + f\"{d!r:>{w}}\" <line>"
