"""Servers that break off, forget, or know one form of the address only; and those that are merely slow."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.conform.rules.table import Server, breaks, check
from tests.conform.servers import Exchange, becomes, failures, headers, interviewed, refused, to


def _cut(_: str, exchange: Exchange) -> Exchange:
    return replace(exchange, clean=False, failure="it broke") if exchange.request.streamed else exchange


def _gone(*questions: str, late: bool = False):
    return becomes(to(*questions), lambda request: Exchange(request, failure="no answer", late=late))


SERVERS: dict[str, Server] = {
    "every-answer": breaks(_gone("two calls"), "tool-text"),
    "clean-end": breaks(_cut),
    "request-id": breaks(headers(failures, x_request_id=None)),
    "models-bare": breaks(refused(to("models without v1"), 404)),
    "chat-bare": breaks(refused(to("plain without v1"), 404)),
    "after-leaving": breaks(_gone("after it left"), "every-answer"),
}


@pytest.mark.parametrize("rule", SERVERS)
def test_a_breach_is_found_and_no_other(rule: str) -> None:
    check(rule, SERVERS[rule])


def test_an_answer_that_is_late_proves_nothing() -> None:
    report = interviewed(_gone("after it left", "json_schema", late=True))
    hidden = {finding.rule.name for finding in report.findings if finding.verdict == "not shown"}
    assert report.score.full
    assert hidden == {"after-leaving", "json-schema"}
