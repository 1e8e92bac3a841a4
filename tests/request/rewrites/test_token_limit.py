"""The output limit under the name the server reads."""

from __future__ import annotations

import pytest

from tests.request.support import GONE, Outcome, ask, outcome


@pytest.mark.parametrize(
    ("wanted", "sent", "becomes"),
    [
        ("max_tokens", {"max_tokens": 1}, {}),
        ("max_tokens", {"max_completion_tokens": 2}, {"max_tokens": 2, "max_completion_tokens": GONE}),
        ("max_tokens", {"max_tokens": 1, "max_completion_tokens": 2}, {"max_tokens": 2, "max_completion_tokens": GONE}),
        ("max_completion_tokens", {"max_tokens": 1}, {"max_tokens": GONE, "max_completion_tokens": 1}),
        ("max_completion_tokens", {"max_completion_tokens": 2}, {}),
        ("max_completion_tokens", {"max_tokens": 1, "max_completion_tokens": 2}, {"max_tokens": GONE}),
        ("both", {"max_tokens": 1}, {}),
        ("both", {"max_completion_tokens": 2}, {}),
        ("both", {"max_tokens": 1, "max_completion_tokens": 2}, {}),
        ("max_tokens", {}, {}),
        ("max_tokens", {"max_completion_tokens": "many"}, {"max_tokens": "many", "max_completion_tokens": GONE}),
    ],
)
def test_the_limit(wanted: str, sent: dict[str, object], becomes: dict[str, object]) -> None:
    notes = [f"max_tokens={wanted}"] if becomes else []
    assert outcome(ask(**sent), {"max_tokens_field": wanted}) == Outcome(becomes, notes)


def test_a_limit_that_is_null_is_none() -> None:
    result = outcome(ask(max_completion_tokens=None, max_tokens=5), {"max_tokens_field": "max_tokens"})
    assert result == Outcome({"max_completion_tokens": GONE}, ["nulls=max_completion_tokens"])
