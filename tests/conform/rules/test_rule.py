"""The rules as a whole: each can be kept, each can be broken, and a rule that does not show is neither."""

from __future__ import annotations

from collections import Counter

from svir_proxy.conform import dialect
from svir_proxy.conform.rules import RULES
from tests.conform.rules import (
    test_answers,
    test_connection,
    test_errors,
    test_formats,
    test_models,
    test_parameters,
    test_reasoning,
    test_streams,
    test_tool_calls,
    test_usage,
)
from tests.conform.servers import interviewed, refused, to

TABLES = (
    test_answers, test_connection, test_errors, test_formats, test_models, test_parameters, test_reasoning,
    test_streams, test_tool_calls, test_usage,
)  # fmt: skip


def test_a_server_that_keeps_every_rule_shows_every_rule() -> None:
    assert {
        finding.rule.name: finding.evidence for finding in interviewed().findings if finding.verdict != "kept"
    } == {}


def test_for_each_rule_there_is_a_server_that_breaks_it() -> None:
    assert Counter(rule for table in TABLES for rule in table.SERVERS) == Counter(rule.name for rule in RULES)


def test_what_the_checker_knows_is_asked() -> None:
    """``schema`` is several rules here, and an object with a key twice has one for each kind of answer."""
    assert set(dialect.RULES) - {rule.name for rule in RULES} == {"schema"}


def test_a_rule_that_nothing_shows_is_neither_kept_nor_broken() -> None:
    calls = [name for name in dict.fromkeys(test_tool_calls.SERVERS) if name.startswith("choice-none")]
    report = interviewed(refused(to("tools", "tools, streamed"), 429))
    shown = {finding.rule.name: finding.verdict for finding in report.findings}
    assert {shown[name] for name in calls} == {"not shown"}
