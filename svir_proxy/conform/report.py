"""What an interview showed: each rule kept, broken or not shown, a score by area, as words and as JSON."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from svir_proxy.conform.interview import Interview
from svir_proxy.conform.rules import RULES, Rule
from svir_proxy.conform.rules.rule import KEPT
from svir_proxy.conform.score import Score, Verdict

WIDTH: Final = 116
"""Columns of the words, where there is room."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What became of a rule.

    Attributes:
        rule: The rule.
        verdict: Kept wherever it showed, broken somewhere, or not shown at all.
        shown: How many answers showed it.
        broken: How many of them broke it.
        evidence: The first breach.
    """

    rule: Rule
    verdict: Verdict
    shown: int = 0
    broken: int = 0
    evidence: str = ""


@dataclass(frozen=True, slots=True)
class Report:
    """All findings, in the order of the rules, and the questions that could not be asked, each with the reason."""

    url: str
    model: str
    findings: Sequence[Finding]
    unasked: dict[str, str]

    @property
    def score(self) -> Score:
        """Of all rules."""
        return Score.of([finding.verdict for finding in self.findings])

    def areas(self) -> dict[str, Score]:
        """The score of each area, in the order of the rules."""
        names = dict.fromkeys(finding.rule.area for finding in self.findings)
        return {name: Score.of([one.verdict for one in self.findings if one.rule.area == name]) for name in names}

    def broken(self) -> list[Finding]:
        """The rules that were broken."""
        return [finding for finding in self.findings if finding.verdict == "broken"]

    def lines(self, width: int = WIDTH) -> Iterator[str]:
        """As words; lists in *width* columns, what a server said as it is."""
        yield f"{self.url}  model {self.model}"
        yield ""
        longest = max(map(len, self.areas()))
        for area, score in self.areas().items():
            yield f"{area:<{longest}}  {score}"
        yield f"{'all':<{longest}}  {self.score}"
        for finding in self.broken():
            yield ""
            times = f"  ({finding.broken} of {finding.shown} answers)" if finding.shown > 1 else ""
            yield f"broken  {finding.rule.area}: {finding.rule.name}: {finding.rule.demands}{times}"
            yield from textwrap.indent(finding.evidence, "        ").splitlines()
        hidden = [finding.rule.name for finding in self.findings if finding.verdict == "not shown"]
        if hidden:
            yield ""
            yield from textwrap.wrap(
                f"not shown by any answer: {', '.join(hidden)}", width, subsequent_indent="  ", break_on_hyphens=False
            )
        for reason in dict.fromkeys(self.unasked.values()):
            questions = ", ".join(question for question, why in self.unasked.items() if why == reason)
            yield from textwrap.wrap(
                f"not asked: {questions}: {reason}", width, subsequent_indent="  ", break_on_hyphens=False
            )

    def as_json(self) -> dict[str, Any]:
        """As one JSON object."""
        return {
            "url": self.url,
            "model": self.model,
            "score": self.score.as_json(),
            "areas": {area: score.as_json() for area, score in self.areas().items()},
            "rules": [
                {
                    "name": finding.rule.name,
                    "area": finding.rule.area,
                    "demands": finding.rule.demands,
                    "verdict": finding.verdict,
                    "answers": finding.shown,
                    "breaches": finding.broken,
                    "evidence": finding.evidence,
                }
                for finding in self.findings
            ],
            "not_asked": self.unasked,
        }


def report_on(url: str, interview: Interview, secrets: Sequence[str] = ()) -> Report:
    """Judge all answers by all rules; none of the *secrets* is in what comes of it."""
    findings = []
    for rule in RULES:
        seen = list(rule.look(interview))
        breaches = [evidence for evidence in seen if evidence != KEPT]
        verdict: Verdict = "broken" if breaches else "kept" if seen else "not shown"
        evidence = _without(breaches[0], secrets) if breaches else ""
        findings.append(Finding(rule, verdict, len(seen), len(breaches), evidence))
    return Report(_without(url, secrets), interview.model, findings, interview.unasked)


def _without(text: str, secrets: Sequence[str]) -> str:
    for secret in filter(None, secrets):
        text = text.replace(secret, "***")
    return text
