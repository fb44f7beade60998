"""python -m labkit: doctor and record."""

import json

import pytest

from labkit import LabError
from labkit.__main__ import _shard, main
from labkit.device import cupy
from labkit.notebook import run_cells


def notebook(path, *cells):
    code = [{"cell_type": "code", "source": s, "metadata": {"tags": t}} for s, *t in cells]
    path.write_text(json.dumps({"cells": code}))
    return path


def test_doctor_prints_its_findings(capsys):
    main(["doctor"])
    assert "Python" in capsys.readouterr().out


@pytest.mark.skipif(cupy() is not None, reason="this machine has a GPU to record")
def test_recording_without_a_gpu_is_refused_not_faked(capsys):
    assert main(["record"]) == 1
    assert "no GPU" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["", "0/2", "3/2", "a/b", "1"])
def test_a_shard_is_i_of_n(text):
    assert _shard("2/3") == (2, 3)
    with pytest.raises(LabError, match="i/n"):
        _shard(text)


def test_cells_share_a_namespace_and_an_open_exercise_may_raise(tmp_path):
    path = notebook(tmp_path / "lab.ipynb", ["x = 1"], ["1 / 0", "raises-exception"], ["y = x + 1"])
    assert [space.get("y") for _, space in run_cells(path)] == [None, None, 2]


def test_a_cell_that_fails_is_named(tmp_path):
    with pytest.raises(LabError, match="cell 2"):
        list(run_cells(notebook(tmp_path / "lab.ipynb", ["x = 1"], ["1 / 0"])))
    (tmp_path / "no.ipynb").write_text("no")
    with pytest.raises(LabError, match="read the lab"):
        list(run_cells(tmp_path / "no.ipynb"))
