"""Local arrays, one for each thread, and the parameters of a launch."""

from __future__ import annotations

from typing import Any

import numpy as np

from labkit.emulator import findings
from labkit.emulator.lanes import Lanes
from labkit.emulator.types import Array
from labkit.emulator.wave import Wave


def load_local(w: Wave, pc: int, address: Array, dtype: np.dtype[Any], n: int) -> list[Array]:
    lanes = Lanes(w, address)
    _check_local(w, pc, lanes, dtype.itemsize * n, "reads")
    g = w.local.dtype.itemsize
    cells = w.local.reshape(len(w.local), -1)
    if lanes.shape == (1, 1) and w.local.shape[1:] == (w.B, w.T):
        start = int(lanes.at.flat[0]) // g
        raw = [w.local[start + k].copy() for k in range(n * dtype.itemsize // g)]  # a later store must not change it
        return [_glue(raw[k : k + dtype.itemsize // g], dtype) for k in range(0, len(raw), dtype.itemsize // g)]
    lanes = Lanes(w, address, (w.B, w.T))
    thread = lanes.rows(w) * w.full_T + lanes.columns(w)
    first = lanes.at // g
    raw = [cells[first + k, thread] for k in range(n * dtype.itemsize // g)]
    parts = dtype.itemsize // g
    return [lanes.spread(_glue(raw[k : k + parts], dtype)) for k in range(0, len(raw), parts)]


def store_local(w: Wave, pc: int, address: Array, dtype: np.dtype[Any], values: list[Array]) -> None:
    lanes = Lanes(w, address, (w.B, w.T))
    _check_local(w, pc, lanes, dtype.itemsize * len(values), "writes")
    g, parts = w.local.dtype.itemsize, dtype.itemsize // w.local.dtype.itemsize
    pieces = [piece for v in values for piece in _cut(v, w.local.dtype, parts)]
    if lanes.on is None and address.shape == (1, 1) and w.local.shape[1:] == (w.B, w.T):
        first = int(address.flat[0]) // g
        for k, piece in enumerate(pieces):
            w.local[first + k] = piece
        return
    cells = w.local.reshape(len(w.local), -1)
    thread = lanes.rows(w) * w.full_T + lanes.columns(w)
    for k, piece in enumerate(pieces):
        cells[lanes.at // g + k, thread] = lanes.pick(piece)


def _glue(parts: list[Array], dtype: np.dtype[Any]) -> Array:
    if len(parts) == 1:
        return parts[0].view(dtype)
    return np.stack(parts, axis=-1).view(dtype)[..., 0]


def _cut(value: Array, small: np.dtype[Any], parts: int) -> list[Array]:
    if parts == 1:
        return [np.ascontiguousarray(value).view(small)]
    split = np.ascontiguousarray(value)[..., None].view(small)
    return [split[..., k] for k in range(parts)]


def _check_local(w: Wave, pc: int, lanes: Lanes, size: int, verb: str) -> None:
    at = lanes.at
    if at.size and (int(at.min()) < 0 or int(at.max()) + size > w.layout.size["local"]):
        raise findings.outside_local(w, pc, lanes, size, verb)
    if at.size and int(np.bitwise_or.reduce(at, axis=None)) & (size - 1):
        raise findings.misaligned(w, pc, lanes, size, verb, "a local array")


def load_param(w: Wave, pc: int, address: Array, dtype: np.dtype[Any], n: int) -> list[Array]:
    size = dtype.itemsize
    lanes = Lanes(w, address)
    at = lanes.at
    raw = np.stack([w.params.take(at + k, mode="clip") for k in range(size * n)], axis=-1)
    parts = np.ascontiguousarray(raw).view(dtype)
    return [lanes.spread(parts[..., k]) for k in range(n)]
