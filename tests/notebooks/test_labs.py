"""Every lab, found by glob: executed in a clean kernel, clean on disk, its exercises open and its solutions right."""

import re
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from labkit import LabError
from labkit.notebook import code_cells

ROOT = Path(__file__).parents[2] / "notebooks"
LABS = sorted(ROOT.glob("[0-9]*.ipynb"))
ALL = LABS + sorted(ROOT.glob("solutions/*.ipynb"))


def named(paths):
    return pytest.mark.parametrize("path", paths, ids=lambda path: str(path.relative_to(ROOT)))


def executed(path):
    notebook = nbformat.read(path, as_version=4)
    NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(path.parent)}}).execute()
    return notebook


@pytest.mark.notebook
@named(ALL)
def test_runs_from_top_to_bottom(path):
    """Only a cell tagged raises-exception (an open exercise) may end in an error, and only in a LabError."""
    for cell in executed(path).cells:
        for output in cell.get("outputs", []):
            if output.output_type == "error":
                assert "raises-exception" in cell.metadata.get("tags", []), output.evalue
                assert output.ename == "LabError"
            elif "data" in output:
                assert any(key.startswith(("text", "image", "application")) for key in output.data)


@named(ALL)
def test_is_canonical_and_stripped(path):
    text = path.read_text()
    notebook = nbformat.reads(text, as_version=4)
    nbformat.validate(notebook)
    assert "widgets" not in notebook.metadata
    for cell in notebook.cells:
        assert cell.cell_type != "code" or (not cell.outputs and cell.execution_count is None)
        assert set(cell.metadata) <= {"tags"}


@named(LABS)
def test_is_short(path):
    notebook = nbformat.read(path, as_version=4)
    words = sum(len(cell.source.split()) for cell in notebook.cells if cell.cell_type == "markdown")
    assert 400 <= words <= 1000
    lengths = sorted(len(cell.source.splitlines()) for cell in notebook.cells if cell.cell_type == "code")
    assert lengths[-1] <= 15 and lengths[len(lengths) // 2] <= 7


@named(LABS)
def test_types_no_measured_number(path):
    """Prose names no speed: a number with a unit of speed or time has to be computed in a cell."""
    for cell in nbformat.read(path, as_version=4).cells:
        if cell.cell_type == "markdown":
            assert not re.search(r"\d[\d,.]*\s*(GB/s|TB/s|TFLOP|µs|ms\b)", cell.source), cell.source


@named(LABS)
def test_each_section_is_there(path):
    text = "\n".join(c.source for c in nbformat.read(path, as_version=4).cells if c.cell_type == "markdown")
    for section in ("question", "prediction", "smallest case", "Measure", "What we measured", "Exercise", "Take away"):
        assert re.search(rf"^## .*{section}", text, re.M), section


def checks(path):
    return {m.group(1): c for c in code_cells(path) for m in re.finditer(r'labkit\.check\("([^"]+)"', c.source)}


@pytest.mark.notebook
@pytest.mark.compiler
@named(LABS)
def test_every_skeleton_fails_and_every_solution_only_adds_lines(path):
    skeletons, solved = code_cells(path), code_cells(path.parent / "solutions" / path.name)
    assert checks(path) and set(checks(path)) == set(checks(path.parent / "solutions" / path.name))
    for name, cell in checks(path).items():
        start = skeletons[cell.number - 2].source
        space = {}
        exec("import labkit\n" + start, space)
        with pytest.raises(LabError):
            exec(cell.source, space)
        answer = next(c.source for c in solved if c.source.startswith(start.splitlines()[0]))
        lines = iter(answer.splitlines())
        assert all(line in lines for line in start.splitlines()), f"the solution of {name!r} changes its skeleton"
