"""The kit's ladders of kernels: `sgemm`, the FP32 matrix product from naive to as fast as the library's, and
`tensor`, the BF16 product on tensor cores."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from ..errors import LabError
from .ladder import Geometry, Rung
from .tensor_cores import tensor

__all__ = ["Geometry", "Rung", "sgemm", "tensor"]

_STATIC = 48 * 1024  # bytes of shared memory that a kernel may declare by itself


def _plan(defines: Mapping[str, int], tiles: int = 0, four: bool = False, by_rows: bool = False) -> Geometry:
    """The geometry of a rung of `sgemm`, or LabError: the conditions that its kernel is written for.

    tiles: tiles of A and of B that it declares in shared memory. four: it reads and writes four floats at once.
    by_rows: a tile of A lies as in the matrix, not turned; with `four`, each of its rows ends in four of padding.
    """
    d = {"TM": 1, "TN": 1, "BK": 0, "STAGES": 0, **defines}
    _require(d, all(value > 0 for value in defines.values()), "a size below one")
    for part, whole in (("TM", "BM"), ("TN", "BN"), ("TM", "WM"), ("TN", "WN"), ("WM", "BM"), ("WN", "BN")):
        if part in d and whole in d:
            _require(d, d[whole] % d[part] == 0, f"{whole}={d[whole]} is no multiple of {part}={d[part]}")
    threads = d["BM"] // d["TM"] * (d["BN"] // d["TN"])
    _require(d, threads % 32 == 0, f"{threads} threads, which are no whole warps")
    if "WM" in d:
        lanes = d["WM"] // d["TM"] * (d["WN"] // d["TN"])
        _require(d, lanes == 32, f"a warp's tile holds {lanes} thread tiles; a warp has 32 lanes")
        _require(d, d["WM"] // d["TM"] % 2 == 0, "a warp whose lanes stand in one row; they stand in pairs of rows")
    if four:
        _require(d, d["TM"] % 4 == d["TN"] % 4 == d["BK"] % 8 == 0, "TM and TN go by 4, BK by 8")
        for matrix, floats in (("A", d["BM"] * d["BK"]), ("B", d["BK"] * d["BN"])):
            share = f"a tile of {matrix} of {floats:,} floats, which {threads:,} threads cannot share out by fours"
            _require(d, floats % (4 * threads) == 0, share)
    if "GROUP" in d:
        even = d["BM"] % (threads // 2) == 4 * threads % d["BN"] == 0
        _require(d, even, f"{threads} threads, which do not copy whole rows of the tiles at once")
    _require(d, d["STAGES"] != 1, "one stage, which cannot be filled while it is read")
    padding = 4 * d["BM" if by_rows else "BK"] if four else 0
    held = 4 * (d["BK"] * (d["BM"] + d["BN"]) + padding)
    _require(d, tiles * held <= _STATIC, f"tiles of {tiles * held:,} B in shared memory; {_STATIC:,} B is the most")
    return Geometry((d["BM"], d["BN"]), threads, d["STAGES"] * held)


def _require(defines: Mapping[str, int], fits: bool, found: str) -> None:
    if not fits:
        asked = "sgemm with " + ", ".join(f"{key}={value}" for key, value in defines.items())
        raise LabError(asked, found, "powers of two near the rung's own defines")


_SMALL = {"BM": 16, "BN": 16}
_SQUARE = {"BM": 128, "BN": 128, "BK": 8, "TM": 8, "TN": 8}
_ASYNC = _SQUARE | {"BK": 16, "STAGES": 3, "BLOCKS": 2}
_WARPED = _ASYNC | {"WM": 32, "WN": 64}
_TUNED = {"BN": 256, "WM": 64, "TN": 16, "BLOCKS": 1, "GROUP": 8}

_RUNGS: list[tuple[str, dict[str, int], Callable[[Mapping[str, int]], Geometry]]] = [
    ("naive", _SMALL, _plan),
    ("coalesced", _SMALL, _plan),
    ("tiled", {"BM": 32, "BN": 32, "BK": 32}, partial(_plan, tiles=1)),
    ("strip", {"BM": 64, "BN": 64, "BK": 16, "TM": 8}, partial(_plan, tiles=1)),
    ("square", _SQUARE, partial(_plan, tiles=1)),
    ("vectorised", _SQUARE, partial(_plan, tiles=1, four=True)),
    ("double_buffered", _SQUARE, partial(_plan, tiles=2, four=True)),
    ("async", _ASYNC, partial(_plan, four=True, by_rows=True)),
    ("warp_tiled", _WARPED, partial(_plan, four=True, by_rows=True)),
    ("tuned", _WARPED | _TUNED, partial(_plan, four=True)),
]

sgemm = {
    name: Rung(name, f"sgemm/{number}_{name}.cu", tuple(defines.items()), plan)
    for number, (name, defines, plan) in enumerate(_RUNGS, start=1)
}
