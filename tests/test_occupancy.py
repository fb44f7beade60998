"""Occupancy against NVIDIA's published examples and its own properties."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labkit import LabError
from labkit.device import known, slugs
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
        # A quarter of the SM (16,384 registers) holds whole warps; a block takes warps of all four alike.
        quarter = 65536 // 4 // (-(-registers * 32 // 256) * 256)
        assert 4 * quarter < -(-block // 128) * 4 or shared > gpu.limits.shared_per_block * 0.9
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
        or more * -(-warps // 4) * 4 * -(-registers * 32 // 256) * 256 > limit.registers
        or more * (shared + limit.shared_reserved + limit.shared_unit) > limit.shared
    )


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
