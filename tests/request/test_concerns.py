"""What a request is said to hold, on which it depends which rewrites it goes through."""

from __future__ import annotations

from typing import Any, Final

import pytest

from svir_proxy.request.concerns import ALWAYS, BEYOND_TEXT, EFFORT, FORMAT, LIMIT, NULLS, TOOLS, concerns
from tests.request.support import ask, call, function, user

TEXTS: Final = (
    {"role": "system", "content": "Be brief."},
    user(),
    {"content": "", "role": "assistant"},
    user("Go on."),
)
CASES: Final[dict[str, tuple[dict[str, Any], int]]] = {
    "texts": (ask(*TEXTS), 0),
    "settings": (ask(temperature=0.5, seed=7, stream=True, stop=["a"], top_k=3, store=False), 0),
    "a null": (ask(seed=None), NULLS),
    "no tools: null": (ask(tools=None, response_format=None), NULLS),
    "tools": (ask(tools=[function("f")]), TOOLS),
    "no tools: an empty list": (ask(tools=[]), TOOLS),
    "a choice": (ask(tool_choice="auto"), TOOLS),
    "how many calls": (ask(parallel_tool_calls=False), TOOLS),
    "functions": (ask(functions=[{"name": "f"}]), TOOLS),
    "a choice of functions": (ask(function_call="none"), TOOLS),
    "a format": (ask(response_format={"type": "text"}), FORMAT),
    "an effort": (ask(reasoning_effort="low"), EFFORT),
    "a limit": (ask(max_tokens=1), LIMIT),
    "a limit in today's words": (ask(max_completion_tokens=0), LIMIT),
    "several": (ask(max_tokens=1, tools=[], seed=None, reasoning_effort="low"), LIMIT | TOOLS | NULLS | EFFORT),
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
    every = (ALWAYS, NULLS, TOOLS, FORMAT, EFFORT, LIMIT, BEYOND_TEXT)
    assert sum(every) == 2 ** len(every) - 1
