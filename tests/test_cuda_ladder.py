"""Rungs: what one block does at two short K tells what the whole product does."""

from dataclasses import fields, replace

import numpy as np
import pytest

from labkit import Work, cuda, experiment
from labkit.emulator.counters import ADDED
from labkit.kernel import counting

pytestmark = pytest.mark.compiler


@pytest.mark.parametrize("name", ["naive", "tiled", "square", "double_buffered"])
def test_counts_drawn_from_one_block_are_those_of_the_launch(name):
    rung = cuda.sgemm[name]
    (rows, columns), k = rung.tile, 6 * rung._short
    a, b, c = (np.zeros(shape, np.float32) for shape in ((2 * rows, k), (k, 3 * columns), (2 * rows, 3 * columns)))
    drawn, whole = rung.counts(2 * rows, 3 * columns, k), rung.kernel.count(*rung.launch(a, b, c))
    assert drawn.sampled and not whole.sampled
    assert {n: getattr(drawn, n) for n in ADDED} == {n: getattr(whole, n) for n in ADDED}
    assert (drawn.blocks, drawn.threads, drawn.array_bytes) == (whole.blocks, whole.threads, whole.array_bytes)
    for field in fields(drawn.by_line[0]):
        assert [getattr(x, field.name) for x in drawn.by_line] == [getattr(x, field.name) for x in whole.by_line]


def test_a_long_product_is_modelled_without_touching_its_arrays():
    n = 1 << 14
    a = b = np.lib.stride_tricks.as_strided(np.zeros(1, np.float32), (n, n), (4 * n, 4))  # one float, n² told

    @experiment(rung=["tiled"])
    def product(rung):
        return Work(lambda: cuda.sgemm[rung](a, b, a), flops=2 * n**3)

    assert product.model({"rung": "tiled"}).counts.flops == 2 * n**3


def test_a_short_product_is_counted_as_any_launch():
    a, rung = np.zeros((32, 32), np.float32), cuda.sgemm["tiled"]
    with counting(10**9) as log:
        rung(a, a, a.copy())
    direct = rung.kernel.count(*rung.launch(a, a, a.copy()))
    found, wanted = (replace(c, seconds_emulated=0) for c in (log.launches[0].counts, direct))
    assert found == wanted
