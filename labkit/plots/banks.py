"""A warp's 32 lanes above, the 32 banks of shared memory below: a row for each pass, filled where a bank serves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from matplotlib.axes import Axes

from labkit.emulator.banks import BANKS, WORD, Pass, parts, phases, words
from labkit.plots.lanes import LANE_BOTTOM, WASTE, Strip, idle, square
from labkit.plots.paper import BLUE, GREEN, INK, PALE, PAPER, SMALL
from labkit.plots.warp import Box

if TYPE_CHECKING:
    from labkit.emulator import Access

TOP, BOTTOM, TALLEST = 0.50, 0.13, 0.16  # of the rows
SIDE, GAP, APART = 0.06, 0.014, 8  # beside a bank and under a row, as long as there are few rows
EDGE = 0.035  # of a lane, in its group's colour
FOOT = 0.02  # of the banks' numbers
_WIRE: dict[str, Any] = {"fill": False, "linewidth": 0.8, "alpha": 0.8}
LOOKS: dict[str, dict[str, Any]] = {
    "idle": {"facecolor": PALE, "edgecolor": PAPER, "linewidth": 0.8},
    "first": {"facecolor": PALE, "linewidth": 0},
    "extra": {"facecolor": WASTE, "linewidth": 0},
    "even": {"facecolor": BLUE, "linewidth": 0},
    "odd": {"facecolor": GREEN, "linewidth": 0},
    "even wires": {**_WIRE, "edgecolor": BLUE},
    "odd wires": {**_WIRE, "edgecolor": GREEN},
    "odd lanes": {"facecolor": GREEN, "linewidth": 0},
}


class Banks(Strip):
    """The drawing of one access to shared memory. Lanes served together share a colour."""

    looks, space = LOOKS, "shared"
    meanings = ((BLUE, "a word"), (PALE, "idle"), (WASTE, "extra pass"))

    def __init__(self, axes: Axes, animated: bool = False) -> None:
        super().__init__(axes, animated)
        for bank in range(0, BANKS, 4):
            text = str(bank) if bank else "bank 0"
            axes.text(bank + 0.5, FOOT, text, ha="center", va="baseline", fontsize=SMALL - 1, color=INK)

    def shapes(self, access: Access | None) -> Mapping[str, Sequence[Box]]:
        shapes: dict[str, list[Box]] = {name: [] for name in LOOKS}
        shapes["idle"] = idle(access)
        if access is None:
            return shapes
        for kind, colour, bottom, top, served in _rows(access):
            shapes[kind].append(square(SIDE, BANKS - SIDE, bottom, top))
            shapes[colour] += [square(bank + SIDE, bank + 1 - SIDE, bottom, top) for bank in served]
        together = parts(access.bytes_per_lane, access.addresses)
        for lane, address in enumerate(access.addresses):
            if address is not None:
                colour = _colour(next(k for k, part in enumerate(together) if lane in part))
                bank = address // WORD % BANKS + words(access.bytes_per_lane) / 2
                shapes[f"{colour} wires"].append([(lane + 0.5, LANE_BOTTOM), (bank, TOP)])
                if colour == "odd":
                    shapes["odd lanes"].append(square(lane + SIDE, lane + 1 - SIDE, LANE_BOTTOM, LANE_BOTTOM + EDGE))
        return shapes

    def told(self, access: Access) -> str:
        return caption(access)

    def size(self, access: Access) -> str:
        together = max(map(len, parts(access.bytes_per_lane, access.addresses)))
        return super().size(access) + (f", {together} at a time" if together < BANKS else "")


def _colour(group: int) -> str:
    return "odd" if group % 2 else "even"


def _rows(access: Access) -> Iterator[tuple[str, str, float, float, Pass]]:
    """Yield each pass from above: "first" or "extra" of its lanes, their colour, bottom, top, and what is served."""
    served = phases(access.bytes_per_lane, access.addresses)
    rows = sum(map(len, served))
    tall = min(TALLEST, (TOP - BOTTOM) / rows)
    gap = GAP if rows <= APART else 0.0
    top = TOP
    for group, passes in enumerate(served):
        for k, asked in enumerate(passes):
            yield "extra" if k else "first", _colour(group), top - tall + gap, top, asked
            top -= tall


def caption(access: Access) -> str:
    """Say in one line what the drawing shows: lanes, words, banks, passes and how few would do."""
    served = phases(access.bytes_per_lane, access.addresses)
    lanes = sum(address is not None for address in access.addresses)
    banks = len({bank for passes in served for asked in passes for bank in asked})
    passes, least = sum(map(len, served)), sum(map(bool, served))
    cost = f"{passes} passes where {least} would do" if passes > least else f"{_count(passes, 'pass')}, no conflict"
    return f"{_count(lanes, 'lane')} ask for {_words(access)} of {_count(banks, 'bank')}: {cost}"


def _words(access: Access) -> str:
    """Name the words that the first lanes ask for, each once."""
    wide = words(access.bytes_per_lane)
    first = list(dict.fromkeys(address // WORD for address in access.addresses if address is not None))
    some = [f"{word}" if wide == 1 else f"{word}–{word + wide - 1}" for word in first[: 3 if wide == 1 else 2]]
    named = ", ".join(some) + (" …" if len(first) > len(some) else "")
    return f"word{'s' if len(first) * wide > 1 else ''} {named}"


def _count(n: int, what: str) -> str:
    return f"{n} {what}" + ("" if n == 1 else "es" if what.endswith("s") else "s")
