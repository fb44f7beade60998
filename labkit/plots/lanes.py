"""A warp's 32 lanes above, the 32-byte sectors they touch below."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Patch, PathPatch
from matplotlib.path import Path

from labkit.plots.paper import BLUE, GREY, INK, PALE, PAPER, SMALL, TEXT
from labkit.plots.warp import LINE, SECTOR, WIDTH, Box, Layout, caption, layout
from labkit.plots.words import Words

if TYPE_CHECKING:
    from matplotlib.artist import Artist

    from labkit.emulator import Access

LANE_TOP, LANE_MIDDLE, LANE_BOTTOM = 0.92, 0.84, 0.76  # heights, in the axes' own unit
SECTOR_TOP, SECTOR_BOTTOM, FOOT, BRACKET = 0.42, 0.20, 0.17, 0.14
MARKS = 8  # at most so many lines are labelled with their address
WASTE = "#f2cf80"
CAPTION = -0.12
BREAK_DOTS = (-0.12, 0.0, 0.12)
LOOKS: dict[str, dict[str, Any]] = {
    "idle": {"facecolor": PALE, "edgecolor": PAPER, "linewidth": 0.8},
    "wires": {"fill": False, "edgecolor": BLUE, "linewidth": 0.8, "alpha": 0.8},
    "fetched": {"facecolor": WASTE, "linewidth": 0},
    "used": {"facecolor": BLUE, "linewidth": 0},
    "frames": {"fill": False, "edgecolor": GREY, "linewidth": 0.5},
    "brackets": {"fill": False, "edgecolor": INK, "linewidth": 0.9},
    "breaks": {"fill": False, "edgecolor": INK, "linewidth": 1.0},
}


def square(left: float, right: float, bottom: float, top: float) -> Box:
    return [(left, bottom), (right, bottom), (right, top), (left, top), (left, bottom)]


def compound(shapes: Sequence[Box]) -> Path:
    """Join shapes of equally many corners into one path: drawn in one call, not one for each."""
    if not shapes:
        return Path(np.empty((0, 2)))
    corners = len(shapes[0])
    codes = np.full((len(shapes), corners), Path.LINETO, dtype=Path.code_type)
    codes[:, 0] = Path.MOVETO
    return Path(np.asarray(shapes, dtype=float).reshape(-1, 2), codes.ravel())


class Lanes:
    """The drawing of one access on given axes; `show` moves it to another."""

    def __init__(self, axes: Axes, animated: bool = False) -> None:
        axes.set_xlim(-0.4, WIDTH + 0.4)
        axes.set_ylim(-0.16, 1.12)
        axes.set_axis_off()
        every = compound([square(lane, lane + 1, LANE_BOTTOM, LANE_TOP) for lane in range(32)])
        axes.add_patch(PathPatch(every, facecolor=BLUE, edgecolor=PAPER, linewidth=0.8))
        for lane in range(0, 32, 4):
            axes.text(lane + 0.5, LANE_MIDDLE, str(lane), ha="center", va="center", fontsize=SMALL - 1, color=PAPER)
        self.what = Words(axes, axes.transData, SMALL, INK)
        self.caption = Words(axes, axes.transData, TEXT, INK, "center")
        self.marks = [Words(axes, axes.transData, SMALL - 1, INK, "center") for _ in range(MARKS)]
        self.paths = {name: PathPatch(compound([]), **look) for name, look in LOOKS.items()}
        for path in self.paths.values():
            axes.add_artist(path)
        self.moving: tuple[Artist, ...] = (*self.paths.values(), self.what, self.caption, *self.marks)
        for artist in self.moving:
            artist.set_animated(animated)
        _key(axes)

    def show(self, access: Access | None) -> None:
        """Draw `access`, or say that there is none."""
        plan = layout(access) if access else Layout({}, 1.0, (), {})
        shapes = {**_lanes(access, plan), **_sectors(plan), **_lines(plan)}
        for name, path in self.paths.items():
            path.set_path(compound(shapes[name]))
        self._label(plan)
        if access is None:
            self.what.say("", 0, 0)
            self.caption.say("no access to global memory was counted for this setting", WIDTH / 2, CAPTION)
            return
        self.what.say(f"one warp: {access.op} of {access.bytes_per_lane} B a lane, line {access.line}", 0, 1.0)
        self.caption.say(caption(access), WIDTH / 2, CAPTION)

    def _label(self, plan: Layout) -> None:
        """Write how far each line is from the first one, in bytes."""
        every = -(-len(plan.lines) // MARKS) or 1
        labelled = list(plan.lines.items())[::every]
        for i, mark in enumerate(self.marks):
            line, left = labelled[i] if i < len(labelled) else (None, 0.0)
            ahead = None if line is None else (line - labelled[0][0]) * LINE
            mark.say("" if ahead is None else f"+{ahead:,}", left + plan.width / 2, 0.02)


def _lanes(access: Access | None, plan: Layout) -> dict[str, list[Box]]:
    lanes = list(enumerate(access.addresses if access else ()))
    middle = access.bytes_per_lane / 2 if access else 0
    return {
        "idle": [square(lane, lane + 1, LANE_BOTTOM, LANE_TOP) for lane, address in lanes if address is None],
        "wires": [
            [(lane + 0.5, LANE_BOTTOM), (plan.place(a, middle), SECTOR_TOP)] for lane, a in lanes if a is not None
        ],
    }


def _sectors(plan: Layout) -> dict[str, list[Box]]:
    sectors = list(plan.sectors())
    touched = [(plan.used[sector], left, right) for sector, left, right in sectors if sector in plan.used]
    tall = (SECTOR_TOP - SECTOR_BOTTOM) / SECTOR
    return {
        "fetched": [square(left, right, SECTOR_BOTTOM, SECTOR_TOP) for _, left, right in touched],
        "used": [square(left, right, SECTOR_BOTTOM, SECTOR_BOTTOM + used * tall) for used, left, right in touched],
        "frames": [square(left, right, SECTOR_BOTTOM, SECTOR_TOP) for _, left, right in sectors],
    }


def _lines(plan: Layout) -> dict[str, list[Box]]:
    inset = min(0.06 * plan.width, 0.15)
    ends = [(left + inset, left + plan.width - inset) for left in plan.lines.values()]
    return {
        "brackets": [[(left, FOOT), (left, BRACKET), (right, BRACKET), (right, FOOT)] for left, right in ends],
        "breaks": [[(at + dot, 0.29), (at + dot, 0.33)] for at in plan.breaks for dot in BREAK_DOTS],
    }


def _key(axes: Axes) -> None:
    meanings = ((BLUE, "used"), (WASTE, "moved, not used"), (PAPER, "not moved"))
    handles = [Patch(facecolor=colour, edgecolor=GREY, linewidth=0.5, label=text) for colour, text in meanings]
    keys = axes.legend(
        handles=handles, loc="lower right", bbox_to_anchor=(1, 0.86), ncols=3, frameon=False, fontsize=SMALL,
        handlelength=1.0, handleheight=0.9, columnspacing=1.0, handletextpad=0.4,
        borderaxespad=0, labelcolor=INK,
    )  # fmt: skip
    keys.set_in_layout(False)


def lanes(axes: Axes, access: Access | None) -> Lanes:
    """Draw the warp of `access` on `axes`: lanes above, sectors below, filled by their used bytes."""
    drawn = Lanes(axes)
    drawn.show(access)
    return drawn
