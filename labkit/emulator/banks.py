"""Shared memory's 32 banks of 4 bytes: which words a request makes them serve, pass by pass."""

from __future__ import annotations

from collections.abc import Sequence

BANKS, WORD = 32, 4
NEIGHBOURS = (1, 2)
ROW = BANKS * WORD  # bytes that the banks serve in a pass
Pass = dict[int, int]  # bank -> the word it serves: its bytes are 4 * word to 4 * word + 3


def words(bytes_per_lane: int) -> int:
    """How many words a lane asks for, and into how many parts, served one after the other, a warp then falls."""
    return max(bytes_per_lane // WORD, 1)


def parts(bytes_per_lane: int, addresses: Sequence[int | None]) -> list[range]:
    """The lanes that are served together: all; for 8 bytes a lane half a warp, for 16 a quarter.

    Two quarters are served as the half that they are where each lane shares its 16 bytes with a neighbour:
    lane i with i ^ 1, all of them, or all with i ^ 2. Found on an H200: the hardware's counters tell it.
    """
    size = BANKS // words(bytes_per_lane)
    if words(bytes_per_lane) < 4:
        return [range(k, k + size) for k in range(0, BANKS, size)]
    out = []
    for first in range(0, BANKS, 2 * size):
        half = range(first, first + 2 * size)
        shared = any(all(addresses[lane] == addresses[lane ^ step] for lane in half) for step in NEIGHBOURS)
        out += [half] if shared else [half[:size], half[size:]]
    return out


def phases(bytes_per_lane: int, addresses: Sequence[int | None]) -> list[list[Pass]]:
    """What the banks do for one request of a warp: the passes of each of `parts`, none where all are off.

    addresses: bytes from the start of shared memory, one for each of the 32 lanes; None for one that is off.
    A bank serves one word a pass; lanes that ask for the same word share it. In which order the hardware takes
    the words of a bank is not known; here it is by address. One pass is the least for a part.
    """
    asked = ([addresses[lane] for lane in part] for part in parts(bytes_per_lane, addresses))
    return [_passes(bytes_per_lane, [a for a in part if a is not None]) for part in asked]


def _passes(bytes_per_lane: int, addresses: list[int]) -> list[Pass]:
    out: list[Pass] = []
    asked = {a // WORD + k for a in addresses for k in range(words(bytes_per_lane))}
    taken = [0] * BANKS
    for word in sorted(asked):
        bank = word % BANKS
        if taken[bank] == len(out):
            out.append({})
        out[taken[bank]][bank] = word
        taken[bank] += 1
    return out
