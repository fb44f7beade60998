"""Kernel: one CUDA C source, two engines: CuPy on a GPU, the emulator without one or when counting."""

from __future__ import annotations

import contextvars
import functools
import hashlib
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from . import arguments, shipped
from .device import Device, array_module, cupy, current_stream, device, is_live
from .emulator import (
    Buffer,
    Compiled,
    Counts,
    Resources,
    compile_kernel,
    include_paths,
    launch,
    with_defines,
    writer,
)
from .errors import LabError
from .occupancy import Occupancy, occupancy

Dim = int | Sequence[int]
Triple = tuple[int, int, int]


@dataclass(frozen=True)
class Launch:
    """One counted launch: what `model.predict` needs to know of it."""

    kernel: Kernel
    grid: Triple
    block: Triple
    shared: int
    counts: Counts


@dataclass
class Counting:
    """While active, kernels are counted on a sample of their blocks instead of being run."""

    budget: int
    launches: list[Launch] = field(default_factory=list)


_counting: contextvars.ContextVar[Counting | None] = contextvars.ContextVar("labkit_counting", default=None)


def being_counted() -> Counting | None:
    """The log of the `counting` block around the caller, or None."""
    return _counting.get()


@contextmanager
def counting(budget: int) -> Iterator[Counting]:
    """Count the launches of this block, each within `budget` thread-instructions, leaving arrays untouched."""
    log = Counting(budget)
    token = _counting.set(log)
    try:
        yield log
    finally:
        _counting.reset(token)


def kernel(
    source: str | Path, name: str | None = None, defines: Mapping[str, object] | None = None, arch: str | None = None
) -> Kernel:
    """A kernel from CUDA C, or from the path of a .cu file.

    source:  CUDA C, or a path ending in ".cu".
    name:    the kernel's name; may be left out when the source has one `__global__` function.
             For a template, an instance: "copy<float, 4>".
    defines: preprocessor names and their values, as by `-DNAME=VALUE`.
    arch:    what to compile for where the device's own architecture will not do: "sm_90a" has Hopper's wgmma
             and setmaxnreg, which "sm_90" lacks.

    Returns a Kernel, called as `k(grid, block, args, shared=0)`. Raises LabError with the compiler's
    message and the reader's own line if it does not compile.

    >>> twice = kernel('extern "C" __global__ void twice(float* x) { x[threadIdx.x] *= 2; }')
    >>> x = xp.arange(32, dtype="float32"); twice(1, 32, (x,))
    """
    text = str(source)
    if text.endswith(".cu") and "\n" not in text:
        text = _read(Path(text))
    return Kernel(text, name, tuple(sorted((defines or {}).items())), arch)


def _read(path: Path) -> str:
    shipped = Path(__file__).parent / "cuda" / path
    for candidate in (path, shipped):
        if candidate.is_file():
            return candidate.read_text()
    raise LabError(f"read the kernel file {path}", f"neither it nor {shipped} is there", "check the path")


class Kernel:
    """A compiled CUDA C kernel. Build it with `labkit.kernel`."""

    def __init__(
        self, source: str, name: str | None, defines: tuple[tuple[str, object], ...], arch: str | None = None
    ) -> None:
        self.source, self.defines, self.arch = source, dict(defines), arch
        self._asked_name = name
        compiled = self.compiled(device().arch)
        self.name = name or compiled.name
        self._types = arguments.declared_types(source, self.name)

    @functools.lru_cache(maxsize=64)  # noqa: B019 # a kernel lives as long as the notebook
    def compiled(self, arch: str) -> Compiled:
        """Built for `arch`, or for the kernel's own; without a compiler, the PTX that the kit ships of its kernels."""
        try:
            return compile_kernel(self.source, self._asked_name, self.defines, self.arch or arch)
        except LabError:
            found = shipped.find(self.fingerprint, self.source)
            if found is None:
                raise
            return found

    @property
    def ptx(self) -> str:
        """The PTX that NVRTC made of it, for the current device's architecture."""
        return self.compiled(device().arch).ptx

    @property
    def resources(self) -> Resources:
        """Registers per thread, shared and local bytes, spills: from the driver on a GPU, else from ptxas."""
        return self.resources_for(device())

    def resources_for(self, target: Device) -> Resources:
        """Resources when built for another GPU's architecture."""
        compiled = self.compiled(target.arch).resources
        if compiled is None:
            raise LabError(f"the resources of `{self.name}`", "shipped PTX names none", "Linux or Windows, with NVRTC")
        if not is_live() or target.arch != device().arch:
            return compiled
        function = self._function
        return Resources(
            registers=function.num_regs,
            shared_bytes=function.shared_size_bytes,
            local_bytes=function.local_size_bytes,
            spill_bytes=compiled.spill_bytes,
        )

    @functools.cached_property
    def fingerprint(self) -> str:
        """A hash of the source with comments and blank space dropped, of the name and of the defines."""
        parts = [
            arguments.without_comments(self.source),
            str(self._asked_name),
            repr(sorted(self.defines.items())),
            *([self.arch] if self.arch else []),
        ]
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]

    def occupancy(self, block: Dim, shared: int = 0) -> Occupancy:
        """Blocks and warps resident per SM of the current device, for `block` threads and dynamic `shared` bytes."""
        x, y, z = _dim3(block, "block")
        own = self.resources
        return occupancy(device(), own.registers, own.shared_bytes + shared, x * y * z)

    def __call__(self, grid: Dim, block: Dim, args: Sequence[Any], shared: int = 0) -> None:
        """Launch it, as `cupy.RawKernel` does.

        grid, block: an int or up to three; shared: bytes of dynamic shared memory per block.
        args: one per parameter. Arrays (NumPy, CuPy, torch; contiguous) for pointers; Python numbers are
        converted to the parameter's type, NumPy scalars must have its width. On a GPU, host arrays are copied
        there and back. Raises LabError before the launch for anything that does not fit.
        """
        blocks, threads = self.shape(grid, block, shared)
        log = being_counted()
        if log is not None:
            counts = self._emulate(blocks, threads, args, shared, budget=log.budget, keep=False, sanitize=False)
            log.launches.append(Launch(self, blocks, threads, shared, counts))
        elif is_live():
            self._launch_on_gpu(blocks, threads, args, shared)
        else:
            self._emulate(blocks, threads, args, shared, count=False)

    def count(
        self,
        grid: Dim,
        block: Dim,
        args: Sequence[Any],
        shared: int = 0,
        budget: int = 400_000_000,
        target: Device | None = None,
    ) -> Counts:
        """What a launch does to memory, counted by the emulator; the arrays are left as they are.

        A launch of more than `budget` thread-instructions is counted on a sample of its blocks and scaled;
        the Counts then say so. Arguments as in the call; arrays of a GPU are copied to the host first.
        `target` counts what is compiled for another GPU.
        """
        blocks, threads = self.shape(grid, block, shared)
        return self._emulate(blocks, threads, args, shared, target, budget=budget, keep=False)

    def run_emulated(self, grid: Dim, block: Dim, args: Sequence[Any], shared: int = 0) -> Counts:
        """Run in the emulator, on any machine, with every check of memory on; host arrays are written."""
        blocks, threads = self.shape(grid, block, shared)
        return self._emulate(blocks, threads, args, shared)

    def writer(self, grid: Dim, block: Dim, args: Sequence[Any], output: int, element: int) -> str:
        """Which thread, at which line, wrote element number `element` of the array `args[output]`; "" if none.

        Runs the launch once more in the emulator; the arrays are left as they are.
        """
        blocks, threads = self.shape(grid, block, 0)
        compiled = self.compiled(device().arch)
        bound = arguments.bind(self.name, compiled.entry.params, self._types, args)
        buffers = [_to_emulator(b) for b in bound]
        whole, size = buffers[output], args[output].dtype.itemsize
        assert isinstance(whole, Buffer)
        watch = Buffer(whole.root, whole.offset + element * size, size, whole.name)
        return writer(compiled, blocks, threads, buffers, 0, watch)

    def _emulate(
        self,
        grid: Triple,
        block: Triple,
        args: Sequence[Any],
        shared: int,
        target: Device | None = None,
        **how: Any,
    ) -> Counts:
        compiled = self.compiled((target or device()).arch)
        bound = arguments.bind(self.name, compiled.entry.params, self._types, args)
        with Progress(f"emulating {self.name}") as progress:
            return launch(compiled, grid, block, [_to_emulator(b) for b in bound], shared, progress=progress, **how)

    def _launch_on_gpu(self, grid: Triple, block: Triple, args: Sequence[Any], shared: int) -> None:
        cp = array_module()
        bound = arguments.bind(self.name, self.compiled(device().arch).entry.params, self._types, args)
        with current_stream():
            placed = [arguments.on_gpu(cp, b) for b in bound]
            self._function(grid, block, tuple(value for value, _ in placed), shared_mem=shared)
            for value, host in placed:
                if host is not None:
                    host[...] = value.get()

    @functools.cached_property
    def _function(self) -> Any:
        cp = cupy()
        if cp is None:
            raise LabError(f"launch `{self.name}` on a GPU", "CuPy sees no GPU", "python -m labkit doctor says why")
        function = self._loaded(cp) if self.arch else self._built(cp)
        if device().limits.shared_per_block > 48 * 1024:
            room = device().limits.shared_per_block - function.shared_size_bytes
            function.max_dynamic_shared_size_bytes = max(room, 0)
        return function

    def _built(self, cp: ModuleType) -> Any:
        """Compiled by CuPy, for the device's own architecture."""
        named = self._asked_name if self._asked_name and "<" in self._asked_name else None
        code = with_defines(self.source, self.defines)
        options = ("--std=c++17", *(f"-I{folder}" for folder in include_paths()))
        module = cp.RawModule(code=code, options=options, name_expressions=[named] if named else None)
        return module.get_function(named or self.compiled(device().arch).name)

    def _loaded(self, cp: ModuleType) -> Any:
        """Our own NVRTC's machine code: CuPy names the device's architecture itself and takes no other."""
        assert self.arch
        if self.arch.rstrip("af") != device().arch:
            found = f"it is compiled for {self.arch}; {device().name} is {device().arch}"
            raise LabError(f"launch `{self.name}`", found, f"a GPU of {self.arch.rstrip('af')}")
        compiled = self.compiled(self.arch)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "kernel.cubin")
            path.write_bytes(compiled.cubin)
            function = cp.RawModule(path=str(path)).get_function(compiled.name)
            assert function.kernel  # loads it now, while the file is there
        return function

    def shape(self, grid: Dim, block: Dim, shared: int = 0) -> tuple[Triple, Triple]:
        """Grid and block as three numbers each. Raises LabError if the launch is impossible."""
        try:
            key = (
                tuple(grid) if isinstance(grid, list) else grid,
                tuple(block) if isinstance(block, list) else block,
            )
            return self._launchable(*key, shared, device().arch)
        except TypeError as error:
            found = f"grid {grid!r}, block {block!r}, shared {shared!r}"
            raise LabError(f"launch `{self.name}`", found, "whole numbers, or up to three of them") from error

    @functools.lru_cache(maxsize=1024)  # noqa: B019 # a kernel lives as long as the notebook
    def _launchable(self, grid: Dim, block: Dim, shared: int, arch: str) -> tuple[Triple, Triple]:
        asked = f"launch `{self.name}` with grid {grid}, block {block}, shared {shared}"
        blocks, threads = _dim3(grid, "grid", asked), _dim3(block, "block", asked)
        total = threads[0] * threads[1] * threads[2]
        if total > 1024 or threads[2] > 64:
            raise LabError(asked, f"{total:,} threads in a block; 1,024 is the most", "a block of 1,024 or less")
        if blocks[1] > 65535 or blocks[2] > 65535 or blocks[0] >= 1 << 31:
            raise LabError(asked, "a grid holds at most 2³¹−1 × 65,535 × 65,535 blocks", "put the long side in x")
        most = device().limits.shared_per_block
        own = self.compiled(arch).resources
        needed = (own.shared_bytes if own else 0) + shared
        if shared < 0 or needed > most:
            raise LabError(
                asked,
                f"{needed:,} B of shared memory; {device().name} gives a block {most:,} B",
                "a smaller tile",
            )
        if own is not None:
            occupancy(device(), own.registers, needed, total)  # raises where the registers are too few for a block
        return blocks, threads

    def __repr__(self) -> str:
        own = self.resources
        return f"<Kernel {self.name}: {own.registers} registers, {own.shared_bytes:,} B shared>"


class Progress:
    """A progress bar that appears once something has taken longer than a second."""

    def __init__(self, what: str) -> None:
        self.what, self.started, self.bar = what, time.monotonic(), None  # type: str, float, Any

    def __enter__(self) -> Progress:
        return self

    def __call__(self, share: float) -> None:
        if self.bar is None and time.monotonic() - self.started > 1 and share < 1:
            from tqdm.auto import tqdm

            self.bar = tqdm(total=100, desc=self.what, unit="%", leave=False)
        if self.bar is not None:
            self.bar.update(int(100 * share) - self.bar.n)

    def __exit__(self, *_: object) -> None:
        if self.bar is not None:
            self.bar.close()


def _to_emulator(bound: arguments.Bound) -> Buffer | bytes:
    if bound.array is None:
        return bound.scalar
    root, offset, size = arguments.host_buffer(bound.array)
    return Buffer(root, offset, size, bound.name)


def _dim3(value: Dim, what: str, asked: str | None = None) -> Triple:
    sizes = tuple(value) if isinstance(value, Sequence) else (value,)
    try:
        numbers = [int(size) for size in sizes]
        fits = 1 <= len(numbers) <= 3 and all(n > 0 and n == size for n, size in zip(numbers, sizes, strict=True))
    except (TypeError, ValueError):
        fits = False
    if not fits:
        raise LabError(asked or f"{what} {value}", f"the {what} is {value!r}", "one to three whole numbers above zero")
    x, y, z = (*numbers, 1, 1)[:3]
    return x, y, z
