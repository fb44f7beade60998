"""Exercises answered by a function: right ones pass, wrong ones are told what was asked and expected."""

import pytest

import labkit
from labkit import LabError


def right(kernels, seconds, sms):
    busy = {t for start, end, _ in kernels for t in range(start, end)}
    work = sum((end - start) * used for start, end, used in kernels)
    return 100 * len(busy) / seconds, 100 * work / (seconds * sms)


def twice(kernels, seconds, sms):
    return 100 * sum(end - start for start, end, _ in kernels) / seconds, right(kernels, seconds, sms)[1]


def test_a_right_function_passes():
    assert "right for" in str(labkit.check("two meters", right))


@pytest.mark.parametrize("wrong", [lambda *_: None, lambda *_: (1,), twice, lambda: 1, lambda *_: 1 / 0])
def test_a_wrong_one_is_told_what_was_expected(wrong):
    with pytest.raises(LabError, match="two meters"):
        labkit.check("two meters", wrong)


def fits(registers, shared, block):
    warps = -(-block // 32)
    by_registers = 4 * (16384 // (-(-registers * 32 // 256) * 256)) // warps
    return min(64 // warps, 32, by_registers, 228 * 1024 // (-(-(shared + 1024) // 128) * 128))


def test_occupancy_by_hand():
    assert "right for" in str(labkit.check("occupancy", fits))
    with pytest.raises(LabError, match="least of four"):
        labkit.check("occupancy", lambda registers, shared, block: 2048 // block)
