"""Servers that take a parameter and do nothing about it, or refuse what they could take."""

from __future__ import annotations

import pytest

from svir_proxy.conform.exchange import Exchange, Request
from tests.conform.rules.table import Server, breaks, check
from tests.conform.servers import SAID, answer, becomes, chunk, in_document, in_events, interviewed, refused, said, to


def _more_tokens(question: str):
    return said(
        to(question), b'"completion_tokens": 6, "total_tokens": 10', b'"completion_tokens": 60, "total_tokens": 64'
    )


def _one_choice(request: Request) -> Exchange:
    return answer(Request(request.path, {**request.body, "n": 1}))


SERVERS: dict[str, Server] = {
    "limit-max-tokens": breaks(_more_tokens("max_tokens")),
    "limit-max-completion-tokens": breaks(_more_tokens("max_completion_tokens")),
    "limit-finish": breaks(said(to("max_tokens"), b'"length"', b'"stop"')),
    "stop": breaks(in_document(to("stop"), lambda body: body["choices"][0]["message"].update(content=SAID))),
    "stop-stream": breaks(
        in_events(lambda items: [items[0], chunk({"content": SAID}), *items[-2:]], to("stop, streamed"))
    ),
    "optional-fields": breaks(refused(to("optional fields"), 400)),
    "null-fields": breaks(refused(to("null fields"), 400)),
    "developer": breaks(refused(to("developer"), 400)),
    "content-parts": breaks(refused(to("content parts"), 400)),
    "two-choices": breaks(becomes(to("two choices"), _one_choice)),
}


@pytest.mark.parametrize("rule", SERVERS)
def test_a_breach_is_found_and_no_other(rule: str) -> None:
    check(rule, SERVERS[rule])


def test_two_choices_are_as_right_as_none() -> None:
    change = becomes(to("two choices"), _one_choice)
    two = in_document(to("two choices"), lambda body: body["choices"].append(body["choices"][0]))
    report = interviewed(lambda question, exchange: two(question, change(question, exchange)))
    (finding,) = [one for one in report.findings if one.rule.name == "two-choices"]
    assert finding.verdict == "kept"
