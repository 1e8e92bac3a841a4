"""Servers that mix up what the model thinks and what it says."""

from __future__ import annotations

import pytest

from tests.conform.rules.table import Server, breaks, check
from tests.conform.servers import said, to

THOUGHT = to("something to think about", "something to think about, streamed")

SERVERS: dict[str, Server] = {
    "reasoning-key": breaks(said(THOUGHT, b'"reasoning_content"', b'"reasoning"'), "chunk-foreign", "answer-foreign"),
    "reasoning-tags": breaks(said(THOUGHT, b'"content": "It pas', b'"content": "</think>It pas')),
}


@pytest.mark.parametrize("rule", SERVERS)
def test_a_breach_is_found_and_no_other(rule: str) -> None:
    check(rule, SERVERS[rule])
