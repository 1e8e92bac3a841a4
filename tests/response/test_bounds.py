"""The core's work is linear in the bytes and its memory bounded, whatever a server sends.

Each scenario is an answer that invites a reader to join, search or keep what came before, in as many small pieces as
asked for.
"""

from __future__ import annotations

import json
from itertools import chain, count, islice, repeat
from typing import TYPE_CHECKING, Final

import pytest

from svir_proxy.client_request import ClientRequest
from svir_proxy.profiles.loader import load_profile
from svir_proxy.response.completion import CompletionFolder
from svir_proxy.response.events import Failed
from svir_proxy.response.normalizer import Limits, State, StreamNormalizer
from svir_proxy.response.sse_writer import SSEWriter
from tests.support.core import answered_cases, request_of
from tests.support.core import profile_of as profile_of_case
from tests.support.work import peak, work

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from svir_proxy.conform.cases import Case
    from svir_proxy.profiles.schema import Profile
    from svir_proxy.response.events import Event

PIECES: Final = 500
LIMIT: Final = 1 << 14
LIMITS: Final = Limits(event_bytes=LIMIT, answer_bytes=LIMIT, held_characters=LIMIT)
GENERIC: Final = load_profile("generic")
PROFILES: Final = {
    "increments under cumulative": load_profile("generic", {"response": {"content": "cumulative"}}),
    "a block the template opened": load_profile("generic", {"response": {"reasoning": "think_tags_preopened"}}),
}


def a_request() -> ClientRequest:
    tools = [{"type": "function", "function": {"name": name}} for name in ("look", "x" * 1_000_000)]
    body = {"model": "m", "messages": [{"role": "user", "content": "Hi"}], "stream": True, "tools": tools}
    return ClientRequest.from_body(body, id="req-1", received=1_790_000_000)


def chunk(delta: object, **fields: object) -> bytes:
    return b"data: %b\n\n" % json.dumps({"choices": [{"index": 0, "delta": delta, **fields}]}).encode()


def text(start: str, more: str, key: str = "content") -> Callable[[], Iterator[bytes]]:
    """Deltas: *start*, then *more* for ever."""

    def pieces() -> Iterator[bytes]:
        yield chunk({key: start + more})
        yield from repeat(chunk({key: more}))

    return pieces


def raw(start: bytes, more: bytes) -> Callable[[], Iterator[bytes]]:
    """Bytes: *start*, then *more* for ever."""

    def pieces() -> Iterator[bytes]:
        yield start
        yield from repeat(more)

    return pieces


def calls(*openings: dict[str, object], more: dict[str, object]) -> Callable[[], Iterator[bytes]]:
    """Pieces of calls: the *openings*, then *more* for ever."""

    def pieces() -> Iterator[bytes]:
        yield chunk({"tool_calls": list(openings)})
        yield from repeat(chunk({"tool_calls": [more]}))

    return pieces


def increments() -> Iterator[bytes]:
    for number in count():
        yield chunk({"content": f"{number:0100}"})


def many_long_calls() -> Iterator[bytes]:
    for number in count():
        call = {
            "index": number,
            "id": f"c{number}",
            "function": {"name": "look", "arguments": json.dumps(["x" * 1000])},
        }
        yield chunk({"tool_calls": [call]})


def many_calls() -> Iterator[bytes]:
    for number in count():
        function = {"name": "look", "arguments": "{}"}
        yield chunk({"tool_calls": [{"index": number, "id": f"c{number}", "function": function}]})


def endless_name() -> Iterator[bytes]:
    for number in count():
        yield chunk({"tool_calls": [{"index": 0, "function": {"name": f"{number:0100}"}}]})


LOOK: Final = {"name": "look", "arguments": '{"a": "'}
FILLER: Final = "word " * 20

SCENARIOS: Final[dict[str, Callable[[], Iterator[bytes]]]] = {
    # bytes
    "a line": raw(b"data: ", b"x" * 100),
    "a line in a string": raw(b'data: {"choices":[{"index":0,"delta":{"content":"', b"x" * 100),
    "data lines of one event": raw(b"", b"data: %b\n" % (b"x" * 100)),
    "comments": raw(b"", b": keepalive\n\n"),
    "blanks": raw(b"", b"\r\n    " * 20),
    "line ends": raw(b"", b"\r"),
    "empty events": raw(b"", b"data:\n\n"),
    "events in one event": raw(b"data: ", b'{"choices":[]}'),
    "identities": raw(b"", b"id: 1\nretry: 1\n"),
    "a nest": raw(b'data: {"a":', b"[" * 100),
    "a number": raw(b'data: {"created":', b"9" * 100),
    "a key again": raw(b"data: {", b'"choices":[],' * 8),
    "characters of three bytes": raw(b'data: {"choices":[{"delta":{"content":"', "\u20ac".encode() * 30),
    "events named nothing": raw(b"", b"event: x\n\n"),
    "an open answer": raw(b'{"choices":[{"message":{"content":"', b"x" * 100),
    "a page": raw(b"<html>", b"x" * 100),
    # text
    "content": text("", FILLER),
    "reasoning": text("", FILLER, "reasoning_content"),
    "half markers": text("", "the words a <thi" * 5),
    "brackets": text("", "[[{{<<" * 10),
    "an open block": text("<think>", FILLER),
    "blocks": text("", "<think>a</think>b"),
    "an open call in text": text('<tool_call>{"name": "look", "arguments": {"a": "', FILLER),
    "an open XML call": text("<tool_call><function=look><parameter=a>", FILLER),
    "an open call of Mistral's": text('[TOOL_CALLS][{"name": "look", "arguments": {"a": "', FILLER),
    "an open bare call": text('{"name": "look", "arguments": {"a": "', FILLER),
    "calls in text": text("", '<tool_call>{"name": "look", "arguments": {}}</tool_call>'),
    "increments under cumulative": increments,
    "a block the template opened": text("", FILLER),
    "half characters": raw(b"", b'data: {"choices":[{"delta":{"content":"\\ud83d"}}]}\n\n'),
    # calls
    "arguments": calls({"index": 0, "id": "a", "function": LOOK}, more={"index": 0, "function": {"arguments": FILLER}}),
    "arguments of a later call": calls(
        {"index": 0, "id": "a", "function": LOOK},
        {"index": 1, "id": "b", "function": LOOK},
        more={"index": 1, "function": {"arguments": FILLER}},
    ),
    "arguments of no call": calls(more={"index": 0, "function": {"arguments": FILLER}}),
    "arguments over and over": calls(
        {"index": 0, "id": "a", "function": LOOK}, more={"index": 0, "function": {"name": "look", "arguments": "{}"}}
    ),
    "a name": calls(more={"index": 0, "function": {"name": "x" * 100}}),
    "an unlisted name": endless_name,
    "many calls": many_calls,
    "many long calls": many_long_calls,
    # the rest
    "usage": raw(b"", b'data: {"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":1}}\n\n'),
    "finish reasons": raw(b"", chunk({}, finish_reason="stop")),
    "log probabilities": raw(b"", chunk({}, logprobs={"content": [{"token": "a", "logprob": -1.0}] * 20})),
}


STREAMS: Final = list(
    {
        (case.meta["server"], case.meta.get("kind")): case
        for case in answered_cases()
        if b"data:" in case.body and len(case.body) < 6000
    }.values()
)[::3]
"""Recorded streams of every server."""

HELD: Final = {
    "a line",
    "a line in a string",
    "a nest",
    "a number",
    "a key again",
    "characters of three bytes",
    "events in one event",
    "data lines of one event",
    "an open answer",
    "arguments of a later call",
    "arguments of no call",
    "a name",
    "an unlisted name",
}
"""The scenarios in which nothing can be passed on before more has come."""


def profile_of(name: str) -> Profile:
    return PROFILES.get(name, GENERIC)


def work_of(name: str, pieces: int) -> int:
    done, state = work_on(a_request(), profile_of(name), islice(SCENARIOS[name](), pieces))
    assert state is not State.FAILED, "the scenario ended before it said anything"
    return done


def work_on(request: ClientRequest, profile: Profile, pieces: Iterable[bytes]) -> tuple[int, State]:
    """The work of the whole way down for the bytes in *pieces*, and how far the answer came."""
    normalizer, writer, folder = StreamNormalizer(request, profile), SSEWriter(request), CompletionFolder(request)
    writer.open()

    def step(piece: bytes) -> None:
        for event in normalizer.receive_data(piece):
            writer.write(event)
            folder.feed(event)

    return work(step, pieces), normalizer.state


@pytest.mark.parametrize("name", SCENARIOS)
def test_twice_the_bytes_are_twice_the_work(name: str) -> None:
    assert work_of(name, 2 * PIECES) < 2.6 * work_of(name, PIECES)


@pytest.mark.parametrize("case", STREAMS, ids=lambda case: case.key)
def test_a_recording_that_goes_on_and_on_is_linear(case: Case) -> None:
    """Each of a few of its events, repeated: what a server says once it may say for ever."""
    events = [event + b"\n\n" for event in case.body.split(b"\n\n")]
    for at in {0, len(events) // 3, len(events) // 2, len(events) * 2 // 3}:
        once, twice = (
            work_on(
                request_of(case), profile_of_case(case), chain(events[:at], repeat(events[at], times), events[at:])
            )[0]
            for times in (120, 240)
        )
        whole = work_on(request_of(case), profile_of_case(case), events)[0]
        assert twice - whole < 2.6 * (once - whole) + whole, events[at]


@pytest.mark.parametrize("name", SCENARIOS)
def test_memory_is_bounded(name: str) -> None:
    """Nothing much is held, or the answer fails in words that name the limit."""
    request = a_request()
    normalizer, writer = StreamNormalizer(request, profile_of(name), LIMITS), SSEWriter(request)
    writer.open()
    last: list[Event] = []

    def step(piece: bytes) -> None:
        for event in normalizer.receive_data(piece):
            writer.write(event)
            last[:] = [event]

    held = peak(step, islice(SCENARIOS[name](), 5000))
    assert held < (2 << 20), f"{held} bytes are held"
    if name in HELD or normalizer.state is State.FAILED:
        failed = last[-1]
        assert isinstance(failed, Failed)
        assert failed.error.kind == "upstream_bad_response"
        assert str(LIMIT) in failed.error.message
