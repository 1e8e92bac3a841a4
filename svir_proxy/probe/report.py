"""What an interview found: a table for people, one object for machines."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from svir_proxy.probe.difference import Difference
from svir_proxy.probe.finding import Finding
from svir_proxy.probe.interview import Spent
from svir_proxy.probe.questions.errors import RULES

WIDTH: Final = 120
"""Columns of the table, where there is room."""
_LEAST: Final = 40
"""Columns that evidence needs beside a fact; with less it is below."""


@dataclass(frozen=True, slots=True)
class Report:
    """All there is to say.

    Attributes:
        url: The server's, without ``/v1``.
        server: Its name as people write it.
        profile: The name of the profile of its kind.
        model: The model that was asked for.
        others: How many more it lists.
        findings: What was found.
        spent: What it took.
        stopped: Why the interview ended early; ``""``: it did not.
        against: The name of the profile in *differences*; None: it was not asked for.
        differences: What was learned against that profile.
    """

    url: str
    server: str
    profile: str
    model: str
    others: int
    findings: Sequence[Finding]
    spent: Spent
    stopped: str = ""
    against: str | None = None
    differences: Sequence[Difference] = ()


def as_json(report: Report) -> str:
    """One JSON object."""
    document: dict[str, Any] = {
        "url": report.url,
        "server": report.server,
        "profile": report.profile,
        "model": report.model,
        "facts": [_entry(finding) for finding in report.findings if finding.is_fact],
        "observations": [_entry(finding) for finding in report.findings if not finding.is_fact],
        "spent": asdict(report.spent),
        "stopped": report.stopped or None,
    }
    if report.against is not None:
        document["against"] = report.against
        document["differences"] = [
            asdict(difference) for difference in report.differences if difference.verdict != "agrees"
        ]
    return json.dumps(document, indent=2, ensure_ascii=False)


def _entry(finding: Finding) -> dict[str, Any]:
    return {"fact": finding.fact, "verdict": finding.value, "evidence": finding.evidence}


def in_words(report: Report, width: int = WIDTH) -> Iterator[str]:
    """The lines of the table, in *width* columns as far as the words let them."""
    more = f", one of {report.others + 1}; another: --model" if report.others else ""
    yield f"server  {report.server} at {report.url} (profile {report.profile})"
    yield f"model   {report.model}{more}"
    yield f"took    {took(report.spent)}"
    if report.stopped:
        yield f"ended   early: {report.stopped}"
    facts = [finding for finding in report.findings if finding.is_fact]
    yield f"learned {sum(each.known for each in facts)} of {len(facts)} facts"
    yield ""
    yield from _table(
        ("fact", "verdict", "evidence"), ((f.fact, value_text(f.value), f.evidence) for f in facts), width
    )
    also = [finding for finding in report.findings if not finding.is_fact]
    if also:
        yield ""
        rows = ((f.fact, "" if f.fact == RULES else value_text(f.value), f.evidence) for f in also)
        yield from _table(("also seen", "", ""), rows, width)
    if report.against is not None:
        yield ""
        yield from _against(report.against, report.differences, width)


def took(spent: Spent) -> str:
    """What it took, for people."""
    tokens = f"{spent.tokens:,} tokens{'' if spent.counted else ' (in part estimated)'}"
    return f"{spent.requests} requests, {tokens}, {spent.seconds:.0f} s"


def _against(name: str, differences: Sequence[Difference], width: int) -> Iterator[str]:
    agreed = sum(each.verdict == "agrees" for each in differences)
    for verdict, title in (("disagrees", f"{name} says otherwise"), ("new", f"{name} does not know")):
        rows = [
            (each.fact, f"{value_text(each.said)} > {value_text(each.found)}", each.evidence)
            for each in differences
            if each.verdict == verdict
        ]
        if rows:
            yield from _table((title, "said > found", "evidence"), rows, width)
            yield ""
    yield f"{agreed} of {len(differences)} facts that were learned are as {name} has them"


def _table(head: tuple[str, str, str], rows: Iterable[tuple[str, str, str]], width: int) -> Iterator[str]:
    """Three columns; the last is broken into lines."""
    lines = [head, *rows]
    first, second = (max(len(row[column]) for row in lines) for column in (0, 1))
    room = width - first - second - 4
    if room < _LEAST <= WIDTH - first - second - 4:
        for fact, verdict, evidence in lines:
            yield f"{fact:<{first}}  {verdict}".rstrip()
            yield from textwrap.wrap(evidence, width, initial_indent="    ", subsequent_indent="    ")
        return
    room = max(room, _LEAST)
    for fact, verdict, evidence in lines:
        for number, line in enumerate(textwrap.wrap(evidence, room) or [""]):
            yield (f"{fact if not number else '':<{first}}  {verdict if not number else '':<{second}}  {line}").rstrip()


def value_text(value: Any) -> str:
    """A value as a profile would have it, on one line."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
