"""Servers whose plain answers break one rule each."""

from __future__ import annotations

import pytest

from tests.conform.rules.table import Server, breaks, check
from tests.conform.servers import answers, headers, holding, in_bytes, in_document, refused, said, to

CALLED = holding(b'"tool_calls": [', answers)

SERVERS: dict[str, Server] = {
    "answer-answered": breaks(refused(to("plain"), 500)),
    "answer-type": breaks(headers(answers, content_type="text/plain")),
    "answer-json": breaks(in_bytes(to("developer"), lambda body: body + b",")),
    "answer-duplicate": breaks(in_bytes(answers, lambda body: body.replace(b"{", b'{"created": 1, ', 1))),
    "answer-shape": breaks(in_document(answers, lambda body: body["choices"][0].pop("logprobs"))),
    "answer-foreign": breaks(in_document(answers, lambda body: body.update(timings={}))),
    "answer-content": breaks(in_document(to("plain"), lambda body: body["choices"][0]["message"].update(content=""))),
    "answer-null": breaks(said(CALLED, b'"content": null', b'"content": ""')),
}


@pytest.mark.parametrize("rule", SERVERS)
def test_a_breach_is_found_and_no_other(rule: str) -> None:
    check(rule, SERVERS[rule])
