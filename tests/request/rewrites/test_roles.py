"""Roles and the order of messages: the decision tables, and what merging keeps."""

from __future__ import annotations

from typing import Any

import pytest

from tests.request.support import Outcome, ask, call, outcome, user

FACTS = ("kept", "unknown", "ignored", "rejected")
SENT = Outcome({}, [])


def _system(text: Any, **more: Any) -> dict[str, Any]:
    return {"role": "system", "content": text, **more}


def _assistant(text: Any, **more: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": text, **more}


@pytest.mark.parametrize("fact", FACTS)
def test_the_developer_role(fact: str) -> None:
    developer = {"role": "developer", "content": "Be brief.", "name": "d"}
    renamed = Outcome({"messages": [_system("Be brief.", name="d"), user()]}, ["role.developer=system"])
    expected = SENT if fact == "kept" else renamed
    assert outcome(ask(developer, user()), {"developer_role": fact}) == expected


@pytest.mark.parametrize("fact", FACTS)
@pytest.mark.parametrize(
    ("messages", "merged"),
    [
        ([_system("a"), user(), _system("b")], [_system("a\n\nb"), user()]),
        ([user(), _system("b")], [_system("b"), user()]),
        ([_system("a"), _system("b"), user()], [_system("a\n\nb"), user()]),
        (
            [_system([{"type": "text", "text": "a"}]), user(), _system("b")],
            [_system([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]), user()],
        ),
        ([_system(None, name="x"), user(), _system("b", name="y")], [_system("b", name="x"), user()]),
    ],
)
def test_a_late_system_message(messages: list[Any], merged: list[Any], fact: str) -> None:
    moved = Outcome({"messages": merged}, ["role.system=merged_in_front"])
    assert outcome(ask(*messages), {"late_system": fact}) == (moved if fact in ("ignored", "rejected") else SENT)


@pytest.mark.parametrize("fact", FACTS)
@pytest.mark.parametrize(
    ("messages", "merged"),
    [
        ([user("a"), user("b"), user("c")], [user("a\n\nb\n\nc")]),
        ([user("a"), _assistant("b"), _assistant("c"), user("d")], [user("a"), _assistant("b\n\nc"), user("d")]),
        ([user("a"), user([{"type": "text", "text": "b"}])],
         [user([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}])]),
        ([user("a"), _assistant("b"), _assistant(None, tool_calls=[call()])],
         [user("a"), _assistant("b", tool_calls=[call()])]),
        ([user("a"), _assistant("b", tool_calls=[]), _assistant("c", reasoning_content="r")],
         [user("a"), _assistant("b\n\nc", reasoning_content="r")]),
    ],
)  # fmt: skip
def test_messages_of_one_role_in_a_row(messages: list[Any], merged: list[Any], fact: str) -> None:
    facts = {"consecutive_roles": fact, "reasoning_history": "reasoning_content"}
    result = outcome(ask(*messages), facts)
    if fact in ("ignored", "rejected"):
        assert result.changes == {"messages": merged}
        assert result.notes[0] == "role.consecutive=merged"
    else:
        assert "role.consecutive=merged" not in result.notes
        assert len(result.changes.get("messages", messages)) == len(messages)


@pytest.mark.parametrize(
    "messages",
    [
        [_assistant(None, tool_calls=[call()]), _assistant("b")],  # the results stand between them
        [{"role": "tool", "tool_call_id": "a", "content": "1"}, {"role": "tool", "tool_call_id": "b", "content": "2"}],
        [user(5), user("b")],  # what cannot be joined stays
        [user({"a": 1}), user("b")],
        [_system("a"), user(), _system({"text": "b"})],
    ],
)
def test_what_is_left_as_it_is(messages: list[Any]) -> None:
    assert outcome(ask(*messages), {"consecutive_roles": "rejected", "late_system": "rejected"}) == SENT


def test_a_late_developer_message_goes_in_front_too() -> None:
    facts = {"developer_role": "ignored", "late_system": "rejected"}
    result = outcome(ask(user(), {"role": "developer", "content": "b"}), facts)
    assert result == Outcome(
        {"messages": [_system("b"), user()]}, ["role.developer=system", "role.system=merged_in_front"]
    )
