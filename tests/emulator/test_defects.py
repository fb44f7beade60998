"""Each planted defect is found, and named; its clean twin runs without a word."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from labkit.emulator import compile_kernel, launch
from labkit.errors import LabError

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "kernels")]
from arguments import prepare  # noqa: E402 — shared by the emulator's tests
from defects import DEFECTS, Defect  # noqa: E402 — the corpus is a folder of its own

pytestmark = pytest.mark.compiler


def run(d: Defect, bad: bool) -> None:
    _, args = prepare(list(d.args))
    launch(compile_kernel(d.source(bad)), d.grid, d.block, args, d.shared, patience=0.5)


@pytest.mark.parametrize("defect", DEFECTS, ids=lambda d: d.name)
def test_found(defect: Defect) -> None:
    with pytest.raises(LabError) as caught:
        run(defect, bad=True)
    assert defect.says in caught.value.found
    assert "line " in caught.value.found and "`k`" in caught.value.asked


@pytest.mark.parametrize("defect", DEFECTS, ids=lambda d: d.name)
def test_clean_twin(defect: Defect) -> None:
    run(defect, bad=False)


def test_enough() -> None:
    assert len(DEFECTS) >= 30 and len({d.name for d in DEFECTS}) == len(DEFECTS)
