"""Without a compiler (macOS) the kit's own kernels run from shipped PTX, and a new one says why it cannot."""

import importlib

import numpy as np
import pytest

import labkit
from labkit import LabError
from labkit.__main__ import CUDA, SHIPPED
from labkit.notebook import run_cells
from labkit.recording import DATA

LABS = sorted((DATA.parent / "notebooks").glob("[0-9]*.ipynb"))
COPY = 'extern "C" __global__ void twice(float* x) { x[blockIdx.x * blockDim.x + threadIdx.x] *= 2; }'


@pytest.fixture
def no_compiler(monkeypatch):
    def refuse(*_):
        raise LabError("compile CUDA C", "NVRTC does not exist for macOS", "a recorded result")

    monkeypatch.setattr(importlib.import_module("labkit.kernel"), "compile_kernel", refuse)


def test_a_kernel_of_a_lab_runs_and_counts(no_compiler):
    x = np.ones(256, np.float32)
    twice = labkit.kernel(COPY)
    twice(2, 128, (x,))
    assert (x == 2).all() and twice.resources.registers > 0
    assert twice.count(2, 128, (x,)).load_sectors_per_request == 4


@pytest.mark.parametrize(
    "file", [f for ladder in SHIPPED for f in sorted((CUDA / ladder).glob("*.cu"))], ids=lambda f: f.stem
)
def test_a_ladder_is_shipped_as_it_stands(no_compiler, file):
    assert labkit.kernel(file).resources.registers > 0


def test_a_new_kernel_says_why_it_cannot_be_compiled(no_compiler):
    with pytest.raises(LabError, match="macOS"):
        labkit.kernel(COPY.replace("2;", "3;"))


@pytest.mark.notebook
@pytest.mark.parametrize("path", LABS, ids=lambda path: path.stem)
def test_every_lab_runs_to_its_end(no_compiler, path):
    assert sum(1 for _ in run_cells(path)) > 5
