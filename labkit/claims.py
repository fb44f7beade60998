"""Claims: what practitioners repeat, beside what was measured."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from .errors import LabError

VERDICTS = {"confirmed": "#009E73", "depends": "#E69F00", "refuted": "#D55E00"}
UNKNOWN = "not measured"


class Measured(Protocol):
    """What a verdict can rest on: a Measurement, an Observation, or whatever says where it is from."""

    @property
    def origin(self) -> str: ...


@dataclass(frozen=True)
class Claim:
    """A claim, its verdict, the measured evidence, and where the numbers come from."""

    id: str
    text: str
    verdict: str
    evidence: str
    origin: str

    def __str__(self) -> str:
        return f"{self.id} · {self.text}\n   {self.verdict}: {self.evidence} ({self.origin})"

    def _repr_html_(self) -> str:
        text, evidence, origin = map(html.escape, (self.text, self.evidence, self.origin))
        colour = VERDICTS.get(self.verdict, "#8b8d93")
        return (
            f"<div class='labkit-claim'><b>{html.escape(self.id)}</b> · <i>{text}</i><br>"
            f"<b style='color:{colour}'>{self.verdict}</b> — {evidence} <small>({origin})</small></div>"
        )


def claim(id: str, text: str, verdict: str, evidence: str, of: Measured | Iterable[Measured]) -> Claim:
    """A claim with its measured verdict: "confirmed", "depends" or "refuted".

    verdict, evidence: computed by the caller from the measurements `of`, whose origin is shown beside them.
    Where the evidence holds a nan, a number it rests on is missing here: the verdict is then "not measured".
    Raises LabError for another verdict, or if nothing was measured.
    """
    if verdict not in VERDICTS:
        raise LabError(f"the verdict on claim {id}", f"{verdict!r}", "one of " + ", ".join(VERDICTS))
    measured = list(of) if isinstance(of, Iterable) else [of]
    if not measured:
        raise LabError(f"the verdict on claim {id}", "no measurement was given", "of=[the measurements it rests on]")
    if re.search(r"\bnan\b", evidence):
        verdict, evidence = UNKNOWN, "a number that it rests on is missing here"
    return Claim(id, text, verdict, evidence, "; ".join(dict.fromkeys(m.origin for m in measured)))
