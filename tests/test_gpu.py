"""What only a GPU can show: the same kernels, arrays and experiments, live."""

import functools

import numpy as np
import pytest

import labkit
from labkit import LabError, Work, experiment, streams
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


# Occupancy: registers by the number of values kept, static and dynamic shared memory, and every kind of block.
KEEPING = r"""
extern "C" __global__ void keeping(const float* a, float* out, int steps)
{
#if SHARED
    __shared__ float tile[SHARED];
    tile[threadIdx.x % SHARED] = a[threadIdx.x];
    __syncthreads();
    a += (int)tile[0];
#endif
    float v[KEEP], sum = 0;
    for (int c = 0; c < KEEP; c++) v[c] = a[threadIdx.x + c * blockDim.x];
    for (int k = 0; k < steps; k++)
        for (int c = 0; c < KEEP; c++) v[c] = v[c] * v[(c + 1) % KEEP] + 0.5f;
    for (int c = 0; c < KEEP; c++) sum += v[c];
    out[threadIdx.x] = sum;
}"""


@pytest.mark.parametrize("keep", [1, 8, 16, 24, 32, 48, 64, 96, 128, 160])
@pytest.mark.parametrize("static", [0, 256, 5000, 12000])
def test_occupancy_is_the_drivers(keep, static):
    kernel = labkit.kernel(KEEPING, defines={"KEEP": keep, "SHARED": static})
    driver, function = cupy().cuda.driver, kernel._function.kernel
    pointer = getattr(function, "ptr", function)
    compared = 0
    for block in (1, 32, 33, 64, 96, 128, 160, 192, 224, 256, 320, 384, 416, 512, 640, 768, 800, 1000, 1024):
        for shared in (0, 1, 1000, 1024, 10_000, 27 << 10, 48 << 10, 100_000, 180_000):
            if 4 * static + shared > live().limits.shared_per_block:
                continue
            theirs = driver.occupancyMaxActiveBlocksPerMultiprocessor(pointer, block, shared)
            try:
                ours = kernel.occupancy(block, shared).blocks
            except LabError:
                ours = 0
            assert ours == theirs, (kernel.resources, block, shared)
            compared += 1
    assert compared > 100


WHERE = r"""
extern "C" __global__ void where(unsigned* sm, unsigned long long* start, unsigned long long nanoseconds)
{
    extern __shared__ float room[];
    unsigned long long begin, now;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(begin));
    if (threadIdx.x == 0) {
        asm volatile("mov.u32 %0, %smid;" : "=r"(sm[blockIdx.x]));
        start[blockIdx.x] = begin;
    }
    do asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now)); while (now - begin < nanoseconds);
}"""


@pytest.mark.parametrize(
    ("block", "shared"), [(256, 0), (64, 0), (96, 0), (1024, 0), (256, 27 << 10), (256, 56 << 10), (128, 112 << 10)]
)
def test_as_many_blocks_are_resident_as_occupancy_says(block, shared):
    """Blocks that begin before the first ones end, counted by SM: what the hardware really does."""
    xp, kernel = labkit.xp, labkit.kernel(WHERE)
    fit, length = kernel.occupancy(block, shared).blocks, 2_000_000
    blocks = 3 * fit * live().sms
    sm, start = xp.zeros(blocks, "uint32"), xp.zeros(blocks, "uint64")
    for _ in range(2):  # the first launch loads the kernel and sets the shared memory's share
        kernel(blocks, block, (sm, start, length), shared=shared)
    begin = start.get() - start.get().min()
    first = sm.get()[begin < length // 2]
    assert set(np.bincount(first, minlength=live().sms).tolist()) == {fit}


def test_what_needs_more_registers_than_there_are_is_refused_before_the_launch():
    kernel = labkit.kernel(KEEPING, defines={"KEEP": 128, "SHARED": 0})
    a, out = (labkit.xp.zeros(1 << 18, "float32") for _ in range(2))
    with pytest.raises(LabError, match="registers"):
        kernel(1, 1024, (a, out, 1))


@pytest.mark.parametrize("by", ["torch", "CuPy"])
def test_a_graph_does_what_the_launches_did(scale, torch, by):
    a, out = torch.ones(N, device="cuda"), torch.zeros(N, device="cuda")
    steps = [(a, out, N, 2.0), (out, a, N, 3.0)]
    replay = streams.graph(lambda: [scale(N // 256, 256, args) for args in steps], by=by)
    a.fill_(1), out.zero_()
    replay()
    torch.cuda.synchronize()
    assert (out == 2).all() and (a == 6).all()


def test_streams_share_the_gpu_and_the_current_stream_waits_for_them(torch):
    out = [torch.zeros(32, device="cuda") for _ in range(8)]
    spin = labkit.kernel(r"""
    extern "C" __global__ void spin(float* out, long long cycles)
    { long long start = clock64(); while (clock64() - start < cycles) {} out[threadIdx.x] += 1; }""")
    calls = [functools.partial(spin, 1, 32, (part, 2_000_000)) for part in out]
    one, eight = (labkit.benchmark(functools.partial(streams.spread, calls, n), budget=0.3) for n in (1, 8))
    assert one.kind == eight.kind == "gpu" and one.median > 4 * eight.median
    before = out[7].clone()
    streams.spread(calls, 8)
    assert (out[7] == before + 1).all()


def test_on_the_wall_clock_a_launch_costs_more_than_on_the_gpu(scale):
    a, out = labkit.xp.ones(1024, "float32"), labkit.xp.zeros(1024, "float32")

    @experiment(wall=[False, True])
    def tiny(wall):
        return Work(lambda: [scale(4, 256, (a, out, 1024, 2.0)) for _ in range(100)], wall=wall)

    gpu, wall = tiny(wall=False), tiny(wall=True)
    assert wall.seconds > gpu.seconds > 1e-5 and wall.counts is None


def test_tuning_finds_the_block_that_is_not_hopeless(scale):
    size = 1 << 26
    a, out = labkit.xp.ones(size, "float32"), labkit.xp.zeros(size, "float32")

    @experiment(block=[1, 32, 128, 256, 512, 2048])
    def blocks(block):
        run = functools.partial(scale, size // block, block, (a, out, size, 2.0))
        return Work(run, bytes=8 * size, check=lambda: (out == 2).all())

    found = blocks.tune(budget=3)
    assert found.best.source == "live" and found.best.settings["block"] in (128, 256, 512)
    assert found.skipped[0][0] == {"block": 2048} and {1} <= {m.settings["block"] for m in found.dropped}
    assert found.seconds < 6
