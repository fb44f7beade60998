"""Claims: what practitioners repeat, beside what was measured."""

from __future__ import annotations

import html
from collections.abc import Iterable
from dataclasses import dataclass

from .errors import LabError
from .measurement import Measurement

VERDICTS = {"confirmed": "#009E73", "depends": "#E69F00", "refuted": "#D55E00"}


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
        return (
            f"<div class='labkit-claim'><b>{html.escape(self.id)}</b> · <i>{text}</i><br>"
            f"<b style='color:{VERDICTS[self.verdict]}'>{self.verdict}</b> — {evidence} <small>({origin})</small></div>"
        )


def claim(id: str, text: str, verdict: str, evidence: str, of: Measurement | Iterable[Measurement]) -> Claim:
    """A claim with its measured verdict: "confirmed", "depends" or "refuted".

    verdict, evidence: computed by the caller from the measurements `of`, whose origin is shown beside them.
    Raises LabError for another verdict, or if nothing was measured.
    """
    if verdict not in VERDICTS:
        raise LabError(f"the verdict on claim {id}", f"{verdict!r}", "one of " + ", ".join(VERDICTS))
    measured = [of] if isinstance(of, Measurement) else list(of)
    if not measured:
        raise LabError(f"the verdict on claim {id}", "no measurement was given", "of=[the measurements it rests on]")
    return Claim(id, text, verdict, evidence, "; ".join(dict.fromkeys(m.origin for m in measured)))
