"""Around the answers: every request gets one, to its end, whatever happened before."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from svir_proxy.conform.interview import Interview
from svir_proxy.conform.reading import Reading
from svir_proxy.conform.rules.rule import KEPT, Rule, Verdict, in_answers_to


def _answered(interview: Interview) -> Iterator[str]:
    for reading in interview.readings.values():
        if reading.exchange.status is not None:
            yield KEPT
        elif not reading.exchange.late:
            yield reading.evidence(reading.exchange.failure)


def _clean(interview: Interview) -> Iterator[str]:
    for reading in interview.readings.values():
        exchange = reading.exchange
        if exchange.status is not None and exchange.request.leave is None:
            if exchange.clean:
                yield KEPT
            elif not exchange.late:
                yield reading.evidence(exchange.failure or "the body was cut off")


def _identified(interview: Interview) -> Iterator[str]:
    for reading in interview.readings.values():
        if reading.exchange.status is not None:
            yield KEPT if reading.exchange.headers.get("x-request-id") else reading.evidence("no x-request-id")


def _ok(reading: Reading) -> Verdict:
    return KEPT if reading.exchange.ok else f"status {reading.exchange.status}"


CONNECTION: Final = (
    Rule("every-answer", "connection", "every request gets an answer", _answered),
    Rule("clean-end", "connection", "every body comes to its end", _clean),
    Rule("request-id", "connection", "every answer has an x-request-id", _identified),
    Rule("models-bare", "connection", "the model list answers without /v1 too",
         in_answers_to("models without v1", judge=_ok)),
    Rule("chat-bare", "connection", "chat answers without /v1 too", in_answers_to("plain without v1", judge=_ok)),
    Rule("after-leaving", "connection", "a client that left in the middle of a stream keeps nobody waiting",
         in_answers_to("after it left", judge=_ok)),
)  # fmt: skip
