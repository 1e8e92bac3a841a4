"""The name of the function in its result."""

from __future__ import annotations

from typing import Any

import pytest

from tests.request.support import Outcome, ask, call, outcome, user


def _conversation(**result: Any) -> list[dict[str, Any]]:
    return [
        user(),
        {"role": "assistant", "content": "", "tool_calls": [call("look"), 5, {"id": "x"}]},
        {"role": "tool", "tool_call_id": "call_1", "content": "1", **result},
    ]


@pytest.mark.parametrize(
    ("wanted", "sent", "becomes", "notes"),
    [
        ("any", {}, {}, []),
        ("any", {"name": "look"}, {"name": "look"}, []),
        ("required", {}, {"name": "look"}, ["tool.name=added"]),
        ("required", {"name": ""}, {"name": "look"}, ["tool.name=added"]),
        ("required", {"name": "other"}, {"name": "other"}, []),
        ("required", {"tool_call_id": "nobody"}, {"tool_call_id": "nobody"}, []),
        ("required", {"tool_call_id": 5}, {"tool_call_id": 5}, []),
        ("rejected", {"name": "look"}, {}, ["tool.name=left_out"]),
        ("rejected", {}, {}, []),
    ],
)
def test_the_name_of_a_result(wanted: str, sent: dict[str, Any], becomes: dict[str, Any], notes: list[str]) -> None:
    result = outcome(ask(*_conversation(**sent)), {"tool_message_name": wanted})
    assert result.changes.get("messages", _conversation(**sent)) == _conversation(**becomes)
    assert result.notes == notes


def test_other_messages_keep_their_names() -> None:
    body = ask({"role": "user", "content": "Hi", "name": "Ann"})
    assert outcome(body, {"tool_message_name": "rejected"}) == Outcome({}, [])
