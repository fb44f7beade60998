"""The ladder on tensor cores: BF16 in, summed in FP32, BF16 out, from WMMA to Hopper's wgmma."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..errors import LabError
from .ladder import Geometry, Rung
from .tensor_map import tensor_map

_BOX = 64 * 128  # bytes of 64 rows of 64 elements


def _require(defines: Mapping[str, int], *rules: tuple[bool, str]) -> None:
    for holds, rule in rules:
        if not holds:
            given = ", ".join(f"{name}={value}" for name, value in defines.items())
            raise LabError(f"a matrix product with {given}", f"the kernel is made for {rule}", "other defines")


def _wmma(d: Mapping[str, int]) -> Geometry:
    fragments = all(d[name] % 16 == 0 for name in ("BK", "WM", "WN"))
    _require(
        d,
        (fragments, "BK, WM and WN that are multiples of 16"),
        (d["BM"] % d["WM"] == 0 and d["BN"] % d["WN"] == 0, "warp tiles that fill the block's"),
    )
    return Geometry((d["BM"], d["BN"]), d["BM"] // d["WM"] * (d["BN"] // d["WN"]) * 32)


def _mma(d: Mapping[str, int]) -> Geometry:
    made = _wmma(d)
    high_a, high_b = made.threads * 8 // d["BK"], made.threads * 8 // d["BN"]
    _require(
        d,
        (d["BK"] % 64 == 0 and d["BN"] % 64 == 0, "BK and BN that are multiples of 64, eight chunks a row"),
        (d["WM"] % 32 == 0, "WM that is a multiple of 32, pairs of fragments"),
        (d["WN"] & (d["WN"] - 1) == 0, "WN that is a power of two: a chunk's place is then found by XOR"),
        (_divides(high_a, d["BM"]), "threads that copy 8, 16 … whole rows of A's tile, of which BM is a multiple"),
        (_divides(high_b, d["BK"]), "threads that copy 8, 16 … whole rows of B's tile, of which BK is a multiple"),
        (d["STAGES"] > 2 and d["GROUP"] > 0, "three stages or more, and a group of one or more"),
    )
    ring = d["STAGES"] * (d["BM"] + d["BN"]) * d["BK"] * 2
    return Geometry(made.tile, made.threads, max(ring, d["BM"] * d["BN"] * 2))


def _divides(rows: int, all_rows: int) -> bool:
    return rows > 0 and rows % 8 == 0 and all_rows % rows == 0


def _wgmma(d: Mapping[str, int]) -> Geometry:
    _require(
        d,
        ((d["BM"], d["BN"]) in ((128, 128), (128, 256), (256, 128)), "tiles of 128 × 128, 128 × 256 or 256 × 128"),
        (d["CLUSTER"] in (1, 2, 4) and d["BN"] // 64 % d["CLUSTER"] == 0, "clusters of 1, 2 or 4 that share BN / 64"),
        (min(d["STAGES"], d["BOXES"], d["GROUP"]) > 0, "stages, boxes and groups of one or more"),
        (d["BN"] // 64 % max(d["BOXES"], 1) == 0, "boxes that are used equally often: BOXES divides BN / 64"),
    )
    stage, barriers = (d["BM"] + d["BN"]) // 64 * _BOX, 16
    return Geometry((d["BM"], d["BN"]), 384, d["STAGES"] * (stage + barriers) + 2 * d["BOXES"] * _BOX)


@dataclass(frozen=True)
class MappedRung(Rung):
    """A rung whose kernel takes tensor maps of A, B and C instead of pointers, then M, N and K.

    Its blocks stay, one on each SM, and take tile after tile. K and N must be multiples of 8.
    """

    def grid(self, m: int, n: int) -> tuple[int, int]:
        """As many blocks as the device has SMs, in whole clusters, or fewer if C has fewer tiles."""
        from ..device import device

        rows, columns = self.tile
        cluster = dict(self.defines)["CLUSTER"]
        tiles = -(-m // (rows * cluster)) * -(-n // columns)
        return cluster * min(tiles, device().sms // cluster), 1

    def launch(self, a: Any, b: Any, c: Any) -> tuple[Any, ...]:
        """As `Rung.launch`, for arrays on the GPU: CuPy or torch."""
        from ..device import is_live

        grid, block, (_, _, _, m, n, k), shared = super().launch(a, b, c)
        if k % 8 or n % 8:
            found = f"K is {k:,} and N is {n:,}: the copy engine wants rows that begin on 16 bytes"
            raise LabError(f"{self.name}: A·B = C", found, "multiples of 8 elements, or the rung `mma`")
        maps = [bytes(128)] * 3  # without a GPU: the emulator refuses the kernel, by the line, before it reads them
        if is_live():
            maps = [tensor_map(a, self.tile[0]), tensor_map(b, 64), tensor_map(c, 64)]
        return grid, block, (*maps, m, n, k), shared


tensor = {
    "wmma": Rung(
        "wmma",
        "tensor/1_wmma.cu",
        (("BM", 128), ("BN", 128), ("BK", 32), ("WM", 32), ("WN", 32)),
        _wmma,
        "bfloat16",
        "bfloat16",
    ),
    "mma": Rung(
        "mma",
        "tensor/2_mma.cu",
        (("BM", 128), ("BN", 256), ("BK", 64), ("WM", 64), ("WN", 64), ("STAGES", 4), ("GROUP", 8)),
        _mma,
        "bfloat16",
        "bfloat16",
    ),
    "wgmma": MappedRung(
        "wgmma",
        "tensor/3_wgmma.cu",
        (("BM", 128), ("BN", 256), ("STAGES", 4), ("BOXES", 2), ("GROUP", 8), ("CLUSTER", 2)),
        _wgmma,
        "bfloat16",
        "bfloat16",
        "sm_90a",
    ),
}
