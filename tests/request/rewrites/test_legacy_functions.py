"""``functions``, ``function_call`` and ``function`` messages as tools."""

from __future__ import annotations

from typing import Any

import pytest

from tests.request.support import GONE, Outcome, ask, function, outcome, user

F, G = function("f"), function("g")
OLD = {"functions": [F["function"], G["function"]]}
NEW = {"functions": GONE, "tools": [F, G]}
TOLD = ["functions=tools"]


@pytest.mark.parametrize("fact", ["kept", "unknown", "ignored", "rejected"])
@pytest.mark.parametrize(
    ("fields", "becomes"),
    [
        (OLD, NEW),
        ({**OLD, "function_call": "auto"}, {**NEW, "function_call": GONE, "tool_choice": "auto"}),
        ({**OLD, "function_call": "none"}, {**NEW, "function_call": GONE, "tool_choice": "none"}),
        (
            {**OLD, "function_call": {"name": "f"}},
            {**NEW, "function_call": GONE, "tool_choice": {"type": "function", "function": {"name": "f"}}},
        ),
        ({**OLD, "tools": [function("t")]}, {"functions": GONE, "tools": [function("t"), F, G]}),
        ({**OLD, "function_call": "auto", "tool_choice": "none"}, {**NEW, "function_call": GONE}),
    ],
)
def test_definitions_and_choice(fact: str, fields: dict[str, Any], becomes: dict[str, Any]) -> None:
    expected = Outcome(becomes, TOLD) if fact in ("ignored", "rejected") else Outcome({}, [])
    assert outcome(ask(**fields), {"legacy_functions": fact}) == expected


def test_a_choice_that_the_server_ignores_is_kept_true_all_the_same() -> None:
    facts = {"legacy_functions": "ignored", "tool_choice.none": "ignored", "tool_choice.named": "ignored"}
    none = outcome(ask(**OLD, function_call="none"), facts)
    assert none == Outcome({"functions": GONE, "function_call": GONE}, [*TOLD, "tool_choice.none=tools_dropped"])
    named = outcome(ask(**OLD, function_call={"name": "g"}), facts)
    assert named.changes["tools"] == [G]
    assert named.notes == [*TOLD, "tool_choice.named=only_tool"]


def test_nothing_between_no_functions() -> None:
    facts = {"legacy_functions": "ignored", "empty_tools": "rejected"}
    result = outcome(ask(functions=[], function_call="auto"), facts)
    assert result.changes == {"functions": GONE, "function_call": GONE}


def test_calls_and_their_results() -> None:
    def said(arguments: str) -> dict[str, Any]:
        return {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": arguments}}

    def called(arguments: str, identity: str) -> dict[str, Any]:
        made = {"id": identity, "type": "function", "function": {"name": "f", "arguments": arguments}}
        return {"role": "assistant", "content": None, "tool_calls": [made]}

    old = {"role": "function", "name": "f", "content": "1"}
    result = outcome(ask(user(), said("{}"), old, said("[]"), old), {"legacy_functions": "rejected"})
    assert result.notes == TOLD
    assert result.changes["messages"] == [
        user(),
        called("{}", "function_call_1"),
        {"role": "tool", "content": "1", "tool_call_id": "function_call_1"},
        called("[]", "function_call_2"),
        {"role": "tool", "content": "1", "tool_call_id": "function_call_2"},
    ]


@pytest.mark.parametrize("message", [{"role": "assistant", "content": "", "function_call": 5}, user()])
def test_what_is_no_call_stays(message: dict[str, Any]) -> None:
    assert outcome(ask(message, functions="f"), {"legacy_functions": "rejected"}) == Outcome({}, [])
