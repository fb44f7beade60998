"""Subnormal floats are flushed operation by operation, also where the emulator need not look."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import labkit
from labkit.emulator import compile_kernel

pytestmark = pytest.mark.compiler
CHAIN = r"""
extern "C" __global__ void chain(const float* a, const float* b, float* out, int steps)
{
    int i = threadIdx.x;
    float sum = 0, v = a[i];
    for (int k = 0; k < steps; k++) {
        v = __fmul_rn(v, 0.5f);
        sum = __fadd_rn(sum, __fmul_rn(v, b[i]));
    }
    out[i] = sum;
}"""
chain = labkit.kernel(CHAIN)
f4, TINY = np.float32, np.float32(2.0**-126)


def flush(x):
    return np.where(np.abs(x) < TINY, np.copysign(f4(0), x), x).astype(f4)


def reference(a, b, steps):
    total, v = np.zeros_like(a), flush(a)
    for _ in range(steps):
        v = flush(v * f4(0.5))
        total = flush(total + flush(flush(v) * flush(b)))
    return total


NEAR = st.floats(2.0**-135, 2.0**-118, width=32) | st.just(0.0)


@given(
    st.lists(NEAR, min_size=32, max_size=32),
    st.lists(st.sampled_from([1.0, -1.0, 0.25, 2.0**-20]), min_size=32, max_size=32),
)
def test_every_operation_flushes_its_inputs_and_its_result(a, b):
    a, b, out = np.array(a, f4), np.array(b, f4), np.empty(32, f4)
    chain(1, 32, (a, b, out, 6))
    assert out.tobytes() == reference(a, b, 6).tobytes()


def test_a_result_is_known_to_be_flushed_and_a_loaded_value_is_not():
    program = chain.compiled("sm_90").program
    loads = {i.args[0].name for i in program.code if i.op == "ld" and i.types[-1] == "f32"}
    products = {i.args[0].name for i in program.code if i.op == "mul" and i.types[:1] == ("f32",)}
    slots = {name: slot for name, (slot, _) in program.registers.items()}
    assert all(slots[name] not in program.flushed for name in loads)
    assert products - loads and all(slots[name] in program.flushed for name in products - loads)


def test_without_ftz_subnormal_numbers_stay():
    assert ".ftz" not in compile_kernel(CHAIN, ftz=False).ptx and ".ftz" in compile_kernel(CHAIN).ptx


TILE = r"""
extern "C" __global__ void tile(const float* a, float* out)
{
    __shared__ float t[32];
    t[threadIdx.x] = a[threadIdx.x];
    __syncthreads();
    out[threadIdx.x] = __fmul_rn(t[31 - threadIdx.x], 4.0f);
}"""
tile = labkit.kernel(TILE)


@given(st.lists(NEAR | st.just(1.0), min_size=32, max_size=32))
def test_what_comes_from_shared_memory_is_flushed_if_it_has_to_be(a):
    a, out = np.array(a, f4), np.empty(32, f4)
    tile(1, 32, (a, out))
    assert out.tobytes() == flush(flush(a[::-1]) * f4(4)).tobytes()
