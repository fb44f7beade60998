"""The model: bounded by the ceilings, monotone where it has to be, and near the recordings."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import labkit
from labkit import LabError
from labkit.device import known, slugs
from labkit.kernel import Launch, counting
from labkit.model import predict

pytestmark = pytest.mark.compiler
COPY = labkit.kernel(
    'extern "C" __global__ void copy(const float4* a, float4* b) '
    "{ int i = blockIdx.x * blockDim.x + threadIdx.x; b[i] = a[i]; }"
)
H200 = known("nvidia-h200")
A, B = np.zeros(1 << 22, np.float32), np.zeros(1 << 22, np.float32)


def launch(vectors, block=256):
    with counting(1_000_000) as log:
        COPY(vectors // block, block, (A, B))
    return log.launches[0]


@given(power=st.integers(10, 20))
def test_nothing_is_faster_than_the_copy_ceiling(power):
    vectors = 1 << power
    assert predict(launch(vectors), H200).seconds >= 32 * vectors / H200.copy_bandwidth


@given(power=st.integers(10, 19))
def test_more_work_takes_longer(power):
    assert predict(launch(1 << power), H200).seconds <= predict(launch(1 << power + 1), H200).seconds


def test_a_large_copy_is_limited_by_dram_and_small_blocks_by_their_number():
    made = launch(1 << 20)
    assert predict(made, H200).limit == "DRAM"
    assert predict(launch(1 << 20, block=32), H200).limit == "starting blocks"
    assert isinstance(made, Launch)


def test_one_launch_is_forecast_for_every_known_gpu():
    told = labkit.forecast(COPY, 4096, 256, (A, B))
    assert [gpu.slug for gpu, *_ in told] == slugs()
    seconds = {gpu.slug: made.seconds for gpu, _, _, made in told}
    assert seconds["nvidia-h200"] < seconds["nvidia-a100"] < seconds["nvidia-t4"]
    assert all(name in str(told) and name in told._repr_html_() for name in ("registers", "H200", "modelled"))


def test_an_unknown_gpu_is_refused():
    with pytest.raises(LabError, match="nvidia-a100"):
        labkit.forecast(COPY, 64, 256, (A, B), gpus=["voodoo"])


FMA = labkit.kernel("""
extern "C" __global__ void multiply(float* x) {
    float v = x[threadIdx.x];
    for (int k = 0; k < 20000; k++) v = v * 0.5f + 1.0f;
    x[threadIdx.x] = v;
}""")


def test_the_fullest_sm_is_the_last_to_end():
    """Arithmetic takes as long as the SM with most blocks: one block too many is a whole wave."""
    seconds = {}
    for blocks in (H200.sms, H200.sms + 1, 2 * H200.sms):
        with counting(1_000_000) as log:
            FMA(blocks, 256, (A,))
        seconds[blocks] = predict(log.launches[0], H200).seconds
    assert seconds[H200.sms + 1] == pytest.approx(seconds[2 * H200.sms], rel=0.02)
    assert seconds[H200.sms + 1] > 1.9 * seconds[H200.sms]
