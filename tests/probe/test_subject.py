from __future__ import annotations

from typing import Any

import pytest

from svir_proxy.probe.subject import Subject
from tests.probe.support import GENERIC

HI = [{"role": "user", "content": "Hi."}]


@pytest.mark.parametrize(
    ("known", "asked", "body"),
    [
        ({}, {}, {"temperature": 0, "max_tokens": 64}),
        ({"room": 256}, {}, {"temperature": 0, "max_tokens": 256}),
        ({"room": 256}, {"room": 1}, {"temperature": 0, "max_tokens": 1}),
        ({"limit": "max_completion_tokens", "cool": False}, {}, {"max_completion_tokens": 64}),
        ({"limit": None}, {"temperature": 1.0}, {"temperature": 1.0}),
        ({}, {"seed": 7}, {"temperature": 0, "max_tokens": 64, "seed": 7}),
    ],
)
def test_a_request(known: dict[str, Any], asked: dict[str, Any], body: dict[str, Any]) -> None:
    ask = Subject(model="m", base=GENERIC, **known).ask("Hi.", **asked)
    assert ask.body == {"model": "m", "messages": HI, **body}
    assert not ask.leave_after_output


def test_messages_go_as_they_are() -> None:
    assert Subject(model="m", base=GENERIC).ask(HI, leave=True).body["messages"] is HI
