"""Fields a server has to be told."""

from __future__ import annotations

import pytest

from tests.request.support import Outcome, ask, outcome

FACTS = {"always_send": {"context_management": [], "cache": True}}


@pytest.mark.parametrize(
    ("sent", "learned", "expected"),
    [
        ({}, {}, Outcome({"context_management": [], "cache": True}, ["add=context_management", "add=cache"])),
        ({"cache": False}, {}, Outcome({"context_management": []}, ["add=context_management"])),
        ({}, {"optional_fields.cache": "rejected"}, Outcome({"context_management": []}, ["add=context_management"])),
        ({}, {"unknown_fields": "rejected"}, Outcome(FACTS["always_send"], ["add=context_management", "add=cache"])),
    ],
)
def test_what_is_missing_is_added(sent: dict[str, object], learned: dict[str, str], expected: Outcome) -> None:
    assert outcome(ask(**sent), FACTS | learned) == expected
