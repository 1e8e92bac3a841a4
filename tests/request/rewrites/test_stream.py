"""Whether the server is asked to stream, and for usage: the decision table."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from svir_proxy.request import rewrite_request
from tests.request.support import GONE, Outcome, ask, client, function, outcome, profile

FACTS = ("kept", "unknown", "ignored", "rejected")
SENT = Outcome({}, [])
F = function("f")
ALWAYS = Outcome({"stream": True}, ["stream=always"])


@pytest.mark.parametrize(
    ("wanted", "sent", "expected"),
    [
        ("as_client", {}, SENT),
        ("as_client", {"stream": False}, SENT),
        ("as_client", {"stream": True}, SENT),
        ("as_client", {"stream": "yes"}, SENT),  # the server's to refuse
        ("always", {}, ALWAYS),
        ("always", {"stream": False}, ALWAYS),
        ("always", {"stream": True}, SENT),
        ("never", {}, SENT),
        ("never", {"stream": False}, SENT),
        ("never", {"stream": True}, Outcome({"stream": GONE}, ["stream=never"])),
        (
            "never",
            {"stream": True, "stream_options": {"include_usage": True}},
            Outcome({"stream": GONE, "stream_options": GONE}, ["stream=never"]),
        ),
        ("as_client", {"stream_options": {}}, Outcome({"stream_options": GONE}, ["drop=stream_options"])),
    ],
)
def test_stream(wanted: str, sent: dict[str, Any], expected: Outcome) -> None:
    assert outcome(ask(**sent), {"stream": wanted}) == expected


@pytest.mark.parametrize("fact", FACTS)
@pytest.mark.parametrize("tools", [{}, {"tools": [F]}])
def test_a_stream_with_tools(fact: str, tools: dict[str, Any]) -> None:
    plain = bool(tools) and fact in ("ignored", "rejected")
    facts = {"stream": "always", "stream_with_tools": fact}
    assert outcome(ask(**tools), facts) == (SENT if plain else ALWAYS)
    asked = Outcome({"stream": GONE}, ["stream=never"]) if plain else SENT
    assert outcome(ask(stream=True, **tools), facts) == asked


@pytest.mark.parametrize("fact", FACTS)
@pytest.mark.parametrize(
    ("path", "tools"),
    [("stream_logprobs", {}), ("stream_logprobs", {"tools": [F]}), ("stream_logprobs_with_tools", {"tools": [F]})],
)
def test_logprobs(path: str, tools: dict[str, Any], fact: str) -> None:
    facts = {"stream": "always", path: fact}
    fields = {"logprobs": True, "top_logprobs": 2, **tools}
    plain = SENT if fact in ("ignored", "rejected") else ALWAYS
    assert outcome(ask(**fields), facts) == plain
    streamed = {
        "ignored": Outcome({}, ["ignored=logprobs"]),
        "rejected": Outcome({"logprobs": GONE, "top_logprobs": GONE}, ["drop=logprobs"]),
    }.get(fact, SENT)
    assert outcome(ask(stream=True, **fields), facts) == streamed


def test_no_logprobs_are_asked_for() -> None:
    assert outcome(ask(logprobs=False), {"stream": "always", "stream_logprobs": "rejected"}) == ALWAYS


@pytest.mark.parametrize("fact", FACTS)
def test_where_tokens_are_counted_it_is_asked_for_where_it_is_not_known_to_be_lost(fact: str) -> None:
    request = replace(client(ask(stream=True)), is_counted=True)
    result = rewrite_request(request, profile({"optional_fields.stream_options": fact}), "m")
    asked = {"include_usage": True} if fact in ("kept", "unknown") else None
    assert result.body.get("stream_options") == asked
    assert result.notes == (("add=stream_options",) if asked else ())


@pytest.mark.parametrize("fact", FACTS)
@pytest.mark.parametrize(
    ("sent", "becomes"),
    [
        (None, {"include_usage": True}),
        ({}, {"include_usage": True}),
        ({"include_usage": False}, {"include_usage": True}),
        ({"include_obfuscation": False}, {"include_obfuscation": False, "include_usage": True}),
        ({"include_usage": True}, {"include_usage": True}),
        ("all", "all"),
    ],
)
def test_usage_is_asked_for_where_it_is_known_to_come(sent: Any, becomes: Any, fact: str) -> None:
    options = {} if sent is None else {"stream_options": sent}
    result = outcome(ask(stream=True, **options), {"optional_fields.stream_options": fact})
    if fact == "rejected":
        expected = Outcome({"stream_options": GONE}, ["drop=stream_options"]) if options else SENT
    elif fact == "kept" and sent != becomes:
        expected = Outcome({"stream_options": becomes}, ["add=stream_options"])
    else:
        expected = Outcome({}, ["ignored=stream_options"] if sent and fact == "ignored" else [])
    assert result == expected
