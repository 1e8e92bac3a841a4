"""Content: the decision tables of its forms, and what a client library left in the history."""

from __future__ import annotations

from typing import Any

import pytest

from tests.request.support import Outcome, ask, call, outcome, user

FACTS = ("kept", "unknown", "ignored", "rejected")
SENT = Outcome({}, [])
TEXTS = [{"type": "text", "text": "a"}, {"type": "text", "text": "b", "cache_control": {"type": "ephemeral"}}]


def _history(**assistant: Any) -> list[dict[str, Any]]:
    return [user(), {"role": "assistant", **assistant}, {"role": "tool", "tool_call_id": "call_1", "content": "1"}]


@pytest.mark.parametrize("fact", FACTS)
@pytest.mark.parametrize("role", ["user", "system", "assistant", "tool", "function"])
def test_text_parts(role: str, fact: str) -> None:
    path = "tool_content_parts" if role in ("tool", "function") else "content_parts"
    message = {"role": role, "content": TEXTS}
    flat = Outcome({"messages": [user(), {"role": role, "content": "ab"}]}, ["content=flattened"])
    assert outcome(ask(user(), message), {path: fact}) == (flat if fact in ("ignored", "rejected") else SENT)


@pytest.mark.parametrize(
    "content",
    [
        [*TEXTS, {"type": "image_url", "image_url": {"url": "data:,"}}],
        [{"type": "text"}],
        [{"type": "text", "text": 5}],
        ["a"],
        [None],
        {"type": "text", "text": "a"},
        5,
    ],
)
def test_what_is_not_text_alone_stays(content: Any) -> None:
    assert outcome(ask(user(content)), {"content_parts": "rejected", "tool_content_parts": "rejected"}) == SENT


@pytest.mark.parametrize("fact", FACTS)
@pytest.mark.parametrize(("path", "content"), [("null_content", {"content": None}), ("missing_content", {})])
def test_an_assistant_message_without_content(path: str, content: dict[str, None], fact: str) -> None:
    messages = _history(**content, tool_calls=[call()])
    filled = _history(content="", tool_calls=[call()])
    expected = Outcome({"messages": filled}, ["content=empty_string"]) if fact in ("ignored", "rejected") else SENT
    assert outcome(ask(*messages), {path: fact}) == expected


def test_only_assistants_may_have_no_content() -> None:
    assert outcome(ask(user(None)), {"null_content": "rejected", "missing_content": "rejected"}) == SENT


@pytest.mark.parametrize(
    ("left", "note"),
    [
        ({"refusal": None, "audio": None, "function_call": None}, "history=nulls_dropped"),
        ({"tool_calls": None}, "history=nulls_dropped"),
        ({"tool_calls": []}, "history=nulls_dropped"),
        ({"annotations": []}, "history=nulls_dropped"),
        ({"provider_specific_fields": {"refusal": None}}, "history=leftovers_dropped"),
        ({"reasoning_details": [{"type": "reasoning.text"}], "refusal": None}, "history=leftovers_dropped"),
    ],
)
def test_what_an_answer_left_behind(left: dict[str, Any], note: str) -> None:
    said = {"role": "assistant", "content": "Hello"}
    assert outcome(ask(user(), {**said, **left}, user())) == Outcome({"messages": [user(), said, user()]}, [note])
