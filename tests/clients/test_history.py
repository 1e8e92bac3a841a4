"""The strict server's rules, each with a request that breaks it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.clients.history import problems_of

USER: dict[str, Any] = {"role": "user", "content": "Hi"}
CALL: dict[str, Any] = {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}
ASKS: dict[str, Any] = {"role": "assistant", "content": "", "tool_calls": [CALL]}
RESULT: dict[str, Any] = {"role": "tool", "tool_call_id": "a", "content": "x"}
TOOL: dict[str, Any] = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}


def _calls(**changes: Any) -> list[Any]:
    return [USER, {**ASKS, "tool_calls": [{**CALL, **changes}]}, {**RESULT, "tool_call_id": changes.get("id", "a")}]


@pytest.mark.parametrize(
    "body",
    [
        {
            "messages": [
                {"role": "system", "content": "s"},
                {"role": "user", "content": [{"type": "text", "text": "t"}]},
            ]
        },
        {"messages": [USER, ASKS, RESULT, {"role": "assistant", "content": "x", "reasoning_content": "y"}, USER]},
        {"messages": [USER], "tools": [TOOL], "tool_choice": "required", "response_format": {"type": "json_schema"}},
    ],
)
def test_a_good_request(body: dict[str, Any]) -> None:
    assert problems_of(body) == []


@pytest.mark.parametrize(
    ("messages", "problem"),
    [
        ([{"role": "developer", "content": "x"}], "the role"),
        ([{"role": "user"}], "the content None"),
        ([{"role": "user", "content": [{"type": "refusal", "refusal": "x"}]}], "the content"),
        ([USER, {"role": "assistant", "content": "x", "provider_specific_fields": {}}], "provider_specific_fields"),
        ([USER, {**ASKS, "content": None}, RESULT], "the content None"),
        ([USER, ASKS], "no result"),
        ([USER, ASKS, USER], "no result"),
        ([USER, ASKS, RESULT, RESULT], "a result of"),
        ([USER, RESULT], "a result of"),
        ([USER, {**ASKS, "tool_calls": [CALL, CALL]}, RESULT, RESULT], "twice"),
        (_calls(id=""), "the call"),
        (_calls(type=None), "the call"),
        (_calls(function={"name": "f"}), "the call"),
        (_calls(function={"name": "", "arguments": "{}"}), "the call"),
        (_calls(function={"name": "f", "arguments": ""}), "the arguments"),
        (_calls(function={"name": "f", "arguments": {}}), "the arguments"),
        (_calls(function={"name": "f", "arguments": "[]"}), "the arguments"),
    ],
)
def test_a_bad_history(messages: list[Any], problem: str) -> None:
    found = problems_of({"messages": messages})
    assert any(problem in line for line in found), found


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"tools": [{"type": "function", "function": {"name": "f"}}]}, "the tool"),
        ({"tools": [{"type": "function", "function": {"name": "f", "parameters": {}}}]}, "the tool"),
        ({"tools": [TOOL], "tool_choice": {"type": "function", "function": {"name": "f"}}}, "tool_choice"),
        ({"tool_choice": "auto"}, "no tools"),
        ({"parallel_tool_calls": False}, "no tools"),
        ({"response_format": {"type": "json_object"}}, "response_format"),
    ],
)
def test_a_bad_choice(fields: dict[str, Any], problem: str) -> None:
    (found,) = problems_of({"messages": [USER], **fields})
    assert problem in found
