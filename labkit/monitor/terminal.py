"""The monitor in a terminal: a few lines a GPU, drawn anew each second, until Ctrl-C."""

from __future__ import annotations

import shutil
import sys
import time
from pathlib import Path
from typing import TextIO

from .quantities import ALL
from .sampler import Monitor
from .samples import Samples
from .view import DIALS, facts, view

BAR = 20  # characters
EVERY = 0.5  # seconds between two drawings


def watch(
    hertz: float = 10.0, seconds: float = float("inf"), save: Path | None = None, out: TextIO | None = None
) -> int:
    """Show the meters until `seconds` are over or Ctrl-C; then the summary, and JSON in `save`. Returns 0.

    On a terminal the lines are drawn in place; into a file or a pipe goes the summary alone.
    """
    out = out or sys.stdout
    monitor = Monitor(hertz).start()
    drawn, end = 0, time.monotonic() + seconds
    try:
        while (left := end - time.monotonic()) > 0:
            time.sleep(min(EVERY, left))
            if out.isatty():
                drawn = _draw(screen(monitor.since(time.monotonic() - monitor.began - 2)), drawn, out)
    except KeyboardInterrupt:
        print(file=out)
    samples = monitor.stop()
    print(samples.summary(), file=out)
    if save is not None:
        samples.save(save)
        print(f'saved: labkit.Monitor.load("{save}") reads it', file=out)
    return 0


def _draw(lines: list[str], before: int, out: TextIO) -> int:
    """Draw over what was drawn before; returns the number of lines."""
    size = shutil.get_terminal_size()
    shown = [line[: size.columns - 1] for line in lines[: size.lines - 1]]
    up = f"\x1b[{before}F" if before else ""
    out.write(up + "\x1b[J" + "\n".join(shown) + "\n")
    out.flush()
    return len(shown)


def screen(samples: Samples) -> list[str]:
    """The lines of one drawing: for each GPU its dials in two columns and a line of facts; then the host."""
    lines: list[str] = []
    for gpu in samples.gpus:
        lines += [f"GPU {gpu.label}  {gpu.name}  {facts(samples, gpu.label)}", *_dials(samples, gpu.label), ""]
    host = [ALL[name].label + " " + ALL[name].text(_last(samples, name)) for name in HOST_LINE]
    lines.append("  ·  ".join(host) + (f"  ·  no GPU: {samples.silent}" if samples.silent else ""))
    return [*lines, f"{samples.time[-1]:.0f} s · Ctrl-C ends"]


HOST_LINE = ("cpu", "cpu_busiest", "host_memory", "disk_read")


def _last(samples: Samples, name: str) -> float | None:
    return next((v for v in reversed(samples.series(name)) if v is not None), None)


def _dials(samples: Samples, gpu: str) -> list[str]:
    dials = [dial for dial in view(samples, gpu).dials if dial.name != "cpu_busiest"]
    half = -(-len(DIALS) // 2)
    cells = [f"{dial.label:>14} {_bar(dial.share)} {dial.text:<14}" for dial in dials]
    return [left + (cells[i + half] if i + half < len(cells) else "") for i, left in enumerate(cells[:half])]


def _bar(share: float | None) -> str:
    filled = round(BAR * min(max(share or 0.0, 0.0), 1.0))
    return "█" * filled + "·" * (BAR - filled)
