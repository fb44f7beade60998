"""Rung: one kernel of a ladder of matrix products, with what it takes to launch it for any shapes."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import LabError

if TYPE_CHECKING:
    from ..emulator import Counts
    from ..kernel import Kernel

FOLDER = Path(__file__).parent
_ONE_BLOCK = 10**9  # thread-instructions: a block is never counted in part
_LONGEST = (1 << 31) - (1 << 16)  # a size that the kernels' ints can hold, and step past by a few tiles
# dtype → the names of it that an array may carry; NumPy has no bfloat16 and holds its bits.
_HELD_AS = {"bfloat16": ("bfloat16", "uint16")}


@dataclass(frozen=True)
class Geometry:
    """What a rung's defines ask of a launch.

    tile: rows and columns of C that a block computes. threads: of a block, in x. shared: dynamic bytes.
    """

    tile: tuple[int, int]
    threads: int
    shared: int = 0


@dataclass(frozen=True)
class Rung:
    """One kernel C = A·B of a ladder, called as `rung(a, b, c)`.

    name:    as the ladder's dictionary has it.
    path:    the .cu file, absolute or seen from labkit/cuda; its kernel takes (A, B, C, M, N, K).
    defines: what the file may be compiled with, each with its value.
    plan:    defines → Geometry; raises LabError for a combination that the kernel is not made for.
    input, output: dtypes of A and B, and of C. arch: the architecture to compile for, where it must be
    another than the device's own ("sm_90a").

    >>> from labkit.cuda import sgemm
    >>> sgemm["tuned"](a, b, c); sgemm["tuned"].with_(BM=64)(a, b, c)
    """

    name: str
    path: str
    defines: tuple[tuple[str, int], ...]
    plan: Callable[[Mapping[str, int]], Geometry]
    input: str = "float32"
    output: str = "float32"
    arch: str = ""

    @functools.cached_property
    def geometry(self) -> Geometry:
        """Tile, threads and dynamic shared memory of these defines. Raises LabError if they do not fit."""
        from ..device import device

        made, limit = self.plan(dict(self.defines)), device().limits.shared_per_block
        asked = f"{self.name} with " + ", ".join(f"{key}={value}" for key, value in self.defines)
        if made.threads > 1024:
            raise LabError(asked, f"{made.threads:,} threads in a block; 1,024 is the most", "a larger thread tile")
        if made.shared > limit:
            found = f"{made.shared:,} B of shared memory; {device().name} gives a block {limit:,} B"
            raise LabError(asked, found, "a smaller tile, or fewer stages")
        return made

    @property
    def tile(self) -> tuple[int, int]:
        """Rows and columns of C that one block computes."""
        return self.geometry.tile

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return self.geometry.threads

    @property
    def shared(self) -> int:
        """Dynamic shared memory of a block in bytes."""
        return self.geometry.shared

    @property
    def source(self) -> str:
        """The CUDA C of its file."""
        return (FOLDER / self.path).read_text()

    @functools.cached_property
    def kernel(self) -> Kernel:
        """The compiled kernel."""
        from ..kernel import kernel

        target: dict[str, Any] = {"arch": self.arch} if self.arch else {}
        return kernel(self.source, defines=dict(self.defines), **target)

    @property
    def fingerprint(self) -> str:
        """A hash of the source without comments, the defines and the types; found without compiling."""
        from ..arguments import without_comments

        parts = [without_comments(self.source), repr(self.defines), self.input, self.output, self.arch]
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]

    def with_(self, **defines: int) -> Rung:
        """This rung with other defines. Raises LabError for one it does not have, or that does not fit."""
        known = dict(self.defines)
        for name in defines:
            if name not in known:
                raise LabError(f"{self.name} with {name}", "it has no such define", "one of " + ", ".join(known))
        made = replace(self, defines=tuple((known | defines).items()))
        assert made.geometry
        return made

    def grid(self, m: int, n: int) -> tuple[int, int]:
        """Blocks in x and y that cover an m × n C."""
        rows, columns = self.tile
        return -(-n // columns), -(-m // rows)

    def launch(self, a: Any, b: Any, c: Any) -> tuple[Any, ...]:
        """(grid, block, arguments, shared) for these arrays, as `kernel.count(*…)` takes them.

        a (M, K), b (K, N), c (M, N), row by row. Raises LabError for other shapes, dtypes or layouts.
        """
        self._check(*((tuple(x.shape), x.dtype, _by_rows(x)) for x in (a, b, c)))
        (m, k), n = a.shape, b.shape[1]
        return self.grid(m, n), self.threads, (a, b, c, m, n, k), self.shared

    @functools.lru_cache(maxsize=256)  # noqa: B019 # a rung lives as long as the notebook
    def _check(self, *arrays: tuple[tuple[int, ...], Any, bool]) -> None:
        """Raise LabError unless a rung takes such a, b and c: each its shape, its dtype, and whether by rows."""
        asked = f"{self.name}: A·B = C with " + ", ".join(f"{_name(dtype)} {shape}" for shape, dtype, _ in arrays)
        shapes = [shape for shape, *_ in arrays]
        if not all(len(shape) == 2 and all(shape) for shape in shapes):
            raise LabError(asked, "each has two sizes above zero", "a (M, K), b (K, N), c (M, N)")
        (m, k), n = shapes[0], shapes[1][1]
        if max(m, k, n) > _LONGEST:
            raise LabError(asked, f"a size above {_LONGEST:,}; the kernels count in 32 bits", "parts of the product")
        if shapes[1:] != [(k, n), (m, n)]:
            raise LabError(asked, "the shapes do not fit together", f"b ({k}, N) and c ({m}, N)")
        for name, (_, dtype, by_rows), wanted in zip("abc", arrays, (self.input, self.input, self.output), strict=True):
            if _name(dtype) not in _HELD_AS.get(wanted, (wanted,)):
                raise LabError(asked, f"{name} holds {_name(dtype)}", f"{name} as {wanted}")
            if not by_rows:
                found = f"the rows of {name} do not lie one after another"
                raise LabError(asked, found, f"a contiguous copy of {name}")

    def __call__(self, a: Any, b: Any, c: Any) -> None:
        """Write A·B to c. Arrays as in `launch`: NumPy, CuPy or torch.

        Where kernels are counted instead of run, a long product is counted on one block, see `counts`.
        """
        from ..kernel import Launch, being_counted

        grid, block, args, shared = self.launch(a, b, c)
        log, (m, n, k) = being_counted(), args[-3:]
        if log is None or k <= 3 * self._short:
            self.kernel(grid, block, args, shared)
        else:
            blocks, threads = self.kernel.shape(grid, block, shared)
            log.launches.append(Launch(self.kernel, blocks, threads, shared, self.counts(m, n, k)))

    def counts(self, m: int, n: int, k: int) -> Counts:
        """What the product of these sizes does to memory, from one block at two short K.

        Every block does the same, and all that it does grows evenly with K; tiles at the edge count as whole.
        """
        once, twice = _one_block(self, self.fingerprint)
        across, down = self.grid(m, n)
        whole = once.drawn_on(twice, k / self._short - 1).times(across * down)
        inputs, output = (_bytes(dtype) for dtype in (self.input, self.output))
        return replace(whole, array_bytes=inputs * (m * k + k * n) + output * m * n)

    @property
    def _short(self) -> int:
        """A K that fills every stage, so that twice as much costs what every such part costs."""
        own = dict(self.defines)
        return int(own.get("BK", 16)) * max(int(own.get("STAGES", 1)) + 1, 4)


@functools.lru_cache(maxsize=256)
def _one_block(rung: Rung, fingerprint: str) -> tuple[Counts, Counts]:
    """A block's counts at `_short` and at twice that, on zeros: nothing that it does depends on values.

    fingerprint: the rung's, so that a changed file is counted anew.
    """
    import numpy as np

    from ..kernel import counting

    (m, n), counted = rung.tile, []
    for k in (rung._short, 2 * rung._short):
        shapes = ((m, k), rung.input), ((k, n), rung.input), ((m, n), rung.output)
        arrays = [np.zeros(shape, _HELD_AS.get(dtype, (dtype,))[-1]) for shape, dtype in shapes]
        with counting(_ONE_BLOCK) as log:
            rung.kernel(*rung.launch(*arrays))
        counted.append(log.launches[0].counts)
    return counted[0], counted[1]


def _bytes(dtype: str) -> int:
    return 2 if dtype == "bfloat16" else 4


def _name(dtype: Any) -> str:
    return str(dtype).removeprefix("torch.")


def _by_rows(array: Any) -> bool:
    return bool(array.is_contiguous() if hasattr(array, "is_contiguous") else array.flags.c_contiguous)
