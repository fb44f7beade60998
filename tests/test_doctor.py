"""The doctor names each mismatch with its cure."""

import sys

import pytest

from labkit.doctor import CHECKS, _cupy_matches, _torch_architecture, doctor

rooms = sys.modules["labkit.doctor"]


def test_this_machine_is_examined_whole():
    report = doctor()
    assert [f.check for f in report.findings] == list(CHECKS)
    assert all(f.cure for f in report.findings if f.state == "fail")
    assert report.verdict in str(report) and report.verdict in report._repr_html_()


def test_a_gpu_that_torch_was_not_built_for():
    state, found, cure = _torch_architecture("torch", "sm_120", ["sm_80", "sm_90"])
    assert state == "fail" and "sm_120" in found and "sm_120" in cure
    assert _torch_architecture("torch", "sm_86", ["sm_80"])[0] == "ok"
    assert _torch_architecture("torch", "sm_120", ["sm_90", "compute_90"])[0] == "ok"


def test_a_cupy_newer_than_the_driver():
    state, found, cure = _cupy_matches("cupy-cuda13x", 12040)
    assert state == "fail" and "CUDA 13" in found and "cupy-cuda12x" in cure


def test_two_cupy_wheels(monkeypatch):
    monkeypatch.setattr(rooms, "_cupy_wheels", lambda: ["cupy-cuda12x", "cupy-cuda13x"])
    state, found, cure = rooms._cupy()
    assert state == "fail" and "two" in found and "uninstall" in cure


@pytest.mark.parametrize(("driver", "state"), [(None, "note"), (13000, "fail")])
def test_no_cupy_matters_only_with_a_driver(monkeypatch, driver, state):
    monkeypatch.setattr(rooms, "_cupy_wheels", list)
    monkeypatch.setattr(rooms, "_driver_cuda", lambda: driver)
    assert rooms._cupy()[0] == state


def test_a_check_that_breaks_is_itself_a_finding(monkeypatch):
    monkeypatch.setitem(CHECKS, "torch", lambda: 1 / 0)
    finding = next(f for f in doctor().findings if f.check == "torch")
    assert finding.state == "fail" and "ZeroDivisionError" in finding.found
