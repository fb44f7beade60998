"""Tensor maps: what Hopper's copy engine (TMA) has to know of a matrix to move boxes of it."""

from __future__ import annotations

import functools
import struct
from typing import Any

from ..errors import LabError

LINE = 128  # bytes of a box's row: the width within which the swizzle moves 16-byte chunks


def tensor_map(matrix: Any, rows: int) -> bytes:
    """The 128 bytes of a CUtensorMap for boxes of `rows` × 64 elements of a BF16 matrix on the GPU.

    matrix: (rows, columns) in device memory, row by row, BF16 (CuPy: its bits as uint16); rows: at most 256.
    A box lands in shared memory with the 128-byte swizzle: chunk c of row r at c ^ (r % 8). What lies beyond
    the matrix is read as zeros and not written.

    The bytes go to a kernel by value, as `const __grid_constant__ TensorMap`, a struct of 128 bytes aligned to
    64: through CuPy as a NumPy array of one element of 128 bytes, which `Kernel` makes of them.

    Raises LabError if rows of the matrix do not begin on 16 bytes, or if it is not on the GPU.
    Source: CUDA driver API, cuTensorMapEncodeTiled.
    """
    height, width = matrix.shape
    pointer = _pointer(matrix)
    if width % 8 or pointer % 16:
        found = f"its rows are {2 * width:,} B long and the first begins at {pointer:#x}"
        raise LabError(_asked(matrix), found, "rows of a multiple of 8 elements from 16 bytes on, or the rung `mma`")
    return _encode(pointer, height, width, rows)


def _asked(matrix: Any) -> str:
    height, width = matrix.shape
    return f"a tensor map of a {height:,} × {width:,} BF16 matrix"


def _pointer(matrix: Any) -> int:
    if hasattr(matrix, "data_ptr") and matrix.is_cuda:
        return int(matrix.data_ptr())
    if hasattr(matrix, "data_ptr") or not hasattr(matrix, "__cuda_array_interface__"):
        raise LabError(_asked(matrix), "the matrix is in the host's memory", "an array on the GPU: CuPy or torch")
    return int(matrix.__cuda_array_interface__["data"][0])


@functools.lru_cache(maxsize=256)
def _encode(pointer: int, height: int, width: int, rows: int) -> bytes:
    from cuda.bindings import driver

    u32, u64 = driver.cuuint32_t, driver.cuuint64_t
    status, made = driver.cuTensorMapEncodeTiled(
        driver.CUtensorMapDataType.CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
        2,
        pointer,
        [u64(width), u64(height)],
        [u64(2 * width)],
        [u32(LINE // 2), u32(rows)],
        [u32(1), u32(1)],
        driver.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE,
        driver.CUtensorMapSwizzle.CU_TENSOR_MAP_SWIZZLE_128B,
        driver.CUtensorMapL2promotion.CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
        driver.CUtensorMapFloatOOBfill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
    )
    if status != driver.CUresult.CUDA_SUCCESS:
        raise LabError(f"a tensor map of a {height:,} × {width:,} BF16 matrix", str(status), "a GPU of sm_90 or newer")
    return struct.pack("<16Q", *(int(word) for word in made.opaque))
