"""Doctor: is this machine fit, and what cures what is not? One check per row of a table."""

from __future__ import annotations

import html
import importlib
import platform
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata

from .device import cupy, device, is_live, live
from .emulator import compile_kernel
from .errors import LabError

SIGNS = {"ok": "✓", "note": "·", "fail": "✗"}


@dataclass(frozen=True)
class Finding:
    """One check: "ok", "note" (works, with less) or "fail"; what was found; the cure where there is one."""

    check: str
    state: str
    found: str
    cure: str = ""


@dataclass(frozen=True)
class Report:
    """All findings, and the sentence they add up to."""

    findings: tuple[Finding, ...]
    verdict: str

    @property
    def fit(self) -> bool:
        """Whether no check failed."""
        return all(finding.state != "fail" for finding in self.findings)

    def __str__(self) -> str:
        rows = []
        for f in self.findings:
            rows.append(f"{SIGNS[f.state]} {f.check:<14} {f.found}")
            rows += [f"{'':17}→ {f.cure}"] if f.cure else []
        return "\n".join([*rows, "", self.verdict])

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td>{SIGNS[f.state]}</td><td>{html.escape(f.check)}</td>"
            f"<td style='text-align:left'>{html.escape(f.found)}</td>"
            f"<td style='text-align:left'>{html.escape(f.cure)}</td></tr>"
            for f in self.findings
        )
        head = "<tr><th></th><th>check</th><th>found</th><th>cure</th></tr>"
        return f"<table>{head}{rows}</table><p><b>{html.escape(self.verdict)}</b></p>"


def doctor() -> Report:
    """Check Python, driver, GPU, torch, CuPy, NVRTC, CUDA headers and widgets; never raises."""
    findings = []
    for name, check in CHECKS.items():
        try:
            findings.append(Finding(name, *check()))
        except Exception as error:  # a broken installation fails in its own way: it is the finding
            findings.append(Finding(name, "fail", f"{type(error).__name__}: {error}", f"reinstall: {RENEW}"))
    return Report(tuple(findings), _verdict(findings))


RENEW = "remove .venv, then `make lab`"
Row = tuple[str, str, str] | tuple[str, str]


def _verdict(findings: list[Finding]) -> str:
    failed = [f.check for f in findings if f.state == "fail"]
    if failed:
        return f"Mend first: {', '.join(failed)}."
    gpu = device()
    if is_live():
        return f"Fit. Numbers are live, measured on this machine's {gpu.name}."
    compiler = next(f for f in findings if f.check == "NVRTC")
    own = "kernels you change are run and counted by the emulator" if compiler.state == "ok" else "no new kernels here"
    return f"Fit, without a GPU: numbers are those of an {gpu.name} ({gpu.source}); {own}."


def _python() -> Row:
    found = f"{platform.python_version()} on {platform.system()}"
    return ("ok", found) if sys.version_info >= (3, 11) else ("fail", found, "Python 3.11 or newer")


def _driver() -> Row:
    import pynvml

    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        return ("note", f"no NVIDIA driver answers ({error})", "none needed; with a GPU, install its driver")
    version = pynvml.nvmlSystemGetCudaDriverVersion_v2()
    return (
        "ok",
        f"{pynvml.nvmlSystemGetDriverVersion()}, for CUDA up to {version // 1000}.{version % 1000 // 10}",
    )


def _driver_cuda() -> int | None:
    """The CUDA version the driver supports as 1000·major + 10·minor, None without a driver."""
    import pynvml

    try:
        pynvml.nvmlInit()
        return int(pynvml.nvmlSystemGetCudaDriverVersion_v2())
    except pynvml.NVMLError:
        return None


def _gpu() -> Row:
    if cupy() is not None:
        own = live()
        return "ok", f"{own.name}, {own.arch}, {own.sms} SMs, {own.memory_bytes / 2**30:.0f} GiB"
    if _driver_cuda() is None:
        return "note", f"none; a recorded {device().name} stands in"
    return "fail", "a driver, but CuPy sees no GPU", "see the row CuPy"


def _torch() -> Row:
    torch = importlib.import_module("torch")
    found = f"{torch.__version__}"
    if _driver_cuda() is None:
        return "ok", f"{found}, on the CPU"
    if torch.version.cuda is None:
        return (
            "fail",
            f"{found} is a CPU build on a machine with a GPU",
            "reinstall torch from PyPI: " + RENEW,
        )
    if not torch.cuda.is_available():
        return (
            "fail",
            f"{found} for CUDA {torch.version.cuda} does not start",
            "a newer driver, or torch for an older CUDA",
        )
    major, minor = torch.cuda.get_device_capability()
    return _torch_architecture(found, f"sm_{major}{minor}", torch.cuda.get_arch_list())


def _torch_architecture(found: str, arch: str, built: list[str]) -> Row:
    """torch runs an architecture if it was built for it, for an older minor of the same major, or ships PTX."""
    same = [b for b in built if b.startswith("sm_") and b[3:-1] == arch[3:-1] and int(b[-1]) <= int(arch[-1])]
    if same or any(b.startswith("compute_") for b in built):
        return "ok", f"{found}, built for {', '.join(built)}"
    return (
        "fail",
        f"{found} is not built for this GPU's {arch} (it has {', '.join(built)}): kernels will not load",
        f"a torch release that lists {arch}",
    )


def _cupy_wheels() -> list[str]:
    names = {dist.metadata["Name"].lower() for dist in metadata.distributions() if dist.metadata["Name"]}
    return sorted(name for name in names if name == "cupy" or name.startswith("cupy-cuda"))


def _cupy() -> Row:
    wheels, driver = _cupy_wheels(), _driver_cuda()
    if len(wheels) > 1:
        return (
            "fail",
            f"two in one environment: {', '.join(wheels)}",
            f"pip uninstall -y {' '.join(wheels)}, then {RENEW}",
        )
    if not wheels:
        wanted = None if driver is None else f"pip install cupy-cuda{min(driver // 1000, 13)}x"
        return (
            ("note", "not installed; the emulator runs the kernels")
            if wanted is None
            else ("fail", "not installed", wanted)
        )
    if driver is None:
        return "note", f"{wheels[0]} without a driver: the emulator runs the kernels"
    return _cupy_matches(wheels[0], driver)


def _cupy_matches(wheel: str, driver: int) -> Row:
    wants = 1000 * int("".join(filter(str.isdigit, wheel)) or 0)
    if wants > driver:
        supported = f"cupy-cuda{driver // 1000}x"
        found = f"{wheel} needs a driver for CUDA {wants // 1000}, this one is for {driver / 1000:.1f}"
        return "fail", found, f"pip uninstall -y {wheel} && pip install {supported}, or a newer driver"
    if cupy() is None:
        return (
            "fail",
            f"{wheel} is installed but sees no GPU",
            "python -c 'import cupy; cupy.arange(3)' shows its error",
        )
    return "ok", wheel


_PROBE = '#include <cuda_fp16.h>\nextern "C" __global__ void probe(__half* x) { x[0] = __hadd(x[0], x[0]); }'


def _nvrtc() -> Row:
    if sys.platform == "darwin":
        return "note", "does not exist on macOS: recorded numbers only", "Linux or Windows to compile kernels"
    from cuda.bindings import nvrtc

    error, major, minor = nvrtc.nvrtcVersion()
    if int(error) != 0:
        return "fail", f"does not load ({error})", "pip install nvidia-cuda-nvrtc"
    driver = _driver_cuda()
    if driver is not None and 1000 * major > driver // 1000 * 1000:
        cure = "none needed: CuPy's own compiler builds for the GPU"
        return (
            "note",
            f"{major}.{minor} makes PTX newer than the driver's CUDA {driver // 1000}; used for counting only",
            cure,
        )
    return "ok", f"{major}.{minor}, without a driver"


def _headers() -> Row:
    if sys.platform == "darwin":
        return "note", "no compiler on macOS"
    try:
        compile_kernel(_PROBE, None, None, device().arch)
    except LabError as error:
        return (
            "fail",
            f"a kernel that includes cuda_fp16.h does not compile: {error.found}",
            "pip install nvidia-cuda-runtime",
        )
    return "ok", "cuda_fp16.h is found"


def _widgets() -> Row:
    names = ("ipywidgets", "anywidget", "jupyterlab", "jupyterlab_widgets")
    versions = {name: metadata.version(name) for name in names}
    old = int(versions["ipywidgets"].split(".")[0]) < 8
    found = ", ".join(f"{name} {version}" for name, version in versions.items())
    return ("fail", found, "pip install 'ipywidgets>=8'") if old else ("ok", found)


CHECKS: dict[str, Callable[[], Row]] = {
    "Python": _python,
    "driver": _driver,
    "GPU": _gpu,
    "torch": _torch,
    "CuPy": _cupy,
    "NVRTC": _nvrtc,
    "CUDA headers": _headers,
    "widgets": _widgets,
}
