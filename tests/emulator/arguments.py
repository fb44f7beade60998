"""Arrays and scalars as the emulator takes them."""

from __future__ import annotations

from typing import Any

import numpy as np

from labkit.emulator import Buffer


def prepare(args: list[Any]) -> tuple[list[Any], list[Buffer | bytes]]:
    """Copies of the arrays, and the launch arguments that point to them."""
    kept = [np.ascontiguousarray(a).copy() if isinstance(a, np.ndarray) else a for a in args]
    out: list[Buffer | bytes] = []
    for n, a in enumerate(kept):
        if isinstance(a, np.ndarray):
            out.append(Buffer(a.reshape(-1).view(np.uint8), 0, a.nbytes, f"argument {n}"))
        else:
            out.append(a if isinstance(a, bytes) else a.tobytes())
    return kept, out
