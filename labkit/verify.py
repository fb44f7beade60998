"""Verify: the emulator's counts beside those of the hardware, kernel by kernel, as Nsight Compute reads them."""

from __future__ import annotations

import csv
import importlib.util
import io
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .cuda import Rung, sgemm, tensor
from .device import DATA, array_module, cupy, live
from .emulator import Counts
from .errors import LabError
from .kernel import Kernel, kernel
from .recording import environment

# Counts' field → the Nsight Compute metric of the same meaning.
METRICS = {
    "global_load_requests": "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum",
    "global_load_sectors": "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
    "global_store_requests": "l1tex__t_requests_pipe_lsu_mem_global_op_st.sum",
    "global_store_sectors": "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum",
    "shared_load_conflicts": "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum",
    "shared_store_conflicts": "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum",
    "shared_load_requests": "smsp__inst_executed_op_shared_ld.sum",
    "shared_store_requests": "smsp__inst_executed_op_shared_st.sum",
    "warp_instructions": "smsp__inst_executed.sum",
    "thread_instructions": "smsp__thread_inst_executed.sum",
}
# PTX instructions are not the machine's: the final assembler rewrites them. Their ratio is shown, not compared.
COMPARED = tuple(name for name in METRICS if not name.endswith("instructions"))
# Why a count of the emulator is not the hardware's; what is not named here has to be equal.
_PREDICATED = "the hardware also counts shared accesses that are issued with every lane switched off"
_WIDENED = "the assembler merges neighbouring 4-byte shared loads into wider ones"
_STRAY = "the hardware counts a few conflicts where all lanes lie in different banks, another number at each run"
_ASYNC = "cp.async is counted here as a load and a store, by the hardware as an operation of its own"
_ROWS = "for 16-byte copies down eight rows it counts a quarter of the sectors twice; not explained"
_MATRIX = "ldmatrix is counted by the hardware as an operation of its own"
REASONS = {
    "bitonic_sort": _PREDICATED,
    "compact_ballot": "blocks take their places in the order they arrive, which differs from run to run",
    "copy_async": _ASYNC,
    "gemm_mma": _MATRIX,
    "gemm_tiled": _WIDENED,
    "math_float": "NVRTC 13.5 keeps the table for large arguments of sinf in the code; 13.0, recorded, loads it",
    "odd_even_sort": _PREDICATED,
    "reduce_interleaved": _PREDICATED,
    "reduce_last_block": _PREDICATED,
    "reduce_shared": _PREDICATED,
    "reduction/2_tree": f"{_WIDENED}, whose conflicts are fewer; {_PREDICATED}",
    "reduction/3_sequential": _PREDICATED,
    "reduction/6_tuned": _PREDICATED,
    "scan_hillis": _PREDICATED,
    "sgemm/async": f"{_ASYNC}; {_ROWS}; {_STRAY}",
    "sgemm/double_buffered": _STRAY,
    "sgemm/square": _STRAY,
    "sgemm/strip": _WIDENED,
    "sgemm/tiled": _WIDENED,
    "sgemm/tuned": f"{_ASYNC}; {_STRAY}",
    "sgemm/vectorised": _STRAY,
    "sgemm/warp_tiled": f"{_ASYNC}; {_ROWS}",
    "softmax_rows": _WIDENED,
    "tensor/mma": f"{_MATRIX}; {_ASYNC}; {_STRAY}",
    "tensor/wmma": "WMMA leaves open how fragments lie: the assembler moves them by ldmatrix, in its own order",
    "spmv_csr": "the assembler undoes the compiler's unrolling: the hardware counts the plain loop's loads",
}
# Kernels whose bank conflicts, too, are not the hardware's; everywhere else they have to be equal.
CONFLICTS = {name for name, why in REASONS.items() if _STRAY in why} | {"reduction/2_tree", "tensor/wmma"}
CORPUS = DATA.parent / "tests" / "kernels"
COUNTERS = DATA / "counters"
SEED = 7


@dataclass(frozen=True)
class Launchable:
    """One kernel with a launch: arrays and NumPy scalars (or bytes) as arguments."""

    name: str
    kernel: Kernel
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    args: tuple[Any, ...]
    shared: int = 0

    def counts(self) -> Counts:
        """What the emulator counts."""
        return self.kernel.count(self.grid, self.block, self.args, self.shared, budget=10**12)


def launchables() -> Iterator[Launchable]:
    """Every kernel that is verified: the corpus, the kit's own files, and strided reads."""
    yield from _corpus()
    yield from _kit()


def _corpus() -> Iterator[Launchable]:
    path = CORPUS / "cases.py"
    spec = importlib.util.spec_from_file_location("cases", path)
    if spec is None or spec.loader is None or not path.is_file():
        raise LabError("verify the counts", f"{path} is not there", "a full checkout: the corpus lies in tests/kernels")
    module = importlib.util.module_from_spec(spec)
    sys.modules["cases"] = module
    spec.loader.exec_module(module)
    for name, make in module.CASES.items():
        case = make(np.random.default_rng(SEED))
        args = tuple(a.view(np.uint8) if isinstance(a, np.ndarray) and a.dtype == np.int8 else a for a in case.args)
        try:
            made = kernel(module.source(name), case.name)
        except LabError as error:  # an older toolkit lacks a header, say: the others can still be verified
            print(f"{name}: left out{error}", file=sys.stderr)
            continue
        yield Launchable(name, made, case.grid, case.block, args, case.shared)


_STRIDED = r"""extern "C" __global__ void strided(const float* a, float* out, int stride)
{ int i = blockIdx.x * blockDim.x + threadIdx.x; out[i] = a[(size_t)i * stride]; }"""


def _kit() -> Iterator[Launchable]:
    n, rng = 1024, np.random.default_rng(SEED)
    a = rng.random((n, n), dtype=np.float32)
    for path in sorted((Path(__file__).parent / "cuda" / "transpose").glob("*.cu")):
        grid, block = ((16, 16, 1), (512, 1, 1)) if path.stem.startswith("4") else ((32, 32, 1), (32, 8, 1))
        args = (a, np.zeros_like(a), n)
        yield Launchable(f"transpose/{path.stem}", kernel(path), grid, block, args)
    floats, sums = rng.random(100_003, dtype=np.float32), {"1": (391, 256), "5": (16, 256), "6": (8, 512)}
    for path in sorted((Path(__file__).parent / "cuda" / "reduction").glob("*.cu")):
        blocks, threads = sums.get(path.stem[0], (196, 256))
        args = (floats, np.zeros(1, np.float32), floats.size)
        yield Launchable(f"reduction/{path.stem}", kernel(path), (blocks, 1, 1), (threads, 1, 1), args)
    yield from _products(rng)
    for stride in (1, 2, 3, 4, 8, 16):
        far, out = np.zeros((1 << 20) * stride, np.float32), np.zeros(1 << 20, np.float32)
        yield Launchable(f"strided/{stride}", kernel(_STRIDED), (4096, 1, 1), (256, 1, 1), (far, out, stride))


def _products(rng: np.random.Generator) -> Iterator[Launchable]:
    """The ladders of matrix products, but for wgmma, which the emulator refuses."""
    m, n, k = 256, 256, 192
    a, b = (rng.random(shape, dtype=np.float32) for shape in ((m, k), (k, n)))
    halves = [(x.view(np.uint32) >> 16).astype(np.uint16) for x in (a, b)]  # bfloat16, as NumPy can hold it
    ladders: list[tuple[str, Mapping[str, Rung], list[Any]]] = [("sgemm", sgemm, [a, b]), ("tensor", tensor, halves)]
    for ladder, rungs, (left, right) in ladders:
        for name, rung in rungs.items():
            if not rung.arch:
                (x, y), threads, args, shared = rung.launch(left, right, np.zeros((m, n), left.dtype))
                yield Launchable(f"{ladder}/{name}", rung.kernel, (x, y, 1), (threads, 1, 1), args, shared)


def launch_all() -> list[str]:
    """Launch each kernel once on the GPU, with the profiler on for that launch only. Returns their names."""
    cp, names = array_module(), []
    for item in launchables():
        args = [cp.asarray(a) if isinstance(a, np.ndarray) else a for a in item.args]
        cp.cuda.runtime.deviceSynchronize()
        cp.cuda.profiler.start()
        item.kernel(item.grid, item.block, args, item.shared)
        cp.cuda.runtime.deviceSynchronize()
        cp.cuda.profiler.stop()
        names.append(item.name)
    return names


def measure(out: Path | None = None) -> Path:
    """Run every kernel under ncu and keep the counters in data/counters/<gpu>.json.

    Raises LabError without a GPU, without ncu, or where reading counters is not permitted.
    """
    if cupy() is None or shutil.which("ncu") is None:
        found = "no GPU is usable" if cupy() is None else "ncu (Nsight Compute) is not on the path"
        raise LabError("verify the counts", found, "a GPU machine with the CUDA toolkit")
    command = ["ncu", "--csv", "--profile-from-start", "off", "--clock-control", "none"]
    command += [
        "--metrics",
        ",".join(METRICS.values()),
        sys.executable,
        "-m",
        "labkit",
        "verify-counts",
        "--launch",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    names = json.loads(next((line for line in done.stdout.splitlines() if line.startswith('["')), "[]"))
    kernels = parse(done.stdout)
    if not names or len(names) != len(kernels):
        said = (done.stderr.strip() or done.stdout.strip())[-400:]
        raise LabError("verify the counts", f"ncu gave {len(kernels)} of {len(names)} kernels: {said}",
                       "run it as root, or allow counters (NVreg_RestrictProfilingToAdminUsers=0)")  # fmt: skip
    path = out or COUNTERS / f"{live().slug}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    content = {"gpu": live().name, "environment": environment(), "seed": SEED,
               "kernels": dict(zip(names, kernels, strict=True))}  # fmt: skip
    path.write_text(json.dumps(content, indent=1) + "\n")
    return path


def parse(text: str) -> list[dict[str, int]]:
    """ncu's CSV → one dictionary per launch, in launch order: Counts' field names to values."""
    rows = csv.DictReader(io.StringIO("\n".join(line for line in text.splitlines() if line.startswith('"'))))
    named = {metric: field for field, metric in METRICS.items()}
    launches: dict[int, dict[str, int]] = {}
    for row in rows:
        field = named.get(row.get("Metric Name") or "")
        if field is not None:
            value = (row["Metric Value"] or "0").replace(",", "")
            launches.setdefault(int(row["ID"]), {})[field] = round(float(value)) if value != "n/a" else 0
    return [launches[key] for key in sorted(launches)]


@dataclass(frozen=True)
class Row:
    """One kernel: fields that differ as (emulated, measured), and PTX ÷ machine instructions."""

    name: str
    differs: dict[str, tuple[int, int]]
    instruction_ratio: float

    def __str__(self) -> str:
        told = ", ".join(f"{key} {ours:,} (hardware {theirs:,})" for key, (ours, theirs) in self.differs.items())
        why = f" — {REASONS[self.name]}" if self.differs and self.name in REASONS else ""
        return f"{self.name:24} {(told or 'equal') + why:40} PTX ÷ machine instructions {self.instruction_ratio:.2f}"


def compare(stored: dict[str, dict[str, int]]) -> list[Row]:
    """The emulator's counts beside the stored counters, for every kernel that has some."""
    rows = []
    for item in launchables():
        if item.name in stored:
            ours, theirs = item.counts(), stored[item.name]
            differs = {
                key: (int(getattr(ours, key)), theirs[key])
                for key in COMPARED
                if key in theirs and int(getattr(ours, key)) != theirs[key]
            }
            rows.append(Row(item.name, differs, ours.warp_instructions / max(theirs["warp_instructions"], 1)))
    return rows
