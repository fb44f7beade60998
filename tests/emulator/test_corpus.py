"""Every kernel of the corpus gives what NumPy gives, and the sanitizer has nothing to say."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from labkit.emulator import Counts, compile_kernel, launch

sys.path.insert(0, str(Path(__file__).parents[1] / "kernels"))
from cases import CASES, HERE, Case, source

sys.path.insert(0, str(Path(__file__).parent))
from arguments import prepare

pytestmark = pytest.mark.compiler


def run(name: str, case: Case, **options: object) -> tuple[list[object], Counts]:
    arrays, args = prepare(case.args)
    compiled = compile_kernel(source(name), case.name)
    return arrays, launch(compiled, case.grid, case.block, args, case.shared, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", sorted(p.stem for p in HERE.glob("*.cu")))
def test_result(name: str) -> None:
    case = CASES[name](np.random.default_rng(7))
    arrays, counts = run(name, case)
    case.check(arrays)
    assert counts.thread_instructions > 0 and counts.blocks == np.prod(case.grid)
    assert counts.warp_instructions * 32 >= counts.thread_instructions


def test_every_kernel_has_a_case() -> None:
    assert {p.stem for p in HERE.glob("*.cu")} == set(CASES)
    assert len(CASES) >= 40


@pytest.mark.parametrize("name", ["saxpy", "transpose_tiled", "scan_hillis", "branches"])
def test_block_waves_do_not_change_counts(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    case = CASES[name](np.random.default_rng(3))
    _, together = run(name, case)
    monkeypatch.setattr(sys.modules["labkit.emulator.launch"], "WAVE", 1)
    arrays, alone = run(name, case)
    case.check(arrays)
    for field in (
        "thread_instructions",
        "warp_instructions",
        "global_load_sectors",
        "global_store_sectors",
        "global_load_requests",
        "shared_load_conflicts",
        "divergent_branches",
        "unique_load_bytes",
    ):
        assert getattr(together, field) == getattr(alone, field), field
