"""The monitor on a fake NVML: what it reads, what it says of what it may not read, and what it costs."""

from __future__ import annotations

import json
import sys
import time

import pynvml as real
import pytest

from labkit import LabError
from labkit.monitor import Monitor
from labkit.monitor.gpm import APART
from labkit.monitor.quantities import ALL, GPM
from labkit.monitor.samples import HOST, Samples

sys.path.insert(0, __file__.rsplit("/", 1)[0])
from fakenvml import Card, FakeNvml


@pytest.fixture
def install(monkeypatch):
    def put(*cards, **more):
        fake = FakeNvml(*cards, **more)
        monkeypatch.setitem(sys.modules, "pynvml", fake)
        return fake

    return put


def watched(seconds=0.35, hertz=20, **more):
    with Monitor(hertz, **more) as seen:
        time.sleep(seconds)
    return seen.samples


def test_energy_is_the_counters_rise_over_the_whole_time_or_else_power_times_time():
    counter = {"energy": (0.0, None, 100.0, None), "power": (10.0,) * 4}
    assert Samples((0.0, 1.0, 2.0, 3.0), {HOST: counter}).joules() == 150
    assert Samples((0.0, 1.0, 2.0, 3.0), {HOST: {"power": (10.0,) * 4}}).joules() == 30


def test_reads_every_meter_in_base_units(install):
    fake = install(Card())
    seen = watched()
    assert seen.mean("utilisation") == 100 and seen.mean("memory_controller") == 15
    assert seen.mean("sm_active") == 82 and seen.mean("sm_occupancy") == 12 and seen.mean("tensor") == 79
    assert seen.mean("dram") == 15 and seen.mean("pcie_received") == 2048 * 2**20
    assert seen.mean("power") == 650 and seen.mean("power_now") == 640
    assert seen.mean("sm_clock") == 1755e6 and seen.mean("memory_clock") == 3201e6
    assert seen.mean("temperature") == 57 and seen.mean("memory_used") == 20 << 30
    assert set(seen.series("limited_by")) == {"power cap"}
    counted = [joules for joules in seen.series("energy") if joules is not None]
    assert counted == pytest.approx([50 * reading for reading in range(len(counted))])
    facts = seen.gpus[0]
    assert (facts.power_limit, facts.slowdown, facts.sm_clock) == (700, 90, 1980e6)
    assert facts.pcie == pytest.approx(63e9, rel=0.01)
    assert fake.samples == 0, "GPM samples were not freed"


def test_the_host_is_read_too(install):
    install(Card())
    seen = watched(1.5)
    assert 0 <= seen.mean("cpu") <= seen.mean("cpu_busiest") <= 100
    assert seen.mean("host_memory") > 1e6
    assert "cpu0" in seen.tracks["host"]


def test_gpm_differences_samples_100_ms_apart(install):
    install(Card())
    seen = watched(0.4, hertz=100)
    assert len(seen) > 20
    first = next(i for i, value in enumerate(seen.series("sm_active")) if value is not None)
    assert APART <= seen.time[first] - seen.time[0] < 2 * APART + 0.1


def test_it_keeps_the_pace_and_costs_less_than_one_percent_of_a_core(install):
    install(Card())
    runs = [watched(1.5, hertz=10) for _ in range(3)]
    assert all(14 <= len(seen) <= 17 for seen in runs)
    assert min(seen.cpu_share for seen in runs) < 0.01


def test_without_a_driver_the_host_alone_is_sampled_and_it_says_why(install):
    install(driver=real.NVML_ERROR_LIBRARY_NOT_FOUND)
    seen = watched()
    assert not seen.gpus and "LibraryNotFound" in seen.silent
    assert "no GPU" in str(seen.summary()) and seen.to_rows()[0]["gpu"] is None
    with pytest.raises(LabError, match="driver"):
        Monitor(gpus=[0]).start()


def test_without_the_package_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert "pip install nvidia-ml-py" in watched().silent


def test_a_card_without_gpm_says_so_and_gives_what_it_has(install):
    install(Card("NVIDIA GeForce RTX 3060", gpm=None))
    seen = watched()
    assert seen.mean("utilisation") == 100
    assert "no GPM" in seen.missing["0"]["sm_active"]
    assert all(v is None for v in seen.series("sm_active"))
    assert seen.mean("pcie_received") == 3e6, "PCIe comes from elsewhere then"
    assert "Hopper" in str(seen.summary())


def test_a_driver_that_does_not_know_gpm(install):
    install(Card(refused={"nvmlGpmQueryDeviceSupport": real.NVML_ERROR_FUNCTION_NOT_FOUND}))
    assert "too old" in watched().missing["0"]["tensor"]


def test_a_field_that_the_driver_does_not_have(install, monkeypatch):
    fake = install(Card())
    fields = fake.nvmlDeviceGetFieldValues

    def without(card, ids):
        values = fields(card, ids)
        values[0].nvmlReturn = real.NVML_ERROR_NOT_SUPPORTED
        return values

    fake.nvmlDeviceGetFieldValues = without
    seen = watched(0.1)
    assert seen.missing["0"]["power_now"].startswith("not offered") and seen.mean("power") == 650


def test_a_package_that_does_not_know_a_constant(install):
    install(Card(), lacks=("NVML_FI_DEV_POWER_INSTANT", "NVML_GPM_METRIC_INTEGER_UTIL", "nvmlMemory_v2"))
    seen = watched()
    assert seen.mean("memory_used") == 20 << 30 and seen.mean("fp32") == 1


def test_a_refused_permission_is_named_and_the_rest_goes_on(install):
    refused = dict.fromkeys(("nvmlDeviceGetPowerUsage", "nvmlGpmSampleGet"), real.NVML_ERROR_NO_PERMISSION)
    seen_card = Card(refused=refused)
    install(seen_card)
    seen = watched()
    assert seen.missing["0"]["power"] == "permission refused"
    assert "permission refused" in seen.missing["0"]["sm_active"]
    assert seen.mean("utilisation") == 100
    assert seen_card.calls["nvmlDeviceGetPowerUsage"] == 1, "what is refused for good is not asked again"


def test_a_passing_failure_leaves_a_hole_not_an_end(install):
    card = Card()
    install(card)
    with Monitor(20) as monitor:
        time.sleep(0.15)
        card.refused["nvmlDeviceGetPowerUsage"] = real.NVML_ERROR_TIMEOUT
        time.sleep(0.15)
        del card.refused["nvmlDeviceGetPowerUsage"]
        time.sleep(0.15)
    power = monitor.samples.series("power")
    assert None in power and power[0] == power[-1] == 650
    assert "power" not in monitor.samples.missing.get("0", {})


def test_a_gpu_that_is_lost_ends_alone(install):
    lost = Card(bus="00000000:2A:00.0", refused_after={"*": (4, real.NVML_ERROR_GPU_IS_LOST)})
    install(Card(), lost)
    seen = watched(0.5)
    assert "lost, since" in seen.missing["1"]["everything"]
    assert seen.series("utilisation", "1")[-1] is None
    assert seen.series("utilisation", "0")[-1] == 100
    assert "lost" in str(seen.summary())


def test_a_gpu_that_may_not_be_opened_is_named_and_the_others_are_read(install, monkeypatch):
    fake = install(Card(), Card("NVIDIA L4", gpm=None))
    opened = fake.nvmlDeviceGetHandleByIndex

    def refuse(index):
        if index == 0:
            raise real.NVMLError(real.NVML_ERROR_NO_PERMISSION)
        return opened(index)

    fake.nvmlDeviceGetHandleByIndex = refuse
    seen = watched(0.1)
    assert [gpu.label for gpu in seen.gpus] == ["1"] and "permission refused" in seen.missing["0"]["everything"]


def test_gpm_that_is_refused_later_leaves_the_pcie_meters(install):
    card = Card(refused_after={"nvmlGpmSampleGet": (5, real.NVML_ERROR_NO_PERMISSION)})
    install(card)
    seen = watched(0.8)
    assert "permission refused" in seen.missing["0"]["dram"] and seen.series("pcie_received")[-1] == 3e6
    assert seen.mean("dram") == 15, "what was read before stays"


def test_several_monitors_are_never_in_gpm_at_once(install):
    fake = install(Card())
    fake.gpm_seconds = 0.003
    monitors = [Monitor(hertz=50) for _ in range(3)]
    for monitor in monitors:
        monitor.start()
    time.sleep(0.5)
    assert all(monitor.stop().mean("sm_active") == 82 for monitor in monitors)
    assert fake.samples == 0


def test_several_gpus_and_a_choice_of_them(install):
    install(Card(), Card("NVIDIA L4", "00000000:2A:00.0", gpm=None))
    assert [gpu.name for gpu in watched(0.1).gpus] == ["NVIDIA H200", "NVIDIA L4"]
    assert [gpu.label for gpu in watched(0.1, gpus=[1]).gpus] == ["1"]
    assert [gpu.label for gpu in watched(0.1, gpus=["0000:2A:00.0"]).gpus] == ["1"]
    with pytest.raises(LabError, match="GPU 5"):
        Monitor(gpus=[5]).start()


def test_mig_instances_are_named_and_read_through_their_parent(install):
    card = Card(parts=2)
    install(card)
    seen = watched()
    assert [gpu.label for gpu in seen.gpus] == ["0:0", "0:1"] and "MIG 1g.18gb" in seen.gpus[0].name
    assert seen.missing["0:0"]["utilisation"].startswith("not offered")
    assert seen.mean("power", "0:1") == 650 and seen.mean("sm_active", "0:1") == 82
    assert card.calls["nvmlGpmMigSampleGet"] > 2 and "nvmlGpmSampleGet" not in card.calls


def test_a_laptop_has_a_battery_and_no_power_limit(install, monkeypatch):
    import psutil

    refused = dict.fromkeys(
        ("nvmlDeviceGetEnforcedPowerLimit", "nvmlDeviceGetPowerManagementLimit", "nvmlDeviceGetPowerUsage"),
        real.NVML_ERROR_NOT_SUPPORTED,
    )
    install(Card("NVIDIA GeForce RTX 4070 Laptop GPU", gpm=None, refused=refused))
    battery = type("sbattery", (), {"percent": 63.0, "power_plugged": False})()
    monkeypatch.setattr(psutil, "sensors_battery", lambda: battery, raising=False)
    seen = watched(0.5)
    assert seen.mean("battery") == 63 and "battery" in seen.series("plugged")
    assert seen.gpus[0].power_limit is None and "power" in seen.missing["0"]


def test_the_slowdown_temperature_comes_from_the_margin_on_newer_cards(install):
    install(Card(refused={"nvmlDeviceGetTemperatureThreshold": real.NVML_ERROR_NOT_SUPPORTED}))
    assert watched(0.05).gpus[0].slowdown == 87


def test_processes_are_named(install):
    import os

    install(Card(processes=((os.getpid(), 1 << 30), (99999999, None))))
    found = watched(0.05).processes
    assert {(p.pid, p.bytes) for p in found} == {(os.getpid(), 1 << 30), (99999999, None)}
    assert "python" in next(p.name for p in found if p.bytes).lower() or found


def test_saved_samples_come_back(install, tmp_path):
    install(Card(), Card("NVIDIA L4", "00000000:2A:00.0", gpm=None))
    with Monitor(20) as monitor:
        time.sleep(0.3)
    monitor.save(tmp_path / "seen.json")
    again = Monitor.load(tmp_path / "seen.json")
    assert again.source == "recorded" and again.gpus == monitor.samples.gpus
    assert again.series("power") == monitor.samples.series("power")
    assert again.missing == monitor.samples.missing
    assert "recorded, NVIDIA H200" in again.origin


@pytest.mark.parametrize(
    "damage", ["", "[]", '{"format": 2}', '{"format": 1, "time": [0], "tracks": {"0": {"power": []}}}']
)
def test_damaged_files_are_refused(tmp_path, damage):
    (tmp_path / "seen.json").write_text(damage)
    with pytest.raises(LabError):
        Monitor.load(tmp_path / "seen.json")
    with pytest.raises(LabError, match="load"):
        Monitor.load(tmp_path / "absent.json")


def test_a_dataframe_needs_pandas_and_says_so(install, monkeypatch):
    install(Card())
    seen = watched(0.1)
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(LabError, match="pip install pandas"):
        seen.to_dataframe()
    rows = seen.to_rows()
    assert rows[0]["gpu"] == "0" and rows[0]["power"] == 650
    json.dumps(rows)


def test_a_long_run_is_thinned_not_kept_whole(install, monkeypatch):
    from labkit.monitor import sampler

    monkeypatch.setattr(sampler, "KEPT", 8)
    install(Card())
    seen = watched(0.5, hertz=50)
    assert 3 <= len(seen) <= 9 and seen.time[-1] > 0.3


def test_what_ends_the_sampling_is_raised_in_the_readers_thread(install, monkeypatch):
    install(Card())
    monitor = Monitor(50).start()
    monkeypatch.setattr(monitor._gpus[0], "read", lambda *_: 1 / 0)
    time.sleep(0.2)
    with pytest.raises(ZeroDivisionError):
        monitor.stop()


@pytest.mark.parametrize("hertz", [0, -1, 1000])
def test_an_impossible_rate_is_refused(hertz):
    with pytest.raises(LabError, match="Hz"):
        Monitor(hertz)
    with pytest.raises(LabError, match="not run"):
        Monitor().samples  # noqa: B018


def test_every_series_has_a_unit(install):
    install(Card())
    seen = watched()
    named = {name for track in seen.tracks.values() for name in track}
    assert {name for name, _ in GPM.values()} <= set(ALL)
    assert named - set(ALL) <= {"limited_by", "plugged"} | {n for n in named if n.startswith("cpu")}
