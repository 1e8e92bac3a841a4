"""Tools: what is accepted and not kept, and models that spoil the question. The plain cases are in test_truth."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from svir_proxy.probe.answer import Answer
from svir_proxy.probe.questions.opening import OPENING
from svir_proxy.probe.questions.tools import ABOUT_TOOLS
from tests.probe.simulated import Simulated
from tests.probe.support import Held, hold

WRITTEN = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Oslo"}}\n</tool_call>'


def _asked(server: Simulated) -> Held:
    return hold(server, [*OPENING, *ABOUT_TOOLS])


class Writes(Simulated):
    """Its model writes calls as text, which the server does not read."""

    def _say(self, body: Mapping[str, Any], visible: list[str], tools: list[str]) -> tuple[str, list[str]]:
        text, calls = super()._say(body, visible, tools)
        return (WRITTEN, []) if "get_weather" in calls else (text, calls)


def test_a_call_that_is_written_is_a_call() -> None:
    held = _asked(Writes())
    assert held["tools"].value == "kept"
    assert held["tools"].evidence.startswith("text of a call")


def test_the_text_of_a_call_breaks_none() -> None:
    held = _asked(Writes({"tool_choice.none": "ignored"}))
    assert held["tool_choice.none"].value == "ignored"


def test_a_call_that_is_guessed_shows_nothing() -> None:
    class Guesses(Writes):
        def _say(self, body: Mapping[str, Any], visible: list[str], tools: list[str]) -> tuple[str, list[str]]:
            return (WRITTEN, []) if "get_weather" in visible[-1] else super()._say(body, visible, tools)

    assert _asked(Guesses(counts=False))["tool_choice.none"].value == "unknown"


def test_a_model_that_always_calls_shows_nothing_of_required() -> None:
    class Eager(Simulated):
        def _say(self, body: Mapping[str, Any], visible: list[str], tools: list[str]) -> tuple[str, list[str]]:
            return ("", ["get_weather"]) if tools else super()._say(body, visible, tools)

    held = _asked(Eager())
    assert held["tool_choice.required"].value == "unknown"
    assert held["tool_choice.named"].value == "ignored"


def test_a_model_that_calls_nothing_shows_what_is_in_the_prompt() -> None:
    held = _asked(Simulated({"tools": "kept", "tool_choice.none": "kept"}, calls=0))
    assert (held["tools"].value, held["tool_choice.none"].value) == ("unknown", "kept")
    held = _asked(Simulated({"tools": "ignored"}, calls=0))
    assert held["tools"].value == "ignored"
    assert held["tool_choice.required"].evidence == "tools as such are ignored"


@pytest.mark.parametrize("calls", [1, 2])
def test_calls_at_once_are_needed_to_forbid_them(calls: int) -> None:
    held = _asked(Simulated({"optional_fields.parallel_tool_calls": "ignored"}, calls=calls))
    assert held["optional_fields.parallel_tool_calls"].value == ("ignored" if calls > 1 else "unknown")


def test_a_limit_that_ends_the_answer_is_no_verdict() -> None:
    class Cut(Simulated):
        def _sent(self, body: Mapping[str, Any], *rest: Any, **more: Any) -> Answer:
            limit = {"max_tokens": 1} if body.get("tool_choice") == "required" else {}
            return super()._sent({**body, **limit}, *rest, **more)

    assert _asked(Cut({"tool_choice.required": "ignored"}))["tool_choice.required"].value == "unknown"
