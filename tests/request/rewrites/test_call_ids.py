"""Call ids of nine letters and digits."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.request.support import Outcome, ask, call, outcome, user


def _conversation(identity: Any) -> list[dict[str, Any]]:
    return [
        user(),
        {"role": "assistant", "content": "", "tool_calls": [call(identity=identity)]},
        {"role": "tool", "tool_call_id": identity, "content": "1"},
    ]


@given(st.text(max_size=60))
def test_a_call_and_its_result_keep_the_same_id(identity: str) -> None:
    result = outcome(ask(*_conversation(identity)), {"call_ids": "alphanumeric_9"})
    _, said, answer = result.changes.get("messages", _conversation(identity))
    assert said["tool_calls"][0]["id"] == answer["tool_call_id"]
    assert re.fullmatch(r"[A-Za-z0-9]{9}", answer["tool_call_id"])
    assert result.notes == (["history.call_ids=shortened"] if result.changes else [])


@given(st.lists(st.text(max_size=20), unique=True, min_size=2, max_size=20))
def test_different_ids_stay_different(identities: list[str]) -> None:
    messages = [message for identity in identities for message in _conversation(identity)]
    changed = outcome(ask(*messages), {"call_ids": "alphanumeric_9"}).changes.get("messages", messages)
    assert len({message["tool_call_id"] for message in changed if message["role"] == "tool"}) == len(identities)


@pytest.mark.parametrize(
    ("fact", "identity"), [("any", "call_1"), ("alphanumeric_9", "Abcdef123"), ("alphanumeric_9", 5)]
)
def test_ids_that_stay(fact: str, identity: Any) -> None:
    assert outcome(ask(*_conversation(identity)), {"call_ids": fact}) == Outcome({}, [])


@pytest.mark.parametrize("calls", [5, [5], [{}], {}])
def test_what_is_no_call_stays(calls: Any) -> None:
    message = {"role": "assistant", "content": "a", "tool_calls": calls}
    assert outcome(ask(message), {"call_ids": "alphanumeric_9"}) == Outcome({}, [])
