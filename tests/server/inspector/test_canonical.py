"""Each canonical event as the page shows it."""

from __future__ import annotations

from typing import Any, Final, get_args

import pytest

from svir_proxy.errors import ProxyError
from svir_proxy.response import events
from svir_proxy.response.events import Event
from svir_proxy.server.inspector.canonical import told
from svir_proxy.server.inspector.veil import Veil

CASES: Final[list[tuple[Event, Any, Any]]] = [
    (events.Identified("c", 1, "m"), {"id": "c", "model": "m"}, None),
    (events.ContentDelta("secret"), {"content": "secret"}, {"content": "«6 characters»"}),
    (events.ReasoningDelta("secret"), {"reasoning_content": "secret"}, {"reasoning_content": "«6 characters»"}),
    (events.RefusalDelta("secret"), {"refusal": "secret"}, {"refusal": "«6 characters»"}),
    (events.ToolCallStarted(0, "c1", "f"), {"tool_call": {"index": 0, "id": "c1", "name": "f"}}, None),
    (
        events.ArgumentsDelta(0, "secret"),
        {"tool_call": {"index": 0, "arguments": "secret"}},
        {"tool_call": {"index": 0, "arguments": "«6 characters»"}},
    ),
    (events.LogprobsReported([{"token": "secret"}], None), {"logprobs": "«1 token»"}, None),
    (events.ExtrasReported({"x": "secret"}), {"svir": {"x": "secret"}}, {"svir": {"x": "«6 characters»"}}),
    (events.UsageReported({"prompt_tokens": 3}), {"usage": {"prompt_tokens": 3}}, None),
    (events.Noted("a=b"), {"note": "a=b"}, None),
    (events.Finished("stop"), {"finish_reason": "stop"}, None),
    (events.Failed(ProxyError("upstream_failed", "secret")), {"error": "upstream_failed"}, None),
    (events.Ended(), {"done": True}, None),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: type(case[0]).__name__)
def test_an_event(case: tuple[Event, Any, Any]) -> None:
    event, shown, hidden = case
    assert told(event, Veil(prompts=True)) == shown
    assert told(event, Veil(prompts=False)) == (shown if hidden is None else hidden)


def test_no_kind_is_left_out() -> None:
    assert {type(event) for event, _, _ in CASES} == set(get_args(Event))
