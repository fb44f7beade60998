"""python -m labkit: record labs on this GPU, watch its meters, or ask the doctor what this machine can do."""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import replace
from pathlib import Path

from . import recording as recordings
from . import shipped, verify
from .cuda import Rung
from .device import DATA, STAND_IN, Device, cupy, live
from .doctor import doctor
from .emulator import Compiled
from .errors import LabError
from .experiment import Experiment
from .kernel import Kernel, kernel
from .monitor import Workload
from .monitor.terminal import watch
from .notebook import run_cells
from .recording import Recorder, Recording, environment

NOTEBOOKS = DATA.parent / "notebooks"
CUDA = Path(__file__).parent / "cuda"
SHIPPED = ("transpose", "reduction")  # ladders whose files are kernels as they stand, without defines


def main(argv: list[str] | None = None) -> int:
    """Parse the command line and run it; a LabError is printed, not raised. Returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m labkit", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("doctor", help="check driver, CUDA, torch, CuPy, NVRTC, widgets; name what is wrong")
    record = commands.add_parser("record", help="run labs on this GPU and keep what they measure")
    record.add_argument("notebooks", nargs="*", type=Path, help="default: every lab")
    record.add_argument("--minutes", type=float, default=float("inf"), help="stop cleanly after this long")
    record.add_argument("--shard", default="1/1", help="i/n: measure every n-th setting, starting at the i-th")
    record.add_argument("--seconds", type=float, default=0.5, help="time budget of one measurement")
    meters = commands.add_parser("monitor", help="the meters of all GPUs and the host, until Ctrl-C")
    meters.add_argument("--save", type=Path, help="a JSON file for labkit.Monitor.load")
    meters.add_argument("--seconds", type=float, default=float("inf"), help="end after this long")
    meters.add_argument("--hertz", type=float, default=10.0, help="samples a second")
    counts = commands.add_parser("verify-counts", help="the emulator's counts beside those ncu reads on this GPU")
    counts.add_argument("--launch", action="store_true", help="only launch each kernel once (what runs under ncu)")
    counts.add_argument("--stored", action="store_true", help="compare with the stored counters; needs no GPU")
    commands.add_parser("ptx", help="ship the PTX of the labs' kernels, for machines without a compiler")
    asked = parser.parse_args(argv)
    try:
        if asked.command == "doctor":
            report = doctor()
            print(report)
            return 0 if report.fit else 1
        if asked.command == "monitor":
            return watch(asked.hertz, asked.seconds, asked.save)
        if asked.command == "ptx":
            return ship_ptx()
        if asked.command == "verify-counts":
            return verify_counts(asked.launch, asked.stored)
        return record_labs(asked.notebooks, asked.minutes, asked.shard, asked.seconds)
    except LabError as error:
        print(error, file=sys.stderr)
        return 1


def ship_ptx() -> int:
    """Run every lab and write the PTX of the kernels and rungs that its cells name, and of the ladders in `SHIPPED`."""
    from cuda.bindings import nvrtc

    files = [path for ladder in SHIPPED for path in sorted((CUDA / ladder).glob("*.cu"))]
    found: dict[str, Compiled] = {k.fingerprint: k.compiled("sm_90") for k in map(kernel, files)}
    for path in sorted(NOTEBOOKS.glob("[0-9]*.ipynb")):
        for _, namespace in run_cells(path):
            for value in namespace.values():
                made = value.values() if isinstance(value, dict) else [value]
                made = [k.kernel if isinstance(k, Rung) and not k.arch else k for k in made]
                found.update({k.fingerprint: k.compiled("sm_90") for k in made if isinstance(k, Kernel)})
    _, major, minor = nvrtc.nvrtcVersion()
    print(f"{shipped.write(found, f'NVRTC {major}.{minor}')} kernels in {shipped.PATH}")
    return 0


def verify_counts(launch: bool, stored: bool) -> int:
    """Launch the corpus, or compare the emulator with the hardware's counters. Status 1 if any differs."""
    if launch:
        print(json.dumps(verify.launch_all()))
        return 0
    path = verify.COUNTERS / f"{STAND_IN}.json" if stored else verify.measure()
    rows = verify.compare(json.loads(path.read_text())["kernels"])
    print("\n".join(map(str, rows)))
    print(f"{sum(not row.differs for row in rows)} of {len(rows)} kernels equal")
    return int(any(row.differs and row.name not in verify.REASONS for row in rows))


def record_labs(notebooks: list[Path], minutes: float, shard: str, seconds: float) -> int:
    """Record each lab into data/recordings/<gpu>/<lab>.json; goes on where an earlier run stopped."""
    if cupy() is None:
        raise LabError("record labs", "no GPU is usable here", "a machine with an NVIDIA GPU; see labkit doctor")
    part, parts = _shard(shard)
    deadline = time.monotonic() + 60 * minutes
    gpu = replace(live(), source="recorded")
    print(gpu, flush=True)
    _save_device(gpu)
    for path in notebooks or sorted(NOTEBOOKS.glob("[0-9]*.ipynb")):
        if not record_lab(path, gpu, deadline, part, parts, seconds):
            print("time is up: run the same command again to go on")
            return 0
    return 0


def _shard(text: str) -> tuple[int, int]:
    part, _, parts = text.partition("/")
    if not (part.isdigit() and parts.isdigit() and 1 <= int(part) <= int(parts)):
        raise LabError(f"record --shard {text}", "not i/n with 1 ≤ i ≤ n", "--shard 1/4")
    return int(part), int(parts)


def _save_device(gpu: Device) -> None:
    path = DATA / "recordings" / gpu.slug / "device.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(gpu.to_dict(), indent=1) + "\n")


def record_lab(path: Path, gpu: Device, deadline: float, part: int, parts: int, seconds: float) -> bool:
    """Run one lab, sweeping each experiment as soon as its cell has run. False when time ran out."""
    target = DATA / "recordings" / gpu.slug / f"{path.stem}.json"
    recording = _open(target, gpu)
    recordings.active = Recorder(recording, seconds)
    swept: set[str] = set()
    try:
        for _, namespace in run_cells(path):
            for found in [value for value in namespace.values() if isinstance(value, Experiment | Workload)]:
                if found.name not in swept:
                    swept.add(found.name)
                    if not _sweep(found, recording, deadline, part, parts):
                        return False
    finally:
        recordings.active = None
        recording.environment = environment()
        recording.save()
    recording.experiments = {name: entry for name, entry in recording.experiments.items() if name in swept}
    recording.save()
    return True


def _open(path: Path, gpu: Device) -> Recording:
    if path.is_file():
        earlier = Recording.load(path)
        earlier.device = gpu
        return earlier
    return Recording(path, gpu)


def _sweep(found: Experiment | Workload, recording: Recording, deadline: float, part: int, parts: int) -> bool:
    points = list(found.settings())[part - 1 :: parts]
    started = time.monotonic()
    for index, full in enumerate(points):
        if time.monotonic() > deadline:
            return False
        try:
            measured = found.measure(full)
            print(f"  {index + 1}/{len(points)} {measured}", flush=True)
        except LabError as error:
            print(f"  {index + 1}/{len(points)} {found.name} {full}: {error.found}", flush=True)
    recording.save()
    print(f"{found.name}: {len(points)} settings in {time.monotonic() - started:.1f} s", flush=True)
    return True


if __name__ == "__main__":
    raise SystemExit(main())
