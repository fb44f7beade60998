"""Shared memory's 32 banks of 4 bytes: which words a request makes them serve, pass by pass."""

from __future__ import annotations

from collections.abc import Sequence

BANKS, WORD = 32, 4
ROW = BANKS * WORD  # bytes that the banks serve in a pass
Pass = dict[int, int]  # bank -> the word it serves: its bytes are 4 * word to 4 * word + 3


def groups(bytes_per_lane: int) -> int:
    """Into how many groups of lanes, served one after the other, a warp falls: 8 bytes a lane are two halves'."""
    return max(bytes_per_lane // WORD, 1)


def phases(bytes_per_lane: int, addresses: Sequence[int | None]) -> list[list[Pass]]:
    """What the banks do for one request of a warp: the passes of each group of lanes, none where all are off.

    addresses: bytes from the start of shared memory, one for each of the 32 lanes; None for one that is off.
    A bank serves one word a pass; lanes that ask for the same word share it. In which order the hardware takes
    the words of a bank is not known; here it is by address. One pass is the least for a group.
    """
    size = BANKS // groups(bytes_per_lane)
    parts = [[a for a in addresses[k : k + size] if a is not None] for k in range(0, BANKS, size)]
    return [_passes(bytes_per_lane, part) for part in parts]


def _passes(bytes_per_lane: int, addresses: list[int]) -> list[Pass]:
    out: list[Pass] = []
    words = {a // WORD + k for a in addresses for k in range(groups(bytes_per_lane))}
    taken = [0] * BANKS
    for word in sorted(words):
        bank = word % BANKS
        if taken[bank] == len(out):
            out.append({})
        out[taken[bank]][bank] = word
        taken[bank] += 1
    return out
