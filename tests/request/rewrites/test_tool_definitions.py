"""What is said of tools, and beside none of them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.request.support import GONE, Outcome, ask, function, outcome

FACTS = ("kept", "unknown", "ignored", "rejected")
SENT = Outcome({}, [])
EMPTY = {"type": "object", "properties": {}}


def _bare(**definition: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": "f", **definition}}


@pytest.mark.parametrize("fact", FACTS)
@pytest.mark.parametrize("strict", [True, False])
def test_strict(fact: str, strict: bool) -> None:
    tools = [function("f", strict=strict), function("g")]
    dropped = Outcome({"tools": [function("f"), function("g")]}, ["tools.strict=dropped"])
    assert outcome(ask(tools=tools), {"tool_strict": fact}) == (dropped if fact == "rejected" else SENT)


def test_strict_that_is_null_says_nothing() -> None:
    result = outcome(ask(tools=[function("f", strict=None)]))
    assert result == Outcome({"tools": [function("f")]}, ["tools.strict=dropped"])


@pytest.mark.parametrize("fact", FACTS)
@pytest.mark.parametrize("definition", [{}, {"parameters": {}}, {"parameters": None}])
def test_a_tool_without_parameters(fact: str, definition: dict[str, Any]) -> None:
    filled = Outcome({"tools": [_bare(parameters=EMPTY)]}, ["tools.parameters=empty_object"])
    expected = filled if fact in ("ignored", "rejected") else SENT
    assert outcome(ask(tools=[_bare(**definition)]), {"empty_parameters": fact}) == expected


def test_the_form_of_the_responses_api() -> None:
    flat = {"type": "function", "name": "f", "parameters": EMPTY, "strict": True}
    result = outcome(ask(tools=[flat]), {"tool_strict": "rejected"})
    assert result == Outcome({"tools": [_bare(parameters=EMPTY)]}, ["tools=nested", "tools.strict=dropped"])


@pytest.mark.parametrize(
    "tools",
    [[{"type": "custom", "custom": {"name": "x", "strict": True}}], [5], [{}], [{"function": 5}], {"a": 1}, "f"],
)
def test_what_is_no_function_stays(tools: Any) -> None:
    assert outcome(ask(tools=tools), {"tool_strict": "rejected", "empty_parameters": "rejected"}) == SENT


@pytest.mark.parametrize("fact", FACTS)
@pytest.mark.parametrize(
    ("fields", "note"),
    [
        ({"tools": []}, "tools=none_offered:tools"),
        ({"tools": [], "tool_choice": "auto"}, "tools=none_offered:tools+tool_choice"),
        ({"tool_choice": "none", "parallel_tool_calls": True}, "tools=none_offered:tool_choice+parallel_tool_calls"),
    ],
)
def test_no_tools(fact: str, fields: dict[str, Any], note: str) -> None:
    expected = Outcome(dict.fromkeys(fields, GONE), [note]) if fact == "rejected" else SENT
    assert outcome(ask(**fields), {"empty_tools": fact}) == expected


def test_the_choice_between_old_functions_stays() -> None:
    body = ask(tools=[], functions=[{"name": "f"}], parallel_tool_calls=False)
    assert outcome(body, {"empty_tools": "rejected"}) == Outcome({"tools": GONE}, ["tools=none_offered:tools"])
