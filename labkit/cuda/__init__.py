"""The kit's ladders of kernels: `sgemm`, the FP32 matrix product from naive to as fast as the library's."""

from __future__ import annotations

from collections.abc import Mapping

from .ladder import Geometry, Rung

__all__ = ["Geometry", "Rung", "sgemm"]


def _one_each(defines: Mapping[str, int]) -> Geometry:
    """One thread for each element of the tile."""
    rows, columns = defines["BM"], defines["BN"]
    return Geometry((rows, columns), rows * columns)


def _ladder(*rungs: tuple[str, str, dict[str, int]]) -> dict[str, Rung]:
    return {name: Rung(name, f"sgemm/{file}", tuple(defines.items()), _one_each) for name, file, defines in rungs}


sgemm = _ladder(
    ("naive", "1_naive.cu", {"BM": 16, "BN": 16}),
    ("coalesced", "2_coalesced.cu", {"BM": 16, "BN": 16}),
)
