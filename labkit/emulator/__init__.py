"""A CUDA emulator: the reader's CUDA C, compiled to PTX by NVIDIA's own compiler and run by NumPy.

`compile_kernel` turns source into a Compiled kernel, `launch` runs it on arrays and returns Counts, what it
did to memory in the units of Nsight Compute, or raises LabError for what a sanitizer would find.
"""

from labkit.emulator.compile import (
    Compiled,
    Entry,
    Param,
    Resources,
    compile_kernel,
    compiled_from_ptx,
    include_paths,
    with_defines,
)
from labkit.emulator.counters import Access, Counts, LineCounts
from labkit.emulator.launch import launch, writer
from labkit.emulator.spaces import Buffer

__all__ = [
    "Access",
    "Buffer",
    "Compiled",
    "Counts",
    "Entry",
    "LineCounts",
    "Param",
    "Resources",
    "compile_kernel",
    "compiled_from_ptx",
    "include_paths",
    "launch",
    "with_defines",
    "writer",
]
