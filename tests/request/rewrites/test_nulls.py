"""Fields that are null."""

from __future__ import annotations

import pytest

from tests.request.support import GONE, Outcome, ask, function, outcome


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, Outcome({}, [])),
        ({"stop": [], "seed": 0, "user": "", "store": False}, Outcome({}, [])),
        ({"stream": None}, Outcome({"stream": GONE}, ["nulls=stream"])),
        ({"top_p": None, "seed": None}, Outcome({"top_p": GONE, "seed": GONE}, ["nulls=seed+top_p"])),
    ],
)
def test_nulls_are_left_out(fields: dict[str, object], expected: Outcome) -> None:
    assert outcome(ask(**fields)) == expected


def test_a_null_decides_nothing_later() -> None:
    body = ask(tools=[function("f")], tool_choice=None, n=None)
    result = outcome(body, {"tool_choice.required": "rejected", "unknown_fields": "rejected"})
    assert result == Outcome({"tool_choice": GONE, "n": GONE}, ["nulls=n+tool_choice"])
