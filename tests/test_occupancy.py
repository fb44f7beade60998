"""Occupancy against NVIDIA's own calculator, compiled here from its header, and its own properties."""

import ctypes
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labkit import LabError
from labkit.device import known, slugs
from labkit.emulator import include_paths
from labkit.occupancy import occupancy

H200 = known("nvidia-h200")


@given(
    name=st.sampled_from(slugs()),
    registers=st.integers(1, 255),
    shared=st.integers(0, 48 * 1024),
    block=st.integers(1, 1024),
)
def test_what_is_resident_fits_and_one_block_more_does_not(name, registers, shared, block):
    gpu = known(name)
    try:
        fit = occupancy(gpu, registers, shared, block)
    except LabError:
        # A block is launched only if its warps fit, four quarters of the SM alike.
        assert -(-block // 128) * 4 * per_warp(registers) > 65536 or shared > gpu.limits.shared_per_block * 0.9
        return
    limit, warps = gpu.limits, -(-block // 32)
    assert fit.blocks * warps <= limit.warps and fit.blocks <= limit.blocks
    assert fit.blocks * warps * 32 * registers <= limit.registers
    assert fit.blocks * shared <= limit.shared
    assert fit.limited_by
    more = fit.blocks + 1
    assert (
        more * warps > limit.warps
        or more > limit.blocks
        or more * warps > 16384 // per_warp(registers) * 4
        or more * (shared + limit.shared_reserved + limit.shared_unit) > limit.shared
    )


def per_warp(registers):
    return -(-registers * 32 // 256) * 256


@given(registers=st.integers(1, 254), block=st.integers(1, 512))
def test_a_register_more_never_raises_occupancy(registers, block):
    assert warps(registers + 1, block) <= warps(registers, block)


def warps(registers, block):
    try:
        return occupancy(H200, registers, 0, block).warps
    except LabError:
        return 0


def test_a_tile_that_fits_nowhere_is_explained():
    with pytest.raises(LabError, match="shared memory"):
        occupancy(H200, 32, 300 * 1024, 256)


@pytest.fixture(scope="module")
def calculator(tmp_path_factory):
    """NVIDIA's calculator as a function of a GPU, registers, shared bytes and block: active blocks, 0 for none."""
    header, compiler = list(_headers()), shutil.which("c++") or shutil.which("g++")
    if not header or compiler is None:
        pytest.skip("needs a C++ compiler and cuda_occupancy.h")
    library = tmp_path_factory.mktemp("occupancy") / "occupancy.so"
    source = Path(__file__).with_name("occupancy.cpp")
    command = [compiler, "-O1", "-w", "-shared", "-fPIC", f"-I{header[0]}", str(source), "-o", str(library)]
    subprocess.run(command, check=True)
    active = ctypes.CDLL(str(library)).active_blocks

    def ask(gpu, registers, shared, block):
        limit, number = gpu.limits, int(gpu.arch.removeprefix("sm_"))
        sizes = (limit.warps, limit.shared, limit.shared_per_block, limit.shared_reserved)
        return active(*divmod(number, 10), *sizes, registers, shared, block)

    return ask


def _headers():
    try:
        yield from (path for path in include_paths() if (Path(path) / "cuda_occupancy.h").is_file())
    except LabError:
        return


@given(
    name=st.sampled_from(slugs()),
    registers=st.integers(1, 255),
    shared=st.one_of(st.just(0), st.integers(0, 227 * 1024)),
    block=st.integers(1, 1024),
)
@settings(max_examples=1000, deadline=None)
def test_it_is_the_answer_of_nvidias_calculator(calculator, name, registers, shared, block):
    gpu = known(name)
    try:
        ours = occupancy(gpu, registers, min(shared, gpu.limits.shared_per_block), block).blocks
    except LabError:
        ours = 0
    assert ours == calculator(gpu, registers, min(shared, gpu.limits.shared_per_block), block)
