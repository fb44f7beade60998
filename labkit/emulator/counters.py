"""What a launch did: instructions, requests, sectors, bank conflicts, divergence; by source line.

The definitions are Nsight Compute's.  A *request* is one warp executing one global access; a *sector* is a
32-byte piece of memory that a request touches (l1tex__t_requests/sectors_pipe_lsu_mem_global_op_ld/st).
Shared memory has 32 banks of 4 bytes; a request that needs several different words of one bank is served in
turns, and each turn beyond the necessary ones is a *conflict*
(l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld/st). Instructions are PTX's: the final assembler
rewrites them (smsp__inst_executed, smsp__thread_inst_executed).
"""

from __future__ import annotations

import html
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from labkit.emulator.banks import ROW, phases

ADDED = (
    "global_load_requests",
    "global_load_sectors",
    "global_store_requests",
    "global_store_sectors",
    "shared_load_requests",
    "shared_store_requests",
    "shared_load_conflicts",
    "shared_store_conflicts",
    "warp_instructions",
    "thread_instructions",
    "divergent_branches",
    "flops",
)
WHOLE = ("unique_load_bytes", "unique_store_bytes", "array_bytes", "block_load_sectors", "load_waits",
         "global_store_bytes", "blocks", "threads", "seconds_emulated")  # fmt: skip


@dataclass(frozen=True)
class LineCounts:
    """The counters of one source line."""

    line: int
    text: str
    global_load_requests: int = 0
    global_load_sectors: int = 0
    global_store_requests: int = 0
    global_store_sectors: int = 0
    shared_load_requests: int = 0
    shared_store_requests: int = 0
    shared_load_conflicts: int = 0
    shared_store_conflicts: int = 0
    warp_instructions: int = 0
    thread_instructions: int = 0
    divergent_branches: int = 0
    flops: int = 0

    @property
    def lane_efficiency(self) -> float:
        return self.thread_instructions / (32 * self.warp_instructions) if self.warp_instructions else 0.0


@dataclass(frozen=True)
class Access:
    """One warp's execution of a memory instruction: where each of the 32 lanes went.

    addresses: None for a lane that did not take part, else bytes from the start of `array`; in shared memory
    from the start of the block's, for that decides the bank.
    """

    line: int
    op: str
    bytes_per_lane: int
    addresses: tuple[int | None, ...]
    array: str


@dataclass(frozen=True)
class Counts:
    """What a launch did, in the units of Nsight Compute's counters.

    sampled: some blocks, and of long loops some rounds, were run and the sums scaled to all.
    unique_load_bytes, unique_store_bytes: what a cache must fetch or write back even if neighbouring blocks
    share it: distinct 64-byte pieces (two sectors, the least that DRAM gives) touched by a run of
    neighbouring blocks, scaled to all blocks. array_bytes: the size of the arrays touched.
    block_load_sectors: sectors that a block loads at least once, summed over blocks: what the L1 cache
    cannot spare. load_waits: how often a warp waits for a load of global memory, see `latency.waits`.
    global_store_bytes: bytes that lanes stored; fewer than 32 a sector means sectors written in part.
    lanes: the first access of each global memory instruction, by the first warp of a block in the middle.
    banks: of all loads and stores of shared memory that were run the one with most bank conflicts; of equals
    one that spans most rows of 32 words, so that the column of a tile is kept also where it has none, and of
    the warps of one instruction a middle one.
    """

    global_load_requests: int = 0
    global_load_sectors: int = 0
    global_store_requests: int = 0
    global_store_sectors: int = 0
    shared_load_requests: int = 0
    shared_store_requests: int = 0
    shared_load_conflicts: int = 0
    shared_store_conflicts: int = 0
    warp_instructions: int = 0
    thread_instructions: int = 0
    divergent_branches: int = 0
    flops: int = 0
    unique_load_bytes: int = 0
    unique_store_bytes: int = 0
    array_bytes: int = 0
    block_load_sectors: int = 0
    load_waits: int = 0
    global_store_bytes: int = 0
    blocks: int = 0
    threads: int = 0
    sampled: bool = False
    seconds_emulated: float = 0.0
    by_line: tuple[LineCounts, ...] = ()
    lanes: tuple[Access, ...] = ()
    banks: Access | None = None

    @property
    def load_sectors_per_request(self) -> float:
        """4.0 is 32 lanes reading 4 bytes side by side; 32.0 is one sector for each lane."""
        return self.global_load_sectors / self.global_load_requests if self.global_load_requests else 0.0

    @property
    def store_sectors_per_request(self) -> float:
        return self.global_store_sectors / self.global_store_requests if self.global_store_requests else 0.0

    @property
    def lane_efficiency(self) -> float:
        """Active lanes of a warp, on average, as a share of 32."""
        return self.thread_instructions / (32 * self.warp_instructions) if self.warp_instructions else 0.0

    def __add__(self, other: Counts) -> Counts:
        """The counts of two launches together (line by line where the source is the same)."""
        summed: dict[str, Any] = {n: getattr(self, n) + getattr(other, n) for n in ADDED}
        for n in WHOLE:
            summed[n] = getattr(self, n) + getattr(other, n)
        return Counts(
            **summed,
            sampled=self.sampled or other.sampled,
            by_line=_merged([*self.by_line, *other.by_line]),
            lanes=self.lanes + other.lanes,
            banks=max((self.banks, other.banks), key=_conflict),
        )

    def drawn_on(self, longer: Counts, steps: float) -> Counts:
        """What a launch does that goes `steps` times as far beyond this one as `longer` does.

        For kernels whose every counter grows evenly with the length of a loop; said to be `sampled`.
        """
        drawn: dict[str, Any] = {n: _drawn(self, longer, n, steps) for n in ADDED + WHOLE[:6]}
        pairs = zip(self.by_line, longer.by_line, strict=True)
        lines = tuple(_line(a, {n: _drawn(a, b, n, steps) for n in ADDED}) for a, b in pairs)
        spent = self.seconds_emulated + longer.seconds_emulated
        return replace(self, **drawn, by_line=lines, sampled=True, seconds_emulated=spent)

    def times(self, blocks: int) -> Counts:
        """What `blocks` times as many blocks do, if all do the same; said to be `sampled`."""
        whole: dict[str, Any] = {n: blocks * getattr(self, n) for n in ADDED + WHOLE[:8]}
        lines = tuple(_line(x, {n: blocks * getattr(x, n) for n in ADDED}) for x in self.by_line)
        return replace(self, **whole, by_line=lines, sampled=True)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types, for recordings."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Counts:
        """The inverse of `to_dict`; unknown keys of newer recordings are ignored."""
        known = {f.name for f in fields(cls)}
        d = {k: v for k, v in data.items() if k in known}
        d["by_line"] = tuple(LineCounts(**x) for x in d.get("by_line", ()))
        d["lanes"] = tuple(map(_access, d.get("lanes", ())))
        d["banks"] = _access(d["banks"]) if d.get("banks") else None
        return cls(**d)

    def _repr_html_(self) -> str:
        return _table(self)


def _line(x: LineCounts, counters: dict[str, int]) -> LineCounts:
    return LineCounts(x.line, x.text, **counters)


def _drawn(a: object, b: object, name: str, steps: float) -> int:
    near, far = int(getattr(a, name)), int(getattr(b, name))
    return round(near + steps * (far - near))


def _access(data: dict[str, Any]) -> Access:
    return Access(**{**data, "addresses": tuple(data["addresses"])})


def _conflict(access: Access | None) -> tuple[int, int]:
    """Passes beyond the least, and the rows spanned: what `Counts.banks` is chosen by."""
    if access is None:
        return -1, 0
    asked = [a for a in access.addresses if a is not None]
    extra = sum(len(passes) - 1 for passes in phases(access.bytes_per_lane, access.addresses) if passes)
    return extra, (max(asked) - min(asked)) // ROW


def _merged(lines: Iterable[LineCounts]) -> tuple[LineCounts, ...]:
    out: dict[tuple[int, str], LineCounts] = {}
    for x in lines:
        old = out.get((x.line, x.text))
        out[x.line, x.text] = x if old is None else LineCounts(
            x.line, x.text, **{n: getattr(old, n) + getattr(x, n) for n in ADDED})  # fmt: skip
    return tuple(sorted(out.values(), key=lambda x: x.line))


def _cost(x: LineCounts) -> float:
    """A rough weight for shading: memory turns count four times an instruction."""
    return (x.warp_instructions + 4 * (x.global_load_sectors + x.global_store_sectors)
            + x.shared_load_conflicts + x.shared_store_conflicts)  # fmt: skip


def _per(sectors: int, requests: int) -> str:
    return f"{sectors / requests:.1f}" if requests else ""


COLUMNS = ("line", "source", "sectors / load", "sectors / store", "conflicts", "lanes", "warp instructions")


def _cells(x: LineCounts) -> tuple[str, ...]:
    return (
        str(x.line),
        f"<code>{html.escape(x.text)}</code>",
        _per(x.global_load_sectors, x.global_load_requests),
        _per(x.global_store_sectors, x.global_store_requests),
        f"{conflicts:,}" if (conflicts := x.shared_load_conflicts + x.shared_store_conflicts) else "",
        f"{x.lane_efficiency:.0%}",
        f"{x.warp_instructions:,}",
    )


def _table(c: Counts) -> str:
    worst = max([_cost(x) for x in c.by_line], default=0.0) or 1.0
    left = " style='text-align:left'"
    rows = ["".join(f"<th{left if name == 'source' else ''}>{name}</th>" for name in COLUMNS)]
    for x in c.by_line:
        shade = f"background:rgba(230,159,0,{0.55 * _cost(x) / worst:.2f})"
        cells = "".join(f"<td{left if n == 1 else ''}>{cell}</td>" for n, cell in enumerate(_cells(x)))
        rows.append(f"<tr style='{shade}'>{cells}</tr>")
    note = f"{c.blocks:,} blocks" + (", counted on a sample" if c.sampled else "")
    facts = (
        f"{c.load_sectors_per_request:.1f} sectors per load request · "
        f"{c.store_sectors_per_request:.1f} per store · "
        f"{c.shared_load_conflicts + c.shared_store_conflicts:,} bank conflicts · {note} · emulated PTX"
    )
    return f"<div>{facts}</div><table>{''.join(rows)}</table>"
