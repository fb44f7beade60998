"""The roofline: where measurements stand between a GPU's bandwidth and its arithmetic."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from matplotlib.axes import Axes

from labkit.plots import paper
from labkit.plots.axis import short
from labkit.plots.curve import keys, point

if TYPE_CHECKING:
    from labkit.device import Device
    from labkit.measurement import Measurement

LINE, LETTER = 0.06, 0.011  # shares of the axes: the height of a name, the width of a letter
LEADER = {"arrowstyle": "-", "color": paper.GREY, "linewidth": 0.6, "relpos": (0, 0.5)}
ROOFS = (  # attribute of a Device, name, colour
    ("fp32_flops", "FP32", paper.BLUE),
    ("tf32_flops", "TF32", paper.GREEN),
    ("bf16_flops", "BF16", paper.VERMILLION),
)


def roofline(axes: Axes, device: Device, measurements: Sequence[Measurement]) -> None:
    """Draw `device`'s bandwidth slope and arithmetic ceilings, and each measurement at its FLOP per byte.

    After S. Williams, A. Waterman and D. Patterson, "Roofline", CACM 52(4), 2009.
    """
    paper.plain(axes)
    paper.label(axes, "arithmetic per byte moved (FLOP/B)", "TFLOP/s")
    axes.set_xscale("log")
    axes.set_yscale("log")
    at = [(m.flops / m.bytes, m.tflops) for m in measurements if m.bytes and m.flops]
    roofs = [(getattr(device, field) / 1e12, name, colour) for field, name, colour in ROOFS if getattr(device, field)]
    slope = device.copy_bandwidth / 1e12  # TB/s × FLOP/B = TFLOP/s
    ridges = [roof / slope for roof, _, _ in roofs]
    left = min([0.05, *(0.5 * x for x, _ in at)])
    right = max([4 * ridge for ridge in ridges] + [2 * x for x, _ in at] + [100.0])
    _roofs(axes, roofs, slope, left, right)
    varied = [name for name in measurements[0].settings if len({m.settings[name] for m in measurements}) > 1]
    low = min([slope * left, *(0.5 * y for _, y in at)])
    high = 2 * max([slope * left, *(roof for roof, _, _ in roofs)])
    axes.set_xlim(left, right)
    axes.set_ylim(low, high)
    placed: list[tuple[float, float, int]] = []
    for m in sorted((m for m in measurements if m.bytes and m.flops), key=lambda m: -m.tflops):
        x, y = m.flops / m.bytes, m.tflops
        axes.plot([x], [y], color=paper.INK, zorder=4, **point(m.source))
        named = ", ".join(_named(name, m.settings[name]) for name in varied)
        free = _free(x, y, len(named), placed, (high / low) ** LINE, (right / left) ** LETTER)
        axes.annotate(named, (x, y), (x * 1.15, free), fontsize=paper.SMALL, color=paper.INK, va="center",
                      arrowprops=LEADER)  # fmt: skip
    paper.legend(axes, keys((m.source for m in measurements), False))


def _roofs(axes: Axes, roofs: list[tuple[float, str, str]], slope: float, left: float, right: float) -> None:
    top = max((roof for roof, _, _ in roofs), default=slope * right)
    axes.plot([left, top / slope], [slope * left, top], color=paper.INK, linewidth=1.6)
    axes.annotate(f"copy: {slope * 1e3:,.4g} GB/s", (left, slope * left), (10, 2), textcoords="offset points",
                  fontsize=paper.SMALL, color=paper.INK, va="bottom", rotation=0)  # fmt: skip
    for roof, name, colour in roofs:
        axes.plot([roof / slope, right], [roof, roof], color=colour, linewidth=1.8)
        axes.text(
            right,
            roof,
            f"{name}: {roof:,.3g} TFLOP/s ",
            color=paper.INK,
            fontsize=paper.SMALL,
            ha="right",
            va="bottom",
        )


def _free(x: float, y: float, size: int, placed: list[tuple[float, float, int]], line: float, letter: float) -> float:
    """The height at or below `y` where a name of `size` letters runs into none of those placed before.

    line, letter: the factors in y and x that a name is high and a letter wide, on logarithmic axes.
    """
    for there, height, long in sorted(placed, key=lambda at: -at[1]):
        beside = x * letter**size < there or there * letter**long < x
        if not beside and height / line < y < height * line:
            y = height / line
    placed.append((x, y, size))
    return y


def _named(setting: str, value: Any) -> str:
    """A name says enough by itself, a number not."""
    return value if isinstance(value, str) else f"{setting}={short(value)}"
