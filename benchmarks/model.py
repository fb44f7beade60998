"""The model's error: predicted ÷ recorded time for every recorded setting that kernels alone make up."""

from __future__ import annotations

import statistics
import sys
from pathlib import Path

from labkit import LabError
from labkit.experiment import Experiment
from labkit.notebook import run_cells

NOTEBOOKS = Path(__file__).parents[1] / "notebooks"


def rows(lab: Path) -> list[tuple[str, dict[str, object], float, float]]:
    """(experiment, settings, modelled seconds, recorded seconds) of one lab."""
    namespace: dict[str, object] = {}
    for _, namespace in run_cells(lab):  # noqa: B007 # the last one is wanted
        pass
    found = {value.name: value for value in namespace.values() if isinstance(value, Experiment)}
    made = []
    for experiment in found.values():
        for recorded in [m for m in experiment.known() if m.source == "recorded"]:
            try:
                modelled = experiment.model(recorded.settings)
            except LabError:
                continue  # a torch operation: nothing to model
            made.append((experiment.name, recorded.settings, modelled.seconds, recorded.seconds))
    return made


def main(labs: list[str]) -> None:
    """Print per experiment the median and the worst error, |modelled ÷ recorded − 1|."""
    for lab in [Path(p) for p in labs] or sorted(NOTEBOOKS.glob("[0-9]*.ipynb")):
        made = rows(lab)
        for name in dict.fromkeys(row[0] for row in made):
            by = {str(s): m / r - 1 for n, s, m, r in made if n == name}
            worst = max(by, key=lambda key: abs(by[key]))
            middle = statistics.median(map(abs, by.values()))
            print(
                f"{lab.stem:16} {name:12} {len(by):3} settings  median {middle:6.1%} worst {by[worst]:+7.1%} at {worst}"
            )
        if made:
            errors = sorted(abs(m / r - 1) for *_, m, r in made)
            middle = statistics.median(errors)
            nine = errors[int(0.9 * len(errors))]
            print(f"{lab.stem:16} {'all':12} {len(made):3} settings  median {middle:6.1%} 90 % within {nine:.1%}")


if __name__ == "__main__":
    main(sys.argv[1:])
