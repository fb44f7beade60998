"""The emulator's counts are the hardware's: every kernel that was read with Nsight Compute, all but the named ones."""

import json

import pytest

from labkit import LabError
from labkit.device import cupy
from labkit.verify import COMPARED, CONFLICTS, COUNTERS, METRICS, REASONS, compare, measure, parse

pytestmark = pytest.mark.compiler
STORED = json.loads((COUNTERS / "nvidia-h200.json").read_text())["kernels"]


@pytest.fixture(scope="module")
def rows():
    return {row.name: row for row in compare(STORED)}


def test_every_stored_kernel_is_compared(rows):
    assert set(rows) == set(STORED) and len(rows) >= 40 + 10


@pytest.mark.parametrize("name", sorted(STORED))
def test_counts_are_equal_or_the_reason_is_named(rows, name):
    row = rows[name]
    assert not row.differs or name in REASONS, str(row)
    assert 0.2 < row.instruction_ratio < 2.5


def test_no_reason_outlives_its_difference(rows):
    by_version = {"math_float"}  # depends on the NVRTC at hand
    assert [name for name in REASONS if not rows[name].differs and name not in by_version] == []


def test_bank_conflicts_are_equal_but_where_it_is_said(rows):
    assert {n for n, row in rows.items() if any(key.endswith("conflicts") for key in row.differs)} == CONFLICTS


def test_ncus_table_is_read_launch_by_launch():
    head = '"ID","Kernel Name","Metric Name","Metric Value"'
    metric = METRICS["global_load_sectors"]
    text = f'==PROF== noise\n{head}\n"1","b","{metric}","n/a"\n"0","a","{metric}","1,024"\n"0","a","other","5"'
    assert parse(text) == [{"global_load_sectors": 1024}, {"global_load_sectors": 0}]
    assert "global_load_sectors" in COMPARED


@pytest.mark.skipif(cupy() is not None, reason="this machine has a GPU to measure on")
def test_measuring_without_a_gpu_is_refused():
    with pytest.raises(LabError, match="no GPU"):
        measure()
