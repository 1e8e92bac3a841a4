"""Servers that tell usage at the wrong time, or wrongly."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conform.rules.table import Server, breaks, check
from tests.conform.servers import DONE, answers, in_document, in_events, said, to

ASKED = to("max_completion_tokens")
"""The question whose answer ends with a finish chunk, a usage chunk and the end."""


def _unasked(items: list[Any]) -> list[Any]:
    usage = {"prompt_tokens": 4, "completion_tokens": 2, "total_tokens": 6}
    return [*items[:-1], {**items[0], "choices": [], "usage": usage}, DONE]


SERVERS: dict[str, Server] = {
    "usage-plain": breaks(in_document(answers, lambda body: body.pop("usage"))),
    "usage-unasked": breaks(in_events(_unasked, to("stream"))),
    "usage-missing": breaks(in_events(lambda items: [*items[:-2], DONE], ASKED)),
    "usage-once": breaks(in_events(lambda items: [*items[:-1], items[-2], DONE], ASKED)),
    "usage-order": breaks(in_events(lambda items: [*items[:-3], items[-2], items[-3], DONE], ASKED)),
    "usage-total": breaks(said(answers, b'"prompt_tokens": 4', b'"prompt_tokens": 5')),
}


@pytest.mark.parametrize("rule", SERVERS)
def test_a_breach_is_found_and_no_other(rule: str) -> None:
    check(rule, SERVERS[rule])
