"""The code of a lab without Jupyter: its cells, run one after the other in a plain namespace."""

from __future__ import annotations

import json
import linecache
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .errors import LabError


@dataclass(frozen=True)
class Cell:
    """A code cell: its number among the code cells, its source, and whether it may raise (an open exercise)."""

    number: int
    source: str
    may_raise: bool


def code_cells(path: Path) -> list[Cell]:
    """The code cells of a notebook. Raises LabError if the file is not a notebook."""
    try:
        cells = [cell for cell in json.loads(path.read_text())["cells"] if cell["cell_type"] == "code"]
        return [
            Cell(i, "".join(cell["source"]), "raises-exception" in cell["metadata"].get("tags", []))
            for i, cell in enumerate(cells, 1)
        ]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise LabError(f"read the lab {path}", f"{type(error).__name__}: {error}", "a .ipynb file") from error


def run_cells(path: Path) -> Iterator[tuple[Cell, dict[str, Any]]]:
    """Run the cells in order, yielding each with the namespace after it.

    Raises LabError, naming the cell, for an error in a cell that is not tagged "raises-exception".
    """
    namespace: dict[str, Any] = {"__name__": f"lab_{path.stem}"}
    for cell in code_cells(path):
        filename = f"<{path.name} cell {cell.number}>"
        # inspect.getsource reads a function's source from here, as it does in Jupyter.
        linecache.cache[filename] = (len(cell.source), None, cell.source.splitlines(keepends=True), filename)
        try:
            exec(compile(cell.source, filename, "exec"), namespace)
        except Exception as error:
            if not cell.may_raise:
                found = f"{type(error).__name__}: {error}"
                raise LabError(f"run {path.name}, code cell {cell.number}", found, "run the lab in Jupyter") from error
        yield cell, namespace
