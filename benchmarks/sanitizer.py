"""What compute-sanitizer and the emulator find in kernels with one planted defect, and in clean twins.

    python benchmarks/sanitizer.py --json data/sanitizer/nvidia-h200.json

Needs a GPU and compute-sanitizer. Each defect of tests/kernels/defects.py runs in a process of its own
under each of the four tools, for it may take the GPU's context with it; clean twins share a process. A tool
has found a defect when its report names the kernel. "crash": the GPU itself stopped the kernel while the
tool said nothing of it; "timeout": it never ended.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "tests/kernels"), str(ROOT / "tests/emulator")]
sys.path.append(str(ROOT))  # where labkit is not installed
from defects import DEFECTS, Defect  # noqa: E402 — after the path

TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")
TOGETHER = 10
DONE, MARK = "finished ", "========="
PLACES = ("usr/local/cuda*/bin", "usr/local/cuda*/compute-sanitizer", "opt/nvidia/*")
BY_NAME = {d.name: d for d in DEFECTS}


@dataclass(frozen=True)
class Verdict:
    """What one tool said of a kernel: "found", "", "crash", "timeout", "skipped", "failed"; and its words."""

    result: str
    words: str = ""


@dataclass(frozen=True)
class Job:
    """Kernels that run in one process under one tool."""

    tool: str
    bad: bool
    names: tuple[str, ...]


# In the process under the tool


def source(d: Defect, bad: bool) -> str:
    """The kernel under its defect's name, so that a report tells which one it means."""
    return re.sub(r"\bvoid k\(", f"void k_{d.name}(", d.source(bad))


def compiled(d: Defect, bad: bool) -> Any:
    import cupy

    module = cupy.RawModule(code=source(d, bad), options=("--std=c++17", "-lineinfo"))
    return module.get_function(f"k_{d.name}")


def child(bad: bool, names: Sequence[str]) -> None:
    """Launch kernels one after the other; every array is an allocation of its own, of exactly its size."""
    import cupy

    cupy.cuda.set_allocator(None)  # a pool would round sizes up to 512 bytes and hide small overruns
    for name in names:
        d = BY_NAME[name]
        function = compiled(d, bad)
        args = tuple(cupy.asarray(a) if isinstance(a, np.ndarray) else a for a in d.args)
        function(d.grid, d.block, args, shared_mem=d.shared)
        cupy.cuda.runtime.deviceSynchronize()
        print(DONE + name, flush=True)


def warm() -> None:
    """Compile all kernels once into CuPy's cache on disk, outside of any tool."""
    for d in DEFECTS:
        for bad in (True, False):
            compiled(d, bad)


# Around it


def find_tool() -> str:
    """Path of compute-sanitizer."""
    on_path = shutil.which("compute-sanitizer")
    others = [p for place in PLACES for p in Path("/").glob(f"{place}/compute-sanitizer") if p.is_file()]
    if not on_path and not others:
        sys.exit("compute-sanitizer was not found: it is part of the CUDA toolkit")
    return on_path or str(others[0])


def endless(d: Defect, bad: bool) -> bool:
    return bad and d.says == "spins"


def jobs() -> Iterator[Job]:
    """Those that may hang first, so that their time-outs pass while the others run."""
    for d in sorted(DEFECTS, key=lambda d: d.kind != "synccheck"):
        if not endless(d, True):
            yield from (Job(tool, True, (d.name,)) for tool in TOOLS)
    names = [d.name for d in DEFECTS]
    for start in range(0, len(names), TOGETHER):
        yield from (Job(tool, False, tuple(names[start : start + TOGETHER])) for tool in TOOLS)


def run(sanitizer: str, job: Job, limit: float) -> tuple[str, bool]:
    """(output, whether it timed out) of one process; a hung one is ended with all its children."""
    command = [sanitizer, "--tool", job.tool, "--target-processes", "all", "--error-exitcode", "9",
               sys.executable, __file__, "--child", "bad" if job.bad else "clean", *job.names]  # fmt: skip
    pipe, both = subprocess.PIPE, subprocess.STDOUT
    process = subprocess.Popen(command, stdout=pipe, stderr=both, text=True, errors="replace", start_new_session=True)
    try:
        output, _ = process.communicate(timeout=limit)
        return output, False
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
    try:
        output, _ = process.communicate(timeout=10)
    except subprocess.TimeoutExpired:
        output = ""
    return output, True


def judge(job: Job, output: str, timed_out: bool) -> dict[str, Verdict]:
    """One verdict for each kernel of a process."""
    lines = output.splitlines()
    reports = [line.removeprefix(MARK).strip() for line in lines if line.startswith(MARK)]
    verdicts = {}
    for name in job.names:
        words = words_about(name, reports)
        if words:
            verdicts[name] = Verdict("found", words)
        elif f"{DONE}{name}" in lines and "Internal Sanitizer Error" not in output:
            verdicts[name] = Verdict("")
        else:
            verdicts[name] = unfinished(output, timed_out)
    return verdicts


def words_about(name: str, reports: list[str]) -> str:
    """The report's headline and place that name the kernel; a failed API call's backtrace is not one."""
    for n, line in enumerate(reports):
        if re.search(rf"\bk_{name}\b", line):
            return line if "Race reported" in line else " ".join(reports[max(n - 1, 0) : n + 2])
    return ""


def unfinished(output: str, timed_out: bool) -> Verdict:
    if timed_out:
        return Verdict("timeout")
    said = [line for line in output.splitlines() if "error" in line.lower() and not line.startswith(MARK)]
    fault = re.search(r"CUDA_ERROR_\w+|cudaError\w+", output)
    return Verdict("crash" if fault else "failed", said[-1].strip() if said else output[-200:])


def in_emulator(d: Defect, bad: bool) -> Verdict:
    from arguments import prepare

    from labkit.emulator import compile_kernel, launch
    from labkit.errors import LabError

    _, args = prepare(list(d.args))
    compiled_kernel = compile_kernel(d.source(bad))
    try:
        launch(compiled_kernel, d.grid, d.block, args, d.shared, patience=0.5)
    except LabError as error:
        return Verdict("found", error.found)
    return Verdict("")


# All together

Table = dict[tuple[str, bool, str], Verdict]


def collect(limit: float, processes: int) -> Table:
    """Verdicts by (defect, bad, tool), the emulator's among them."""
    sanitizer, table = find_tool(), Table()
    first = Job("memcheck", False, (DEFECTS[0].name,))
    output, late = run(sanitizer, first, 3 * limit)
    if judge(first, output, late)[DEFECTS[0].name].result:
        sys.exit(f"compute-sanitizer does not run a clean kernel on this machine:\n{output[-3000:]}")
    todo = list(jobs())
    with ThreadPoolExecutor(processes) as pool:
        for job, result in zip(todo, pool.map(lambda j: run(sanitizer, j, limit), todo), strict=True):
            for name, verdict in judge(job, *result).items():
                table[name, job.bad, job.tool] = verdict
    for d in DEFECTS:
        for bad in (True, False):
            table[d.name, bad, "emulator"] = in_emulator(d, bad)
            for tool in TOOLS:
                table.setdefault((d.name, bad, tool), Verdict("skipped"))
    return table


def show(table: Table) -> None:
    """One row for each defect: `+` and the word are of the defect, `!` marks a false alarm on the twin."""
    columns = (*TOOLS, "emulator")
    print(f"{'defect':24}{'made for':12}" + "".join(f"{c:>12}" for c in columns))
    for d in DEFECTS:
        cells = []
        for c in columns:
            alarm = " !twin" if table[d.name, False, c].result else ""
            cells.append((table[d.name, True, c].result or "-") + alarm)
        print(f"{d.name:24}{d.kind:12}" + "".join(f"{cell:>12}" for cell in cells))


def summary(table: Table) -> dict[str, Any]:
    """Defects found by the tool meant for them, by any tool, by the emulator; what went wrong on twins."""
    meant = [d for d in DEFECTS if d.kind in TOOLS]

    def found(d: Defect, tools: Sequence[str], bad: bool = True) -> bool:
        return any(table[d.name, bad, t].result == "found" for t in tools)

    def twins(result: str) -> list[str]:
        return [f"{n} ({t})" for (n, bad, t), v in table.items() if not bad and v.result == result]

    return {
        "defects": len(DEFECTS),
        "a tool is meant for it": len(meant),
        "found by that tool": sum(found(d, [d.kind]) for d in meant),
        "found by any tool": sum(found(d, TOOLS) for d in DEFECTS),
        **{f"found by {t}": sum(found(d, [t]) for d in DEFECTS) for t in (*TOOLS, "emulator")},
        "false alarms": twins("found"),
        "twins that did not finish": [*twins("failed"), *twins("crash"), *twins("timeout")],
    }


def to_json(table: Table, total: dict[str, Any]) -> dict[str, Any]:
    import cupy

    version = subprocess.run([find_tool(), "--version"], capture_output=True, text=True, check=False).stdout
    release = re.search(r"Version\s+(\S+)", version)

    def side(d: Defect, bad: bool) -> dict[str, Any]:
        return {t: vars(table[d.name, bad, t]) for t in (*TOOLS, "emulator")}

    rows = [{"name": d.name, "kind": d.kind, "bad": side(d, True), "clean": side(d, False)} for d in DEFECTS]
    return {
        "device": cupy.cuda.runtime.getDeviceProperties(0)["name"].decode(),
        "driver": cupy.cuda.runtime.driverGetVersion(),
        "compute_sanitizer": release[1] if release else version.strip(),
        "date": date.today().isoformat(),
        "summary": total,
        "defects": rows,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="compute-sanitizer and the emulator on planted defects.")
    parser.add_argument("--json", type=Path, help="file for all verdicts")
    parser.add_argument("--processes", type=int, default=12)
    parser.add_argument("--limit", type=float, default=40, help="seconds for one process")
    parser.add_argument("--child", nargs="+", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.child:
        return child(asked.child[0] == "bad", asked.child[1:])
    started = time.monotonic()
    warm()
    table = collect(asked.limit, asked.processes)
    show(table)
    total = summary(table) | {"seconds": round(time.monotonic() - started, 1)}
    for name, value in total.items():
        print(f"{name:28}{', '.join(value) or 'none' if isinstance(value, list) else value}")
    if asked.json:
        asked.json.parent.mkdir(parents=True, exist_ok=True)
        asked.json.write_text(json.dumps(to_json(table, total), indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
