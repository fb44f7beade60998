"""CUDA C -> PTX and ptxas's resources, through NVRTC, which needs no GPU and no driver.

NVRTC is NVIDIA's compiler as a library (a PyPI wheel).  It gives PTX, which the emulator runs, and
assembles it for the chosen architecture, only for what ptxas says about registers, shared memory and
spills.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from labkit.emulator.flushing import flushed_slots
from labkit.emulator.latency import waits
from labkit.emulator.program import Program, build
from labkit.emulator.ptx import WIDTH, Module, parse
from labkit.errors import LabError

FILE = "kernel.cu"


@dataclass(frozen=True)
class Resources:
    """What one thread or block needs on the chosen architecture, as ptxas reports it."""

    registers: int
    shared_bytes: int
    local_bytes: int
    spill_bytes: int
    constant_bytes: int = 0


@dataclass(frozen=True)
class Param:
    """A kernel parameter: PTX type ("u64", "f32", "b8[16]" for a struct), size and offset in bytes."""

    name: str
    type: str
    size: int
    offset: int


@dataclass(frozen=True)
class Entry:
    """A kernel's name and parameters."""

    name: str
    params: tuple[Param, ...]


@dataclass(frozen=True, eq=False)
class Compiled:
    """A kernel ready to be run: its source, PTX, resources, the program the machine executes, the GPU's code."""

    source: str
    name: str
    ptx: str
    resources: Resources | None
    entry: Entry
    program: Program
    cubin: bytes = b""


def compile_kernel(source: str, name: str | None = None, defines: Mapping[str, object] | None = None,
                   arch: str = "sm_90", ftz: bool = True) -> Compiled:  # fmt: skip
    """Compile CUDA C for the emulator.

    source: CUDA C.  name: the kernel; may be left out when there is only one; templates as "copy<float, 4>".
    defines: preprocessor names and values.  arch: the architecture that resources are reported for.
    ftz: subnormal float32 values count as zero, as in every kernel that CuPy's RawKernel compiles.
    Returns Compiled (cached).  Raises LabError with the compiler's message and the reader's line.
    """
    given = tuple((str(k), str(v)) for k, v in (defines or {}).items())
    return _compile(source, name, given, arch, ftz)


def with_defines(source: str, defines: Mapping[str, object]) -> str:
    """The source after its `#define` lines; line numbers stay the reader's.

    As text and not as -D, because the compiler reads its own headers after -D: `-DT=float` breaks them.
    """
    return "".join(f"#define {k} {v}\n" for k, v in defines.items()) + "#line 1\n" + source if defines else source


def compiled_from_ptx(ptx: str, name: str | None = None, source: str | None = None) -> Compiled:
    """A kernel from PTX that exists already, for machines without NVRTC (macOS)."""
    module = parse(ptx)
    entry = _pick(module, name, ptx)
    return _compiled(source or "", ptx, None, module, entry)


@lru_cache(maxsize=256)
def _compile(source: str, name: str | None, defines: tuple[tuple[str, str], ...], arch: str, ftz: bool) -> Compiled:
    options = [f"-I{path}" for path in include_paths()]
    options += ["-default-device", "--std=c++17"]
    wanted = name or ""
    template = wanted if re.search(r"[<:(]", wanted) else None
    options += ["-arch=" + arch, "-lineinfo", "--ptxas-options=-v", f"--ftz={str(ftz).lower()}"]
    ptx, cubin, log, lowered = _nvrtc(with_defines(source, dict(defines)), options, template)
    module = parse(ptx)
    entry = _pick(module, lowered or name, source)
    return replace(_compiled(source, ptx, _resources(log, entry), module, entry), cubin=cubin)


def _compiled(source: str, ptx: str, resources: Resources | None, module: Module, name: str) -> Compiled:
    params, offset = [], 0
    for p in module.functions[name].params:
        align = max(p.align, 1)
        offset = -(-offset // align) * align
        kind = p.type if p.size == WIDTH[p.type] else f"{p.type}[{p.size}]"
        params.append(Param(p.name, kind, p.size, offset))
        offset += p.size
    program = build(module, name, source)
    program.waits = waits(program)
    program.flushed, program.flushed_with_shared = flushed_slots(program), flushed_slots(program, shared=True)
    return Compiled(source, name, ptx, resources, Entry(name, tuple(params)), program)


def _pick(module: Module, name: str | None, source: str) -> str:
    """The lowered name of the kernel that is meant."""
    entries = [f.name for f in module.functions.values() if f.entry]
    if name is None and len(entries) == 1:
        return entries[0]
    plain = {e: _demangled(e) for e in entries}
    fits = [e for e in entries if name in (e, plain[e])]
    if len(fits) == 1:
        return fits[0]
    shown = ", ".join(plain[e] for e in entries) or "none"
    found = (
        f"the source has these kernels: {shown}" if entries else "no __global__ function was compiled from the source"
    )
    raise LabError(
        f"kernel {name or '(the only one)'}",
        found,
        f'name="{plain[entries[0]]}"' if entries else 'write `extern "C" __global__ void name(...)`',
    )


def _demangled(name: str) -> str:
    """`_Z4copyPf` -> copy (plain functions; templates are named by NVRTC itself)."""
    m = re.match(r"_Z(\d+)", name)
    return name[m.end() : m.end() + int(m[1])] if m else name


def _resources(log: str, entry: str) -> Resources:
    part = re.split(r"Compiling entry function '", log)
    text = next((p for p in part if p.startswith(entry + "'")), log)

    def number(pattern: str) -> int:
        m = re.search(pattern, text)
        return int(m[1]) if m else 0

    spills = number(r"(\d+) bytes spill stores") + number(r"(\d+) bytes spill loads")
    return Resources(
        number(r"Used (\d+) registers"),
        number(r"(\d+) bytes smem"),
        number(r"(\d+) bytes stack frame"),
        spills,
        number(r"(\d+) bytes cmem\[0\]"),
    )


@lru_cache(maxsize=1)
def include_paths() -> tuple[str, ...]:
    """Folders that hold the CUDA headers: the PyPI wheels' first, then an installed toolkit's."""
    major = _library().nvrtcVersion()[1]
    roots = [Path(p) / "nvidia" for p in sys.path]
    new = [d for r in roots for d in r.glob(f"cu{major}/include")]
    wheels = new or [d for r in roots for d in sorted(r.glob("cuda_*/include"))]
    homes = [os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), "/usr/local/cuda"]
    kits = [Path(h) / "include" for h in homes if h]
    found = [d for d in wheels + kits if d.is_dir()]
    return tuple(str(p) for d in found for p in (d, d / "cccl") if p.is_dir())


def _nvrtc(source: str, options: list[str], template: str | None) -> tuple[str, bytes, str, str | None]:
    """Run NVRTC once: the PTX, the machine code, the log, and the lowered name of `template`."""
    nvrtc = _library()
    _, program = nvrtc.nvrtcCreateProgram(source.encode(), FILE.encode(), 0, [], [])
    try:
        if template:
            nvrtc.nvrtcAddNameExpression(program, template.encode())
        encoded = [o.encode() for o in options]
        (status,) = nvrtc.nvrtcCompileProgram(program, len(encoded), encoded)
        log = _text(nvrtc, "ProgramLog", program)
        if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
            raise _error(source, log, str(status))
        lowered = nvrtc.nvrtcGetLoweredName(program, template.encode())[1].decode() if template else None
        return _text(nvrtc, "PTX", program), _bytes(nvrtc, "CUBIN", program), log, lowered
    finally:
        nvrtc.nvrtcDestroyProgram(program)


def _bytes(nvrtc: Any, what: str, program: Any) -> bytes:
    _, size = getattr(nvrtc, f"nvrtcGet{what}Size")(program)
    buffer: bytes = b" " * size
    getattr(nvrtc, f"nvrtcGet{what}")(program, buffer)
    return buffer


def _text(nvrtc: Any, what: str, program: Any) -> str:
    return _bytes(nvrtc, what, program).rstrip(b"\0 \n").decode(errors="replace")


def _library() -> Any:
    asked = "compile CUDA C"
    if sys.platform == "darwin":
        raise LabError(asked, "NVIDIA's compiler (NVRTC) does not exist for macOS",
                       "a recorded result, or a kernel of labkit/cuda, whose PTX is shipped")  # fmt: skip
    try:
        from cuda.bindings import nvrtc

        nvrtc.nvrtcVersion()
    except Exception as error:  # cuda-bindings raises RuntimeError, OSError or ImportError, by version
        raise LabError(
            asked,
            f"NVRTC could not be loaded: {str(error).strip().splitlines()[-1]}",
            "pip install cuda-bindings nvidia-cuda-nvrtc nvidia-cuda-runtime nvidia-cuda-cccl",
        ) from error
    return nvrtc


def _error(source: str, log: str, status: str) -> LabError:
    """The compiler's first error with the reader's own line beside it."""
    lines = source.splitlines()
    for m in re.finditer(r"^(.*?)\((\d+)\):\s*(?:catastrophic )?error:?\s*(.*)$", log, re.M):
        number = int(m[2])
        if m[1].endswith(FILE) and number <= len(lines):
            return LabError(
                "compile CUDA C",
                f"line {number}: {m[3]}\n         {number} | {lines[number - 1].strip()}",
                _advice(m[3]),
            )
    first = next((x for x in log.splitlines() if "error" in x), log.strip() or status)
    return LabError("compile CUDA C", first, _advice(first))


def _advice(message: str) -> str:
    table = {
        "cannot open source file": "pip install nvidia-cuda-runtime nvidia-cuda-cccl nvidia-cuda-crt",
        "is undefined": "declare it, or include its header",
        'expected a ";"': "end the statement before it with ;",
    }
    return next((v for k, v in table.items() if k in message), "mend that line; the message is the compiler's own")
