"""The kit's one exception."""

from __future__ import annotations


class LabError(Exception):
    """Something the reader can mend: what was asked, what was found, what to try.

    asked: what the call wanted, e.g. "launch `copy` with block 2048".
    found: what stands in its way, e.g. "a block holds at most 1024 threads".
    try_:  what to do about it, e.g. "block=1024 or less".
    """

    def __init__(self, asked: str, found: str, try_: str) -> None:
        super().__init__(asked, found, try_)
        self.asked, self.found, self.try_ = asked, found, try_

    def __str__(self) -> str:
        return f"\n  asked: {self.asked}\n  found: {self.found}\n  try:   {self.try_}"

    def _render_traceback_(self) -> list[str]:
        """What Jupyter shows instead of a stack trace: the three lines (IPython's hook)."""
        return ["LabError" + str(self)]
