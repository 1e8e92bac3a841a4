"""The first questions: what the others lean on, and how reasoning and streams are carried."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from svir_proxy.probe.answer import Answer
from svir_proxy.probe.questions.opening import OPENING
from tests.probe.simulated import GREETING, THOUGHT, Simulated, json_answer
from tests.probe.support import Held, hold


def _opened(server: Simulated, **known: Any) -> Held:
    return hold(server, OPENING, **known)


@pytest.mark.parametrize(
    ("facts", "limit", "cool", "found"),
    [
        ({}, "max_tokens", True, "max_tokens"),
        ({"limit.max_completion_tokens": "rejected"}, "max_tokens", True, "max_tokens"),
        ({"limit.max_completion_tokens": "ignored"}, "max_tokens", True, "max_tokens"),
        ({"limit.max_tokens": "rejected"}, "max_completion_tokens", True, "max_completion_tokens"),
        ({"limit.max_tokens": "ignored"}, "max_completion_tokens", True, "max_completion_tokens"),
        ({"limit.max_tokens": "ignored", "limit.max_completion_tokens": "ignored"}, "max_tokens", True, "unknown"),
        ({"limit.max_tokens": "rejected", "limit.max_completion_tokens": "rejected"}, None, True, "unknown"),
        ({"optional_fields.temperature": "rejected"}, "max_tokens", False, "max_tokens"),
        (
            {"optional_fields.temperature": "rejected", "limit.max_tokens": "rejected"},
            "max_completion_tokens",
            False,
            "max_completion_tokens",
        ),
    ],
)
def test_the_fields_of_every_request(facts: dict[str, str], limit: str | None, *, cool: bool, found: str) -> None:
    held = _opened(Simulated(facts))
    subject = held.interview.subject
    assert (subject.limit, subject.cool, held["max_tokens_field"].value) == (limit, cool, found)
    assert held["optional_fields.temperature"].value == ("unknown" if cool else "rejected")


@pytest.mark.parametrize(("least", "found"), [(1, 1), (2, 16), (16, 16), (17, 64), (64, 64)])
def test_the_smallest_limit_it_takes(least: int, found: int) -> None:
    held = hold(Simulated({"model": "any", "images": "kept"}, least=least))
    assert held.interview.subject.least == found
    assert held["images"].value == "kept"


def test_a_model_that_thinks_gets_room() -> None:
    class Thinker(Simulated):
        def _say(self, *_: Any) -> tuple[str, list[str]]:
            return GREETING, []

        def _sent(self, body: Mapping[str, Any], prompt: str, thought: str, *rest: Any, **more: Any) -> Answer:
            return super()._sent(body, prompt, "hm " * 100, *rest, **more)

    held = _opened(Thinker())
    assert (held.interview.subject.room, held.interview.subject.thinks) == (256, True)
    assert held.interview.subject.control == GREETING


def test_an_echo_is_told() -> None:
    held = _opened(Simulated(echoes=True))
    assert held.interview.subject.echoes
    assert held["echo"].value == "yes"


@pytest.mark.parametrize(
    ("content", "key", "found"),
    [
        ("Hello!", None, "unknown"),
        ("Hello!", "reasoning_content", "field"),
        ("Hello!", "reasoning", "field"),
        ("<think>hm</think>Hello!", None, "field"),
        ("hm</think>Hello!", None, "think_tags_preopened"),
        ("hm</think>Hello <think>!", None, "think_tags_preopened"),
    ],
)
def test_how_reasoning_is_carried(content: str, key: str | None, found: str) -> None:
    class Carrier(Simulated):
        def answer(self, body: Mapping[str, Any]) -> Answer:
            message = {"role": "assistant", "content": content, **({key: THOUGHT} if key else {})}
            return json_answer({"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]})

    assert _opened(Carrier())["response.reasoning"].value == found


def test_a_stream_of_a_server_far_away_is_as_the_client_wants_it() -> None:
    assert _opened(Simulated(), local=False)["stream"].value == "pieces"
    assert _opened(Simulated(), local=False)["request.stream"].value == "as_client"


def test_what_a_stream_is_made_of() -> None:
    assert (
        _opened(Simulated())["stream"].evidence
        == "no keep-alive comments; [DONE] at the end; usage only when asked for"
    )


@pytest.mark.parametrize(
    ("server", "counts"),
    [
        (Simulated(), True),
        (Simulated(counts=False), False),
        (type("Liar", (Simulated,), {"_visible": lambda *_: iter(["one"])})(), False),
    ],
)
def test_whether_counts_can_be_trusted(server: Simulated, *, counts: bool) -> None:
    assert _opened(server).interview.subject.counts is counts


def test_answers_are_read_as_was_learned() -> None:
    held = hold(Simulated({"model": "any"}, thinks=True, preopened=True))
    assert held["response.reasoning"].value == "think_tags_preopened"
    assert held.interview.subject.control.strip() == GREETING
    assert held["response_format.json_schema"].value == "kept"
    assert held["stop"].value == "kept"


def test_a_stream_that_repeats_itself_is_read_as_one() -> None:
    class Writes(Simulated):
        def _say(self, body: Mapping[str, Any], visible: list[str], tools: list[str]) -> tuple[str, list[str]]:
            text, calls = super()._say(body, visible, tools)
            call = '<tool_call> {"name": "get_weather", "arguments": {"city": "Oslo"}} </tool_call>'
            return (call, []) if "get_weather" in calls else (text, calls)

    held = hold(Writes({"content": "cumulative"}))
    assert (held["response.content"].value, held["stream_with_tools"].value) == ("cumulative", "kept")


@pytest.mark.parametrize("counts", [True, False])
@pytest.mark.parametrize("fact", ["kept", "ignored"])
def test_a_limit_of_the_servers_own_is_not_taken_for_the_asked_one(fact: str, *, counts: bool) -> None:
    class Talks(Simulated):
        def _say(self, *_: Any) -> tuple[str, list[str]]:
            return "on and on " * 100, []

        def _sent(self, body: Mapping[str, Any], *rest: Any, **more: Any) -> Answer:
            kept = [name for name in ("max_tokens", "max_completion_tokens") if self.fact(f"limit.{name}") == "kept"]
            own = {name: min(body.get(name, 50), 50) for name in kept} or {"max_tokens": 50}
            names = {"max_tokens", "max_completion_tokens"}
            return super()._sent({**{k: v for k, v in body.items() if k not in names}, **own}, *rest, **more)

        def _honours(self, path: str, *, present: bool = True) -> bool:
            return True if path.startswith("limit.") else super()._honours(path, present=present)

    server = Talks({"limit.max_tokens": fact, "limit.max_completion_tokens": "ignored"}, counts=counts)
    assert _opened(server)["max_tokens_field"].value == ("max_tokens" if fact == "kept" else "unknown")
