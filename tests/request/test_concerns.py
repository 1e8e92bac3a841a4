"""What a request is said to hold, on which it depends which rewrites it goes through."""

from __future__ import annotations

from typing import Any, Final

import pytest

from svir_proxy.request.concerns import (
    ALWAYS,
    BEYOND_TEXT,
    EFFORT,
    FORMAT,
    LIMIT,
    NULLS,
    RENAMED,
    SETTINGS,
    STREAM,
    TOOLS,
    added_by,
    concerns,
)
from tests.request.support import ask, call, function, profile, user

TEXTS: Final = (
    {"role": "system", "content": "Be brief."},
    user(),
    {"content": "", "role": "assistant"},
    user("Go on."),
)
CASES: Final[dict[str, tuple[dict[str, Any], int]]] = {
    "texts": (ask(*TEXTS), 0),
    "settings": (ask(temperature=0.5, seed=7, stop=["a"], top_k=3, store=False), SETTINGS),
    "a stream": (ask(stream=True), STREAM),
    "what is in a stream": (ask(stream_options={}), STREAM),
    "no model": ({"messages": [user()]}, 0),
    "a null": (ask(seed=None), NULLS),
    "no model: null": (ask(model=None), NULLS),
    "no tools: null": (ask(tools=None, response_format=None), NULLS),
    "tools": (ask(tools=[function("f")]), SETTINGS | TOOLS),
    "no tools: an empty list": (ask(tools=[]), SETTINGS | TOOLS),
    "a choice": (ask(tool_choice="auto"), SETTINGS | TOOLS),
    "how many calls": (ask(parallel_tool_calls=False), SETTINGS | TOOLS),
    "functions": (ask(functions=[{"name": "f"}]), SETTINGS | TOOLS),
    "a choice of functions": (ask(function_call="none"), SETTINGS | TOOLS),
    "a format": (ask(response_format={"type": "text"}), SETTINGS | FORMAT),
    "an effort": (ask(reasoning_effort="low"), SETTINGS | EFFORT),
    "a limit": (ask(max_tokens=1), LIMIT),
    "a limit in today's words": (ask(max_completion_tokens=0), LIMIT),
    "several": (
        ask(max_tokens=1, tools=[], seed=None, reasoning_effort="low"),
        SETTINGS | LIMIT | TOOLS | NULLS | EFFORT,
    ),
    "a part": (ask(user([{"type": "text", "text": "Hi"}])), BEYOND_TEXT),
    "no content": (ask({"role": "assistant", "content": None}), BEYOND_TEXT),
    "no content at all": (ask({"role": "assistant"}), BEYOND_TEXT),
    "content and no role": (ask({"content": "Hi"}), BEYOND_TEXT),
    "an empty message": (ask({}), BEYOND_TEXT),
    "another role": (ask({"role": "developer", "content": "Be brief."}), BEYOND_TEXT),
    "a result": (ask({"role": "tool", "content": "1", "tool_call_id": "call_1"}), BEYOND_TEXT),
    "a call": (ask({"role": "assistant", "tool_calls": [call()]}), BEYOND_TEXT),
    "a name": (ask({"role": "user", "content": "Hi", "name": "ana"}), BEYOND_TEXT),
    "a role that is no text": (ask({"role": ["user"], "content": "Hi"}), BEYOND_TEXT),
    "one of several": (ask(*TEXTS, user([]), *TEXTS), BEYOND_TEXT),
    "the last": (ask(*TEXTS, {"role": "assistant", "content": "", "refusal": None}), BEYOND_TEXT),
}


@pytest.mark.parametrize(("body", "held"), CASES.values(), ids=CASES)
def test_what_a_request_holds(body: dict[str, Any], held: int) -> None:
    assert concerns(body) == ALWAYS | held


def test_concerns_can_be_added_up() -> None:
    every = (ALWAYS, NULLS, TOOLS, FORMAT, EFFORT, LIMIT, BEYOND_TEXT, SETTINGS, STREAM, RENAMED)
    assert sum(every) == 2 ** len(every) - 1


@pytest.mark.parametrize(
    ("facts", "added"),
    [
        ({}, 0),
        ({"stream": "never", "always_send": {"context": []}, "optional_fields": {"seed": "ignored"}}, 0),
        ({"stream": "always"}, STREAM),
        ({"always_send": {"stream_options": {}}}, STREAM),
        ({"optional_fields": {"stream_options": "kept", "max_tokens": "unknown", "model": "kept"}}, 0),
        ({"optional_fields": {"stream_options": "rejected"}}, SETTINGS),
        ({"optional_fields": {"max_completion_tokens": "ignored"}}, SETTINGS),
        ({"optional_fields": {"model": "ignored"}}, SETTINGS),
        ({"optional_fields": {"messages": "ignored"}, "stream": "always"}, SETTINGS | STREAM),
    ],
)
def test_what_every_request_holds_for_a_server(facts: dict[str, Any], added: int) -> None:
    assert added_by(profile(facts).request) == added
