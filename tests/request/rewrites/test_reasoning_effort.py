"""``reasoning_effort`` in the server's words."""

from __future__ import annotations

from typing import Any

import pytest

from tests.request.support import GONE, Outcome, ask, outcome


@pytest.mark.parametrize(
    ("effort", "expected"),
    [
        ("high", Outcome({"reasoning_effort": "xhigh"}, ["reasoning_effort=xhigh"])),
        ("minimal", Outcome({"reasoning_effort": GONE}, ["reasoning_effort=left_out"])),
        ("low", Outcome({}, [])),
        ("bogus", Outcome({}, [])),
        (3, Outcome({}, [])),
        (["high"], Outcome({}, [])),
    ],
)
def test_values(effort: Any, expected: Outcome) -> None:
    facts = {"reasoning_efforts.high": "xhigh", "reasoning_efforts.minimal": None}
    assert outcome(ask(reasoning_effort=effort), facts) == expected


def test_the_value_the_proxy_sets_is_translated_too() -> None:
    wanted = {"type": "json_schema", "json_schema": {"name": "x", "schema": {}}}
    facts = {"response_format.schema_binds_reasoning": True, "reasoning_efforts.none": None}
    result = outcome(ask(response_format=wanted), facts)
    assert result == Outcome({}, ["reasoning_effort=none", "reasoning_effort=left_out"])
