"""Servers that take a ``response_format`` and do not keep it; and those that prove nothing."""

from __future__ import annotations

import pytest

from tests.conform.rules.table import Server, breaks, check
from tests.conform.servers import Change, headers, interviewed, refused, said, to

SERVERS: dict[str, Server] = {
    "json-object": breaks(said(to("json_object"), rb'"{\"city', rb'"```json\n{\"city')),
    "json-object-stream": breaks(said(to("json_object, streamed"), rb'"{\"city', rb'"Sure: {\"city')),
    "json-schema": breaks(said(to("json_schema"), b": 3}", rb": \"three\"}")),
    "json-schema-stream": breaks(refused(to("json_schema, streamed"), 400)),
}


@pytest.mark.parametrize("rule", SERVERS)
def test_a_breach_is_found_and_no_other(rule: str) -> None:
    check(rule, SERVERS[rule])


def _both(first: Change, second: Change) -> Change:
    return lambda question, exchange: second(question, first(question, exchange))


_UNFIT = said(to("json_schema"), b": 3}", rb": \"three\"}")


@pytest.mark.parametrize(
    "more",
    [
        headers(to("json_schema"), x_svir_rewrites="response_format.json_schema=unmet"),
        said(to("json_schema"), b'"stop"', b'"length"'),
    ],
    ids=["told", "cut"],
)
def test_what_proves_nothing_is_neither_kept_nor_broken(more: Change) -> None:
    (finding,) = [one for one in interviewed(_both(_UNFIT, more)).findings if one.rule.name == "json-schema"]
    assert finding.verdict == "not shown"
