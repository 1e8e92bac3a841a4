"""A rule of the dialect as something that can be seen to be kept or broken, and the usual ways to look for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, Literal

from svir_proxy.conform.dialect import Violation
from svir_proxy.conform.interview import Interview
from svir_proxy.conform.reading import Kind, Reading

KEPT: Final = ""
NOT_SHOWN: Final = None

Verdict = str | None
"""Of one answer: `KEPT`, `NOT_SHOWN`, or what is wrong with it."""

Look = Callable[[Interview], Iterator[str]]
"""Yields for each place where a rule shows: `KEPT`, or the evidence that it was broken."""

Judge = Callable[[Reading], Verdict]

Area = Literal[
    "answers", "streams", "reasoning", "tool calls", "formats", "usage", "parameters", "errors", "models", "connection"
]


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule.

    Attributes:
        name: Unique; that of the checker's rule where it is one of them.
        area: What it is counted under.
        demands: The rule as a sentence.
        look: Finds where it shows.
    """

    name: str
    area: Area
    demands: str
    look: Look


def in_answers_of(*kinds: Kind, judge: Judge) -> Look:
    """Looks at every answer of the *kinds*, whatever the question was about."""

    def look(interview: Interview) -> Iterator[str]:
        for reading in interview.readings.values():
            if reading.kind in kinds:
                yield from _verdict(reading, judge(reading))

    return look


def in_answers_to(*questions: str, judge: Judge) -> Look:
    """Looks at the answers to *questions*. One that never came breaks what it was to show, a late one shows nothing."""

    def look(interview: Interview) -> Iterator[str]:
        for reading in filter(None, map(interview.readings.get, questions)):
            exchange = reading.exchange
            if exchange.status is not None:
                yield from _verdict(reading, judge(reading))
            elif not exchange.late:
                yield reading.evidence(exchange.failure)

    return look


def of_the_checker(
    *kinds: Kind,
    rule: str,
    shows: Callable[[Reading], bool] = lambda _: True,
    of: Callable[[Violation], bool] | None = None,
) -> Look:
    """Looks at every answer of the *kinds* for breaches that the checker found.

    Args:
        kinds: Where it applies.
        rule: The checker's name of it.
        shows: Whether an answer without a breach shows that the rule is kept.
        of: Which breaches of it are meant, where ``schema`` is several rules: `shapes`, `foreign_keys`, `in_calls`.
    """

    def look(interview: Interview) -> Iterator[str]:
        for reading in interview.readings.values():
            if reading.kind not in kinds:
                continue
            found = [one for one in reading.violations if one.rule == rule and (of is None or of(one))]
            if found:
                yield reading.evidence(found[0].detail, found[0].where)
            elif shows(reading):
                yield KEPT

    return look


def in_calls(breach: Violation) -> bool:
    """A breach of the schema within a tool call."""
    return "/tool_calls/" in breach.detail


def foreign_keys(breach: Violation) -> bool:
    """A key that the schema does not have, outside of tool calls."""
    return breach.keyword == "additionalProperties" and not in_calls(breach)


def shapes(breach: Violation) -> bool:
    """Any other breach of the schema, outside of tool calls."""
    return breach.keyword != "additionalProperties" and not in_calls(breach)


def _verdict(reading: Reading, verdict: Verdict) -> Iterator[str]:
    if verdict is not None:
        yield reading.evidence(verdict) if verdict else KEPT
