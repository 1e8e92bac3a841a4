"""Earlier assistant turns: reasoning, arguments, refusals."""

from __future__ import annotations

from typing import Any

import pytest

from tests.request.support import Outcome, ask, call, outcome, user

FACTS = ("kept", "unknown", "ignored", "rejected")
SENT = Outcome({}, [])


def _said(**more: Any) -> list[dict[str, Any]]:
    return [user(), {"role": "assistant", "content": "a", **more}, user()]


@pytest.mark.parametrize(
    ("wanted", "sent", "becomes"),
    [
        ("none", {"reasoning_content": "r"}, {}),
        ("none", {"reasoning": "r"}, {}),
        ("none", {"reasoning": "r", "reasoning_content": "s"}, {}),
        ("none", {"reasoning_content": ""}, {}),
        ("reasoning_content", {"reasoning_content": "r"}, None),
        ("reasoning_content", {"reasoning_content": ""}, None),  # DeepSeek demands the key
        ("reasoning_content", {"reasoning": "r"}, {"reasoning_content": "r"}),
        ("reasoning_content", {"reasoning": "r", "reasoning_content": "s"}, {"reasoning_content": "s"}),
        ("reasoning_content", {"reasoning": "r", "reasoning_content": ""}, {"reasoning_content": "r"}),
        ("reasoning", {"reasoning_content": "r"}, {"reasoning": "r"}),
        ("reasoning", {"reasoning": "r"}, None),
        ("reasoning", {"reasoning": {"effort": "low"}}, {}),
        ("reasoning", {"reasoning": 5, "reasoning_content": "r"}, {"reasoning": "r"}),
    ],
)
def test_reasoning(wanted: str, sent: dict[str, Any], becomes: dict[str, Any] | None) -> None:
    told = f"reasoning_history={wanted if becomes else 'left_out'}"
    expected = SENT if becomes is None else Outcome({"messages": _said(**becomes)}, [told])
    assert outcome(ask(*_said(**sent)), {"reasoning_history": wanted}) == expected


def test_reasoning_that_is_null_says_nothing() -> None:
    result = outcome(ask(*_said(reasoning_content=None)), {"reasoning_history": "reasoning_content"})
    assert result == Outcome({"messages": _said()}, ["history=nulls_dropped"])


def test_only_assistants_reason() -> None:
    assert outcome(ask({"role": "user", "content": "Hi", "reasoning": "r"})) == SENT


@pytest.mark.parametrize("fact", FACTS)
@pytest.mark.parametrize("arguments", ["", "  ", None])
def test_empty_arguments(arguments: str | None, fact: str) -> None:
    repaired = Outcome({"messages": _said(tool_calls=[call(arguments="{}")])}, ["history.arguments=empty_object"])
    messages = _said(tool_calls=[call(arguments=arguments)])
    assert outcome(ask(*messages), {"empty_arguments": fact}) == (SENT if fact == "kept" else repaired)


@pytest.mark.parametrize(
    "calls", [[call(arguments="{}")], [call(arguments={})], [None], [{}], [{"function": 5}], {}, 5]
)
def test_calls_that_are_left_as_they_are(calls: Any) -> None:
    assert outcome(ask(*_said(tool_calls=calls)), {"empty_arguments": "rejected"}) == SENT


@pytest.mark.parametrize("fact", FACTS)
def test_refusal_parts(fact: str) -> None:
    text, refusal = {"type": "text", "text": "a"}, {"type": "refusal", "refusal": "No."}
    sent = _said(content=[text, refusal, {"type": "refusal"}, 5])
    turned = _said(content=[text, {"type": "text", "text": "No."}, {"type": "text", "text": ""}, 5])
    expected = SENT if fact == "kept" else Outcome({"messages": turned}, ["history.refusal=text"])
    assert outcome(ask(*sent), {"refusal_parts": fact}) == expected


def test_other_parts_are_left_as_they_are() -> None:
    assert outcome(ask(*_said(content=[{"type": "text", "text": "a"}])), {"refusal_parts": "rejected"}) == SENT
