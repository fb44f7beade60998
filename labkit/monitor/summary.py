"""A summary of samples: a line a series, and what is missing with the reason."""

from __future__ import annotations

import html
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .quantities import ALL, Quantity

if TYPE_CHECKING:
    from .samples import Samples


@dataclass(frozen=True)
class Line:
    """One series of a GPU or of the host: its mean, least and most, in the quantity's base unit."""

    where: str
    quantity: Quantity
    mean: float
    least: float
    most: float

    def __str__(self) -> str:
        q = self.quantity
        if q.name == "energy":
            return f"{q.label}: {q.text(self.most)}"
        return f"{q.label}: {q.text(self.mean)}  ({q.text(self.least)} … {q.text(self.most)})"


@dataclass(frozen=True)
class Summary:
    """Lines for each GPU and the host; `notes` say what held the clock back, what is missing, the cost."""

    heading: str
    lines: tuple[Line, ...]
    notes: tuple[str, ...]

    @classmethod
    def of(cls, samples: Samples) -> Summary:
        """Summarise samples."""
        heading = f"{len(samples)} instants in {samples.seconds:.1f} s · {samples.origin}"
        return cls(heading, tuple(_lines(samples)), tuple(_notes(samples)))

    def __str__(self) -> str:
        text = [self.heading]
        for where in dict.fromkeys(line.where for line in self.lines):
            text += [where, *(f"  {line}" for line in self.lines if line.where == where)]
        return "\n".join([*text, *self.notes])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        rows = "".join(f"<tr>{''.join(f'<td>{text}</td>' for text in _texts(line))}</tr>" for line in self.lines)
        notes = "<br>".join(map(html.escape, self.notes))
        heads = "<tr><th></th><th></th><th>mean</th><th>least</th><th>most</th></tr>"
        return f"<div>{html.escape(self.heading)}</div><table>{heads}{rows}</table><small>{notes}</small>"


def _texts(line: Line) -> list[str]:
    values = [line.quantity.text(value) for value in (line.mean, line.least, line.most)]
    return [html.escape(text) for text in (line.where, line.quantity.label, *values)]


def _lines(samples: Samples) -> Iterator[Line]:
    names = {gpu.label: f"GPU {gpu.label}: {gpu.name}" for gpu in samples.gpus}
    for label, track in samples.tracks.items():
        for name, values in track.items():
            there = [float(v) for v in values if isinstance(v, int | float)]
            if name in ALL and there:
                mean = sum(there) / len(there)
                yield Line(names.get(label, label), ALL[name], mean, min(there), max(there))


def _notes(samples: Samples) -> Iterator[str]:
    if samples.silent:
        yield f"no GPU: {samples.silent}"
    for label, track in samples.tracks.items():
        seen = [text for text in track.get("limited_by", ()) if text is not None]
        for reason, count in Counter(part for text in seen for part in text.split(", ") if part).items():
            yield f"GPU {label}: clock held back by {reason}, {100 * count / len(seen):.0f} % of the time"
    for label, missing in samples.missing.items():
        for why in dict.fromkeys(missing.values()):
            names = [ALL[n].label if n in ALL else n for n, reason in missing.items() if reason == why]
            yield f"{'host' if label == 'host' else f'GPU {label}'}: without {', '.join(names)}: {why}"
    if samples.cpu_share:
        yield f"sampling took {100 * samples.cpu_share:.2g} % of one core"
