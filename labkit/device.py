"""Device: a GPU's limits and ceilings, this machine's, a recorded one's, or a datasheet's."""

from __future__ import annotations

import datetime
import functools
import importlib
import itertools
import json
import re
import sys
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from types import ModuleType
from typing import Any

from .errors import LabError

DATA = Path(__file__).resolve().parent.parent / "data"
STAND_IN = "nvidia-h200"


@dataclass(frozen=True)
class Limits:
    """What one streaming multiprocessor (SM) holds, by compute capability.

    Source: CUDA C++ Programming Guide, "Compute Capabilities", technical specifications table.
    Sizes in bytes; `shared_reserved` is what the driver keeps for itself in every block.
    """

    warps: int = 64
    blocks: int = 32
    registers: int = 65536
    registers_per_thread: int = 255
    register_unit: int = 256
    warp_unit: int = 4
    shared: int = 228 * 1024
    shared_per_block: int = 227 * 1024
    shared_unit: int = 128
    shared_reserved: int = 1024
    fp32_lanes: int = 128


def _limits(warps: int, blocks: int, shared_kib: int, fp32_lanes: int = 128) -> Limits:
    shared = shared_kib * 1024
    return Limits(warps, blocks, shared=shared, shared_per_block=shared - 1024, fp32_lanes=fp32_lanes)


_VOLTA = {"shared_unit": 256, "shared_reserved": 0, "fp32_lanes": 64}
LIMITS = {
    "sm_70": Limits(64, 32, shared=96 * 1024, shared_per_block=96 * 1024, **_VOLTA),
    "sm_75": Limits(32, 16, shared=64 * 1024, shared_per_block=64 * 1024, **_VOLTA),
    "sm_80": _limits(64, 32, 164, fp32_lanes=64),
    "sm_86": _limits(48, 16, 100),
    "sm_87": _limits(48, 16, 164),
    "sm_89": _limits(48, 24, 100),
    "sm_90": _limits(64, 32, 228),
    "sm_100": _limits(64, 32, 228),
    "sm_103": _limits(64, 32, 228),
    "sm_120": _limits(48, 24, 100),
}


@dataclass(frozen=True)
class Device:
    """One GPU: what it is, what limits it, what it was measured to reach.

    Bandwidths in bytes/s, rates in FLOP/s, sizes in bytes, clocks in Hz. The copy ceiling counts bytes
    read plus bytes written. `source` says where the ceilings are from: "live" (measured on this machine
    now), "recorded" (measured on that GPU, `date`), or "datasheet" (the maker's word).
    """

    name: str
    slug: str
    arch: str
    sms: int
    clock_hz: float
    l2_bytes: int
    memory_bytes: int
    copy_bandwidth: float
    fp32_flops: float
    tf32_flops: float
    bf16_flops: float
    source: str
    date: str
    driver: str = ""
    cuda: str = ""
    reference: str = ""

    @property
    def limits(self) -> Limits:
        """Per-SM limits of this compute capability; of the nearest older one known for a newer chip."""
        if self.arch in LIMITS:
            return LIMITS[self.arch]
        older = [arch for arch in LIMITS if _number(arch) <= _number(self.arch)]
        if not older:
            raise LabError(
                f"the limits of {self.name} ({self.arch})",
                "no table entry for so old a GPU",
                "a GPU of compute capability 7.0 or newer",
            )
        return LIMITS[max(older, key=_number)]

    def rate(self, arithmetic: str) -> float:
        """FLOP/s of "fp32", "tf32" or "bf16" (the last two on tensor cores); 0 where it is not known."""
        rates = {"fp32": self.fp32_flops, "tf32": self.tf32_flops, "bf16": self.bf16_flops}
        if arithmetic not in rates:
            raise LabError(f"the rate of {arithmetic!r}", f"{self.name} has none of that name", ", ".join(rates))
        return rates[arithmetic]

    @property
    def origin(self) -> str:
        """Where this device's numbers come from, as panels say it: "recorded, NVIDIA H200, 2026-12-01"."""
        return f"{self.source}, {self.name}" + (f", {self.date}" if self.date else "")

    @classmethod
    def from_dict(cls, facts: dict[str, Any]) -> Device:
        """The device described by a recording's "device" entry. Raises LabError if a fact is missing."""
        known = {f.name for f in fields(cls)}
        try:
            return cls(**{key: value for key, value in facts.items() if key in known})
        except TypeError as error:
            raise LabError("read a recorded device", str(error), "record it anew: python -m labkit record") from error

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types; the inverse of `from_dict`."""
        return asdict(self)

    def __str__(self) -> str:
        role = {"live": "live: measured on this machine", "recorded": f"recorded {self.date}"}.get(
            self.source, "from the datasheet"
        )
        return (
            f"{self.name} · {self.sms} SMs · copy {self.copy_bandwidth / 1e9:,.0f} GB/s · "
            f"FP32 {self.fp32_flops / 1e12:.0f} TFLOP/s · {role}"
        )

    def _repr_html_(self) -> str:
        return f"<div class='labkit-device'>{self}</div>"


def _number(arch: str) -> int:
    return int(re.sub(r"\D", "", arch) or 0)


def slug(name: str) -> str:
    """A GPU's name as a folder name: "NVIDIA H200" → "nvidia-h200"."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


@functools.cache
def cupy() -> ModuleType | None:
    """CuPy where it is installed and sees a GPU, else None. Never raises."""
    try:
        module = importlib.import_module("cupy")
        return module if module.cuda.runtime.getDeviceCount() > 0 else None
    except Exception:  # CuPy raises its own driver errors, and ImportError flavours, when no GPU is usable
        return None


@functools.cache
def array_module() -> ModuleType:
    """`labkit.xp`: CuPy (drawing from torch's memory pool) where a GPU runs the kernels, else NumPy."""
    module = cupy()
    if module is None:
        return importlib.import_module("numpy")
    _share_pool(module)
    return module


def torch_if(loaded: bool = True) -> ModuleType | None:
    """torch with a usable CUDA device, else None. loaded=True does not import it if nobody has."""
    return None if loaded and "torch" not in sys.modules else _torch()


@functools.cache
def _torch() -> ModuleType | None:
    try:
        torch = importlib.import_module("torch")
    except ImportError:
        return None
    return torch if torch.cuda.is_available() else None


def _share_pool(cp: ModuleType) -> None:
    """Let CuPy allocate from torch's caching allocator: one pool, so neither starves the other."""
    torch = torch_if(loaded=False)
    if torch is None:
        return

    def malloc(size: int, device_id: int) -> int:
        return int(torch.cuda.caching_allocator_alloc(size, device_id)) if size else 0

    def free(pointer: int, device_id: int) -> None:
        if pointer:
            torch.cuda.caching_allocator_delete(pointer)

    cp.cuda.set_allocator(cp.cuda.PythonFunctionAllocator(malloc, free).malloc)


def current_stream() -> Any:
    """The CuPy stream that kernels are launched on: torch's current one where torch uses CUDA."""
    cp, torch = cupy(), torch_if()
    if cp is None:
        raise LabError("a CUDA stream", "no usable GPU", "a machine with an NVIDIA GPU and CuPy")
    if torch is not None and torch.cuda.is_initialized():
        handle = torch.cuda.current_stream().cuda_stream
        return _stream(handle) if handle else cp.cuda.Stream.null
    return cp.cuda.get_current_stream()


@functools.lru_cache(maxsize=64)
def _stream(handle: int) -> Any:
    """torch's stream as CuPy's; kept, because making one costs more than a launch."""
    cp = cupy()
    assert cp is not None
    make = getattr(cp.cuda.Stream, "from_external", None)  # CuPy 14; before it, ExternalStream
    return make(_Handle(handle)) if make else cp.cuda.ExternalStream(handle)


@dataclass(frozen=True)
class _Handle:
    """A stream as the CUDA stream protocol names it."""

    handle: int

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self.handle


_chosen: list[str] = []


def use(slug: str | None) -> Device:
    """Choose the recorded (or datasheet) GPU that stands in; None returns to this machine's own.

    slug: the name of a folder in data/recordings or of an entry of data/devices.json.
    Raises LabError naming the known ones.
    """
    _chosen[:] = [] if slug is None else [known(slug).slug]
    return device()


def device() -> Device:
    """The GPU whose numbers the labs show: this machine's, else the recorded one that stands in."""
    if _chosen:
        return known(_chosen[0])
    return live() if cupy() is not None else known(STAND_IN)


def is_live() -> bool:
    """Whether kernels run on a GPU of this machine now."""
    return cupy() is not None and not _chosen


@functools.cache
def known(name: str) -> Device:
    """The recorded device of that slug, else the datasheet's. Raises LabError naming the known ones."""
    recorded = DATA / "recordings" / name / "device.json"
    if recorded.is_file():
        try:
            return Device.from_dict(json.loads(recorded.read_text()))
        except ValueError as error:
            raise LabError(f"read {recorded.name} of {name}", str(error), "restore the file, or record anew") from error
    sheets = datasheets()
    if name not in sheets:
        raise LabError(f"use the GPU {name!r}", "nothing is known of it", "one of: " + ", ".join(slugs()))
    return sheets[name]


def slugs() -> list[str]:
    """All GPUs that can stand in: recorded ones first."""
    recorded = sorted(path.parent.name for path in (DATA / "recordings").glob("*/device.json"))
    return recorded + sorted(set(datasheets()) - set(recorded))


@functools.cache
def datasheets() -> dict[str, Device]:
    """GPUs known by their datasheets alone, by slug."""
    table = json.loads((DATA / "devices.json").read_text())
    return {row["slug"]: Device.from_dict({**row, "source": "datasheet", "date": ""}) for row in table["devices"]}


@functools.cache
def live() -> Device:
    """This machine's GPU, its ceilings measured now (about a second, once per process)."""
    cp = cupy()
    if cp is None:
        raise LabError("this machine's GPU", "CuPy sees none", "python -m labkit doctor says why")
    facts = cp.cuda.runtime.getDeviceProperties(cp.cuda.runtime.getDevice())
    name = facts["name"].decode()
    device = Device(
        name=name,
        slug=slug(name),
        arch=f"sm_{facts['major']}{facts['minor']}",
        sms=facts["multiProcessorCount"],
        clock_hz=facts.get("clockRate", 0) * 1e3,
        l2_bytes=facts["l2CacheSize"],
        memory_bytes=facts["totalGlobalMem"],
        copy_bandwidth=0.0,
        fp32_flops=0.0,
        tf32_flops=0.0,
        bf16_flops=0.0,
        source="live",
        date=datetime.date.today().isoformat(),
        cuda=_version(cp.cuda.runtime.runtimeGetVersion()),
        driver=_version(cp.cuda.runtime.driverGetVersion()),
    )
    return Device.from_dict({**device.to_dict(), **_ceilings(cp, device)})


def _version(number: int) -> str:
    return f"{number // 1000}.{number % 1000 // 10}"


def _ceilings(cp: ModuleType, device: Device) -> dict[str, float]:
    """Copy bandwidth by the driver's device-to-device copy; FLOP/s by cuBLAS products of random matrices.

    FP32 is the better of the product and of multiply-adds in registers.
    """
    rates = {"fp32_flops": 0.0, "tf32_flops": 0.0, "bf16_flops": 0.0}
    torch = torch_if(loaded=False)
    if torch is not None:
        rates = {key: _product_flops(cp, torch, key, device) for key in rates}
    rates["fp32_flops"] = max(rates["fp32_flops"], _multiply_add_flops(cp, device))
    return {"copy_bandwidth": _copy_bandwidth(cp, device), **rates}


def _copy_bandwidth(cp: ModuleType, device: Device) -> float:
    size = min(1 << 30, device.memory_bytes // 8)
    source, target = cp.empty(size, "uint8"), cp.empty(size, "uint8")
    source[:] = cp.random.default_rng(0).integers(0, 255, 1 << 20, dtype="uint8").repeat(size >> 20)[:size]
    return 2 * size / _best_seconds(cp, lambda: cp.copyto(target, source))


# Eight independent chains a thread: enough to hide the latency of a multiply-add at full occupancy.
_CHAINS = r"""
extern "C" __global__ void __launch_bounds__(256) chains(float* out, float x, float y)
{
    float v[8];
    for (int c = 0; c < 8; c++) v[c] = x + c + threadIdx.x;
    for (int k = 0; k < 512; k++)
        #pragma unroll
        for (int c = 0; c < 8; c++) v[c] = v[c] * x + y;
    for (int c = 1; c < 8; c++) v[0] += v[c];
    if (v[0] == 1.2345f) out[0] = v[0];
}"""


def _multiply_add_flops(cp: ModuleType, device: Device) -> float:
    """FP32 rate of multiply-adds in registers: what arithmetic alone can reach."""
    chains, blocks = cp.RawKernel(_CHAINS, "chains"), 64 * device.sms
    args = (cp.zeros(1, "float32"), cp.float32(0.999), cp.float32(0.5))
    return float(2 * 8 * 512 * 256 * blocks / _best_seconds(cp, lambda: chains((blocks,), (256,), args)))


def _product_flops(cp: ModuleType, torch: Any, key: str, device: Device) -> float:
    n = 8192 if device.memory_bytes > 8 << 30 else 4096
    dtype = torch.bfloat16 if key == "bf16_flops" else torch.float32
    a, b = (torch.randn(n, n, device="cuda", dtype=dtype) for _ in range(2))
    out = torch.empty_like(a)
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = key == "tf32_flops"
    try:
        return float(2 * n**3 / _best_seconds(cp, lambda: torch.mm(a, b, out=out)))
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before


def _best_seconds(cp: ModuleType, run: Any, repeats: int = 12) -> float:
    """The median of `repeats` event-timed runs; a ceiling needs a long kernel, not a careful timer."""
    stream = current_stream()
    with stream:
        for _ in range(3):
            run()
        marks = [cp.cuda.Event() for _ in range(repeats + 1)]
        marks[0].record(stream)
        for mark in marks[1:]:
            run()
            mark.record(stream)
        marks[-1].synchronize()
    times = sorted(cp.cuda.get_elapsed_time(a, b) for a, b in itertools.pairwise(marks))
    return float(times[len(times) // 2]) / 1e3
