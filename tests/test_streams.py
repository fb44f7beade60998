"""Streams and graphs without a GPU: everything runs in order, and nothing is modelled that cannot be."""

import pytest

import labkit
from labkit import LabError, Work, experiment, streams

pytestmark = pytest.mark.skipif(labkit.device().source == "live", reason="for machines without a GPU")
ADD = 'extern "C" __global__ void add(float* x, float by) { x[threadIdx.x] = 2 * x[threadIdx.x] + by; }'


def test_calls_run_in_order():
    said = []
    streams.spread([lambda k=k: said.append(k) for k in range(5)], 3)
    streams.graph(lambda: said.append("graph"), by="CuPy")()
    streams.awaited(lambda: said.append("end"))
    assert said == [0, 1, 2, 3, 4, "graph", "end"]


@pytest.mark.compiler
def test_what_overlaps_and_what_the_cpu_takes_is_not_modelled():
    add, x = labkit.kernel(ADD), labkit.xp.ones(32, "float32")

    @experiment(count=[1, 2], wall=[False, True])
    def several(count, wall):
        calls = [lambda: add(1, 32, (x, 1.0))] * 2
        return Work(lambda: streams.spread(calls, count) if count > 1 else calls[0](), wall=wall)

    assert several(count=1).source == "modelled"
    with pytest.raises(LabError, match="not recorded"):
        several(count=2)
    with pytest.raises(LabError, match="launching cannot be modelled"):
        several(wall=True)
