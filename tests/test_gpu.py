"""What only a GPU can show: the same kernels, arrays and experiments, live."""

import numpy as np
import pytest

import labkit
from labkit import LabError, Work, experiment
from labkit.device import cupy, live

pytestmark = pytest.mark.gpu
SCALE = r"""
extern "C" __global__ void scale(const float* a, float* out, int n, float factor)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = factor * a[i];
}"""
N = 1 << 20


@pytest.fixture(scope="module")
def scale():
    return labkit.kernel(SCALE)


@pytest.fixture(scope="module")
def torch():
    return pytest.importorskip("torch")


def test_cupy_numpy_and_torch_arrays_give_the_same(scale, torch):
    xp, host = labkit.xp, np.random.default_rng().random(N, dtype=np.float32)
    on_gpu, on_host, tensor = xp.empty(N, xp.float32), np.empty_like(host), torch.empty(N, device="cuda")
    for a, out in ((xp.asarray(host), on_gpu), (host, on_host), (torch.tensor(host, device="cuda"), tensor)):
        scale(N // 256, 256, (a, out, N, 3))
    assert np.array_equal(on_gpu.get(), 3 * host)
    assert np.array_equal(on_host, 3 * host)
    assert np.array_equal(tensor.cpu().numpy(), 3 * host)


def test_the_launch_is_on_torchs_current_stream(scale, torch):
    a, out = torch.ones(N, device="cuda"), torch.zeros(N, device="cuda")
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(50_000_000)
        a += 1
        scale(N // 256, 256, (a, out, N, 2.0))
    stream.synchronize()
    assert (out == 4).all()


def test_cupy_and_torch_draw_from_one_pool(torch):
    before = torch.cuda.memory_allocated()
    held = labkit.xp.zeros(1 << 22, "uint8")
    assert torch.cuda.memory_allocated() - before >= held.nbytes


def test_both_engines_agree_and_counting_needs_no_gpu_memory(scale):
    xp = labkit.xp
    a, out = xp.random.default_rng(0).random(N, dtype=xp.float32), xp.zeros(N, xp.float32)
    counts = scale.count(N // 256, 256, (a, out, N, 2.0))
    assert not out.any() and counts.global_load_sectors == N // 8
    host = np.zeros(N, np.float32)
    scale.run_emulated(N // 256, 256, (a.get(), host, N, 2.0))
    scale(N // 256, 256, (a, out, N, 2.0))
    assert np.array_equal(host, out.get())


def test_large_dynamic_shared_memory_is_allowed():
    source = r"""extern "C" __global__ void big(float* out) { extern __shared__ float t[];
      t[threadIdx.x * 400] = threadIdx.x; __syncthreads(); out[threadIdx.x] = t[(31 - threadIdx.x) * 400]; }"""
    out = labkit.xp.zeros(32, labkit.xp.float32)
    labkit.kernel(source)(1, 32, (out,), shared=64 * 1024)
    assert out.get().tolist() == list(range(31, -1, -1))


def test_a_template_and_a_struct():
    source = """struct Pair { float x; int y; };
    template<typename T> __global__ void pair(Pair p, T* out) { out[0] = p.x; out[1] = p.y; }"""
    out, pair = labkit.xp.zeros(2, labkit.xp.float64), np.zeros(1, [("x", "f4"), ("y", "i4")])
    pair["x"], pair["y"] = 1.5, 7
    labkit.kernel(source, name="pair<double>")(1, 1, (pair[0], out))
    assert out.get().tolist() == [1.5, 7.0]


def test_a_live_measurement_is_checked_first_and_says_so(scale):
    xp = labkit.xp
    a, out = xp.ones(1 << 26, xp.float32), xp.zeros(1 << 26, xp.float32)

    @experiment(block=[128, 256], factor=[2, 3])
    def scaled(block, factor):
        def run():
            return scale((1 << 26) // block, block, (a, out, 1 << 26, factor))

        return Work(run, bytes=8 << 26, check=lambda: (out == 2).all())

    m = scaled(block=256)
    assert m.source == "live" and m.checked and 0.3 < m.share < 1.2
    with pytest.raises(LabError, match="wrong"):
        scaled(factor=3)


def test_the_drivers_resources_and_the_measured_ceilings():
    gpu = live()
    assert gpu.copy_bandwidth > 1e11 and gpu.bf16_flops > gpu.fp32_flops > 1e12
    assert labkit.kernel(SCALE).resources.registers > 0 and cupy() is not None


def test_subnormal_numbers_count_as_zero_on_both_engines():
    """CuPy compiles with -ftz=true; the emulator does the same."""
    source = 'extern "C" __global__ void half_of(const float* a, float* out) { out[0] = a[0] * 0.5f; }'
    tiny, on_host = np.array([1.5e-38], np.float32), np.ones(1, np.float32)
    on_gpu = labkit.xp.ones(1, labkit.xp.float32)
    half_of = labkit.kernel(source)
    half_of(1, 1, (labkit.xp.asarray(tiny), on_gpu))
    half_of.run_emulated(1, 1, (tiny, on_host))
    assert on_gpu.get()[0] == on_host[0] == 0
