"""Devices: recorded, from datasheets, chosen by name."""

import json
import sys

import pytest

import labkit
from labkit import LabError
from labkit.device import LIMITS, Device, known, slug, slugs


@pytest.fixture(autouse=True)
def _back_to_the_default():
    yield
    labkit.use(None)


def test_a_name_becomes_a_folder():
    assert slug("NVIDIA GeForce RTX 4090") == "nvidia-geforce-rtx-4090"


def test_every_listed_gpu_is_complete_and_says_where_its_numbers_are_from():
    for name in slugs():
        gpu = known(name)
        assert gpu.slug == name and gpu.sms > 0 and gpu.copy_bandwidth > 0 and gpu.fp32_flops > 0
        assert gpu.reference if gpu.source == "datasheet" else gpu.date
        assert gpu.limits.warps * 32 >= 1024


def test_the_chosen_gpu_stands_in_until_it_is_unchosen():
    before = labkit.device()
    assert labkit.use("nvidia-a100").arch == "sm_80"
    assert labkit.device().name.startswith("NVIDIA A100")
    assert labkit.use(None) == before


def test_an_unknown_gpu_is_refused_with_the_known_ones():
    with pytest.raises(LabError, match="nvidia-a100"):
        labkit.use("voodoo-2")


def test_a_newer_chip_gets_the_limits_of_the_nearest_older_one():
    gpu = known("nvidia-h200")
    newer = Device.from_dict({**gpu.to_dict(), "arch": "sm_99"})
    assert newer.limits == LIMITS["sm_90"]
    with pytest.raises(LabError, match=r"7\.0"):
        _ = Device.from_dict({**gpu.to_dict(), "arch": "sm_35"}).limits


def test_a_damaged_device_file_is_a_lab_error(tmp_path, monkeypatch):
    folder = tmp_path / "recordings" / "broken"
    folder.mkdir(parents=True)
    (folder / "device.json").write_text(json.dumps({"name": "half"}))
    monkeypatch.setattr(sys.modules["labkit.device"], "DATA", tmp_path)
    with pytest.raises(LabError, match="record"):
        known.__wrapped__("broken")
