"""Global, shared, local and parameter memory: where an address leads, and what is out of bounds.

Each space has a window of generic (64-bit) addresses.  Global memory is a table of allocations with gaps
between them, so that a stray address hits nothing.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labkit.emulator.types import Array

GLOBAL_BASE = 0x7F00_0000_0000
SHARED_WINDOW = 0x7E00_0000_0000
LOCAL_WINDOW = 0x7D00_0000_0000
PARAM_WINDOW = 0x7C00_0000_0000
GAP = 1 << 20
PAGE = 512
SMALL = 4 << 20


@dataclass(frozen=True)
class Buffer:
    """A pointer argument: an array of `size` bytes, `offset` bytes into the allocation `root`."""

    root: NDArray[np.uint8]
    offset: int
    size: int
    name: str


@dataclass
class Segment:
    """One allocation at its virtual address."""

    base: int
    data: NDArray[np.uint8]
    name: str
    offset: int = 0
    space: str = "global"
    loaded: NDArray[np.bool_] | None = None
    stored: NDArray[np.bool_] | None = None
    undo: list[Any] | None = None
    views: dict[Any, Array] = field(default_factory=dict)
    parts: list[tuple[int, int, str]] = field(default_factory=list)

    @property
    def end(self) -> int:
        return self.base + len(self.data)

    def view(self, dtype: np.dtype[Any]) -> Array:
        """The allocation as elements of `dtype` (a rest too short for one is left out)."""
        if dtype not in self.views:
            size = dtype.itemsize
            self.views[dtype] = self.data[: len(self.data) // size * size].view(dtype)
        return self.views[dtype]

    def called(self, byte: int) -> tuple[str, int]:
        """The argument that byte `byte` belongs to, and how far into it: several may share an allocation."""
        for start, size, name in self.parts:
            if start <= byte < start + size:
                return name, byte - start
        return self.name, byte - self.offset

    def mark(self, kind: str, sectors: Array) -> None:
        """Remember which 32-byte sectors were touched."""
        seen = getattr(self, kind)
        if seen is None:
            seen = np.zeros((len(self.data) // 64 + 2) * 2, np.bool_)
            setattr(self, kind, seen)
        seen[sectors] = True

    def save(self, view: Array, index: Array) -> None:
        """Keep what a store is about to overwrite: small allocations whole, large ones element by element."""
        assert self.undo is not None
        if len(self.data) > SMALL:
            self.undo.append((view, index, view[index]))
        elif not self.undo:
            self.undo.append((self.data, slice(None), self.data.copy()))

    def restore(self) -> None:
        for view, index, old in reversed(self.undo or ()):
            view[index] = old


class Memory:
    """All of a launch's global memory."""

    def __init__(self, keep: bool = True) -> None:
        self.keep = keep
        self.segments: list[Segment] = []
        self.bases: list[int] = []
        self.symbols: dict[str, int] = {}
        self.next = GLOBAL_BASE
        self.rough = False  # results are thrown away: float32 need not be rounded as the GPU does
        self.normal_shared = True  # nothing subnormal was put into shared memory: see flushing.py
        self.watched: int | None = None
        self.writer = ""

    def place(
        self, data: NDArray[np.uint8], name: str, part: tuple[int, int] | None = None, space: str = "global"
    ) -> int:
        """Give an allocation an address, the same one each time.  part: offset and size used."""
        address = data.__array_interface__["data"][0]
        offset, size = part or (0, len(data))
        for s in self.segments:
            if s.data.__array_interface__["data"][0] == address and len(s.data) == len(data):
                s.parts.append((offset, size, name))
                return s.base
        s = Segment(self.next, data, name, offset, space, undo=None if self.keep else [])
        s.parts.append((offset, size, name))
        self.segments.append(s)
        self.bases.append(s.base)
        self.next += -(-(len(data) + GAP) // PAGE) * PAGE
        return s.base

    def find(self, address: int) -> Segment | None:
        """The allocation that holds `address`, or None."""
        at = bisect_right(self.bases, address) - 1
        s = self.segments[at] if at >= 0 else None
        return s if s is not None and address < s.end else None

    def near(self, address: int) -> Segment | None:
        """The allocation that `address` most likely meant: the closest one."""
        gaps = [(max(s.base - address, address - s.end + 1, 0), n) for n, s in enumerate(self.segments)]
        return self.segments[min(gaps)[1]] if gaps and min(gaps)[0] < GAP else None

    def restore(self) -> None:
        for s in self.segments:
            s.restore()
