"""The state of the blocks that run together: registers, masks, memory.

A wave is B blocks of T threads that take each step at once, as arrays.  On a GPU a warp of 32 threads does
this in
hardware: one instruction, 32 lanes ("single instruction, multiple threads").  A *mask* says which threads
take part; None means all of them, which is the fast case.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np

from labkit.emulator.counters import Access
from labkit.emulator.meter import Meter, by_warp
from labkit.emulator.program import Program
from labkit.emulator.ptx import WIDTH, Instr
from labkit.emulator.shadow import Shadow
from labkit.emulator.spaces import Memory
from labkit.emulator.types import DTYPE, Array, bits_as

Triple = tuple[int, int, int]


class Unmet(Exception):
    """Lanes of a warp instruction are missing; `here` are the threads of the warps that are complete."""

    def __init__(self, here: Array) -> None:
        super().__init__()
        self.here = here


class Layout:
    """Offsets of a kernel's shared and local variables, decided once for each kernel."""

    def __init__(self, p: Program) -> None:
        self.offsets: dict[str, int] = {}
        self.size = {"shared": 0, "local": 0}
        self.dynamic = [v for v in p.variables.values() if v.space == "shared" and v.size == 0]
        for v in p.variables.values():
            if v.space in self.size and v.size:
                start = -(-self.size[v.space] // v.align) * v.align
                self.offsets[v.name], self.size[v.space] = start, start + v.size
        start = -(-self.size["shared"] // 16) * 16
        for v in self.dynamic:
            self.offsets[v.name] = -(-start // v.align) * v.align
        self.dynamic_start = max([self.offsets[v.name] for v in self.dynamic], default=self.size["shared"])

        self.granule = min(
            [WIDTH[i.types[-1]] for i in p.code if i.op in ("ld", "st") and touches(i, "local")], default=4
        )

        self.grain = min([_unit(i) for i in p.code if i.op in SHARED_OPS and touches(i, "shared")], default=4)
        self.global_grain = min([_unit(i) for i in p.code if i.op in ("ld", "st") and touches(i, "global")], default=4)
        self.fences = any(
            i.op in ("membar", "fence") or {"acquire", "release", "acq_rel"} & set(i.mods) for i in p.code
        )

    def shared_bytes(self, dynamic: int) -> int:
        return self.dynamic_start + dynamic if dynamic else self.size["shared"]


SHARED_OPS = ("ld", "st", "atom", "red")
NAMED = {"global", "shared", "const", "param", "shared_cta", "param_entry", "local"}


def touches(i: Instr, space: str) -> bool:
    """Whether a load or store may reach `space`: it says so, or names none."""
    named = {m.removesuffix("_cta") for m in i.mods if m in NAMED}
    return not named or space in named


def _unit(i: Instr) -> int:
    return min(WIDTH[i.types[-1]], 8)


class Wave:
    """B blocks of T threads; `blocks` holds their linear indices."""

    def __init__(self, p: Program, layout: Layout, memory: Memory, params: Array, grid: Triple, block: Triple,
                 blocks: Array, shared: int, meter: Meter | None) -> None:  # fmt: skip
        self.program, self.layout, self.memory, self.params = p, layout, memory, params
        self.grid, self.block, self.blocks, self.meter = grid, block, blocks, meter
        self.B, self.T = len(blocks), block[0] * block[1] * block[2]
        self.W = -(-self.T // 32)
        self.regs: list[Array] = [np.zeros((1, 1), DTYPE[t]) for _, t in p.registers.values()]
        self.narrow, self.all_blocks, self.full_T = False, blocks, self.T
        self.row_of, self.column_of = np.arange(self.B)[:, None], np.arange(self.T)[None, :]
        self.mask: Array | None = None
        self.merge = 0
        self.pc = 0
        size = layout.shared_bytes(shared)
        self.shared_size = size
        self.shared = np.zeros((self.B, -(-size // 16) * 16), np.uint8)
        self.shared_views: dict[Any, Array] = {}
        cells = -(-layout.size["local"] // layout.granule)
        self.local = np.zeros((cells, self.B, self.T), f"u{layout.granule}")
        self.specials: dict[tuple[str, Any], Array] = {}
        self.symbols: dict[tuple[str, Any], Array] = {}
        self.addresses: dict[tuple[int, int], tuple[Array, Array]] = {}
        self.patterns: dict[int, Any] = {}
        self.printed: list[str] = []
        self.clock = 0
        self.alive: Array | None = None
        self.forced, self.strict = False, False
        self.shadow: Shadow | None = None
        self.races: Any = None
        self.watch: int | None = None
        self.lanes: dict[int, Access] = {}

    def sanitize(self, races: Any) -> None:
        """Watch shared memory (and `races`, global memory) from here on."""
        if self.shared_size:
            self.shadow = Shadow(self, self.layout.grain)
        self.races, self.strict = races, True

    def put(self, slot: int, value: Array) -> None:
        """Write a register of the active threads; the others keep theirs if they may still read it."""
        if self.merge and self.merge >> slot & 1 and self.mask is not None:
            old = self.regs[slot]
            value = np.where(self.mask, value, old if old.dtype == value.dtype else bits_as(old, value.dtype))
        self.regs[slot] = value

    def special(self, name: str, dtype: np.dtype[Any]) -> Array:
        """%tid.x, %ctaid.y, %laneid … as the smallest array."""
        key = (name, dtype)
        if name in ("%clock", "%clock64", "%globaltimer", "%clock_hi", "%globaltimer_lo"):
            self.clock += 16
            return np.array([[self.clock]]).astype(dtype)
        if key not in self.specials:
            self.specials[key] = np.ascontiguousarray(SPECIAL[name](self)).astype(dtype)
        return self.specials[key]

    def symbol(self, name: str, dtype: np.dtype[Any]) -> Array:
        """The address of a variable."""
        key = (name, dtype)
        if key not in self.symbols:
            offsets, params = self.layout.offsets, {v.name: n for n, v in enumerate(self.program.params)}
            value = offsets[name] if name in offsets else self.memory.symbols.get(name)
            if value is None and name in params:
                value = param_offsets(self.program)[params[name]]
            assert value is not None, name
            self.symbols[key] = np.array([[value]], np.uint64).astype(dtype)
        return self.symbols[key]

    def passed_barrier(self, rows: Array | None) -> None:
        """The threads of these blocks (None: of all) have met at a barrier."""
        if self.shadow is not None:
            self.shadow.passed(rows)

    def passed_warp_barrier(self) -> None:
        """The active threads have met their warp at __syncwarp()."""
        if self.shadow is not None:
            self.shadow.passed_warp(self)

    def meet(self, pc: int, members: Array) -> None:
        """Lanes of a warp instruction: raises Unmet where one named in `members` is elsewhere."""
        if self.mask is None or self.forced:
            return
        bits = np.uint32(1) << np.arange(32, dtype=np.uint32)
        on = by_warp(self.active(), False)
        alive = by_warp(np.broadcast_to(np.True_ if self.alive is None else self.alive, (self.B, self.T)), False)
        named = np.bitwise_or.reduce(np.where(on, by_warp(np.broadcast_to(members, (self.B, self.T)), 0), 0), axis=2)
        missing = ((alive & ~on) * bits).sum(axis=2, dtype=np.uint32) & named
        if missing.any():
            here = np.repeat((missing == 0) & on.any(axis=2), 32, axis=1)[:, : self.T] & self.active()
            raise Unmet(here)

    def shared_array(self, byte: int) -> tuple[str, int]:
        """The array that holds a byte of shared memory, by the name the reader gave it ("" if none), and its start."""
        offsets, variables = self.layout.offsets, self.program.variables
        named = [(o, n) for n, o in offsets.items() if variables[n].space == "shared" and o <= byte]
        if not named:
            return "", 0
        start, name = max(named)
        plain = re.search(r"E\d+([A-Za-z_]\w*?)(?:_\d+)?$", name)
        return plain[1] if plain else name, start

    def shared_place(self, byte: int) -> str:
        """`byte 12 of shared `tile``."""
        name, start = self.shared_array(byte)
        return f"byte {byte - start} of shared " + (f"`{name}`" if name else "memory")

    def confirm_shared(self) -> None:
        """A store to shared memory is done: was it a race?"""
        if self.shadow is not None:
            self.shadow.confirm()

    def note_shared(self, pc: int, lanes: Any, size: int, kind: str) -> None:
        """Tell the sanitizer of a shared access."""
        if self.shadow is not None and lanes.at.size:
            self.shadow.note(self, pc, lanes, size, kind)

    def active(self) -> Array:
        """The mask as a full (B, T) array."""
        return np.broadcast_to(np.True_ if self.mask is None else self.mask, (self.B, self.T))

    def active_or_alive(self) -> Array:
        """The threads that have not exited, as a (B, T) array."""
        return np.broadcast_to(np.True_ if self.alive is None else self.alive, (self.B, self.T))

    def thread_count(self, mask: Array | None) -> int:
        if mask is None:
            return self.B * self.T
        return int(int(np.count_nonzero(mask)) * (self.B // mask.shape[0]) * (self.T // mask.shape[1]))

    def warp_count(self, mask: Array | None) -> int:
        """Warps with at least one thread of `mask`."""
        if mask is None:
            return self.B * self.W
        if mask.shape[1] == 1:
            return int(int(np.count_nonzero(mask)) * (self.B // mask.shape[0]) * self.W)
        return int(int(np.count_nonzero(by_warp(mask, False).any(axis=2))) * (self.B // mask.shape[0]))

    def thread(self, row: int, column: int) -> str:
        """`block (1, 0, 0), thread (3, 0, 0)` as the reader wrote them."""
        x, y, _ = self.grid
        b = int(self.blocks[row])
        tx, ty, _ = self.block
        return (f"block ({b % x}, {b // x % y}, {b // (x * y)}), "
                f"thread ({column % tx}, {column // tx % ty}, {column // (tx * ty)})")  # fmt: skip


def param_offsets(p: Program) -> list[int]:
    """Where each parameter starts in parameter memory."""
    out, offset = [], 0
    for v in p.params:
        offset = -(-offset // max(v.align, 1)) * max(v.align, 1)
        out.append(offset)
        offset += v.size
    return out


def _thread(axis: int) -> Callable[[Wave], Array]:
    def read(w: Wave) -> Array:
        below = int(np.prod(w.block[:axis], dtype=int))
        return (np.arange(w.T) // below % w.block[axis])[None, :]

    return read


def _block(axis: int) -> Callable[[Wave], Array]:
    def read(w: Wave) -> Array:
        below = int(np.prod(w.grid[:axis], dtype=int))
        return (w.blocks // below % w.grid[axis])[:, None]

    return read


def _size(what: str, axis: int) -> Callable[[Wave], Array]:
    return lambda w: np.array([[getattr(w, what)[axis]]])


def _lane(f: Callable[[Array], Array]) -> Callable[[Wave], Array]:
    return lambda w: f(np.arange(w.T, dtype=np.int64) % 32)[None, :]


ONE = np.int64(1)
SPECIAL: dict[str, Callable[[Wave], Array]] = {
    **{f"%tid.{c}": _thread(n) for n, c in enumerate("xyz")},
    **{f"%ctaid.{c}": _block(n) for n, c in enumerate("xyz")},
    **{f"%ntid.{c}": _size("block", n) for n, c in enumerate("xyz")},
    **{f"%nctaid.{c}": _size("grid", n) for n, c in enumerate("xyz")},
    "%laneid": _lane(lambda x: x),
    "%lanemask_eq": _lane(lambda x: ONE << x),
    "%lanemask_lt": _lane(lambda x: (ONE << x) - 1),
    "%lanemask_le": _lane(lambda x: (ONE << (x + 1)) - 1),
    "%lanemask_gt": _lane(lambda x: 0xFFFFFFFF & ~((ONE << (x + 1)) - 1)),
    "%lanemask_ge": _lane(lambda x: 0xFFFFFFFF & ~((ONE << x) - 1)),
    "%warpid": lambda w: (np.arange(w.T) // 32)[None, :],
    "%nwarpid": lambda w: np.array([[w.W]]),
    "%smid": lambda w: (w.blocks % 132)[:, None],
    "%nsmid": lambda w: np.array([[132]]),
    "%gridid": lambda w: np.array([[1]]),
    "%dynamic_smem_size": lambda w: np.array([[max(w.shared_size - w.layout.dynamic_start, 0)]]),
    "%total_smem_size": lambda w: np.array([[w.shared_size]]),
    "WARP_SZ": lambda w: np.array([[32]]),
}
