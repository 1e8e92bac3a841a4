"""What rewrites see and say, and how they change a body without touching it."""

from __future__ import annotations

import pytest

from svir_proxy.expectation import Expectation
from svir_proxy.request.context import Context, map_messages, with_values, without
from tests.request.support import MODEL, ask, client, profile, user


def _context(**more: object) -> Context:
    return Context(client(ask()), profile(more), MODEL)


@pytest.mark.parametrize(
    ("texts", "notes"),
    [
        (["a=b", "c", "a=b"], ["a=b", "c"]),
        (["drop=a, b"], ["drop=a??b"]),
        (["drop=\r\nset-cookie: x"], ["drop=??set-cookie:?x"]),
        (["drop=ü\ud800"], ["drop=??"]),
        (["x" * 500], ["x" * 120]),
        ([f"n{number}" for number in range(60)], [*(f"n{number}" for number in range(40)), "more=untold"]),
    ],
)
def test_notes(texts: list[str], notes: list[str]) -> None:
    context = _context()
    for text in texts:
        context.note(text)
    assert context.notes == tuple(notes)


def test_of_several_demands_the_first_counts() -> None:
    context = _context()
    assert context.expectation is None
    first, second = Expectation("a"), Expectation("b")
    context.expect(first)
    context.expect(second)
    assert context.expectation is first


def test_an_optional_field_is_unknown_until_known() -> None:
    context = _context(**{"optional_fields.store": "kept"})
    assert (context.optional("store"), context.optional("seed")) == ("kept", "unknown")


def test_changes_share_what_they_do_not_change() -> None:
    body = ask(user("a"), user("b"), seed=1)
    assert without(body, "seed", "nothing") == {"model": MODEL, "messages": body["messages"]}
    assert with_values(body, {"seed": 2})["messages"] is body["messages"]
    assert map_messages(body, lambda message: message) is body
    changed = map_messages(body, lambda message: user("c") if message["content"] == "a" else message)
    assert changed["messages"] == [user("c"), user("b")]
    assert changed["messages"][1] is body["messages"][1]
    assert body == ask(user("a"), user("b"), seed=1)
