"""Runs the sans-I/O core over bytes, and holds what comes out against the dialect."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final

from svir_proxy.client_request import ClientRequest
from svir_proxy.conform import dialect
from svir_proxy.conform.cases import Case, load_cases
from svir_proxy.errors import ProxyError
from svir_proxy.profiles.loader import builtin_names, load_profile
from svir_proxy.response.completion import CompletionFolder
from svir_proxy.response.events import (
    ArgumentsDelta,
    ContentDelta,
    Ended,
    Event,
    Failed,
    Identified,
    ReasoningDelta,
    RefusalDelta,
    ToolCallStarted,
)
from svir_proxy.response.json_text import dumps
from svir_proxy.response.normalizer import Limits, State, StreamNormalizer
from svir_proxy.response.sse_writer import SSEWriter

if TYPE_CHECKING:
    from collections.abc import Iterable

    from svir_proxy.profiles.schema import Profile

OUTPUT: Final = (ReasoningDelta, ContentDelta, RefusalDelta, ToolCallStarted, ArgumentsDelta)

AS_THE_MODEL_WROTE_THEM: Final = ": tool-arguments: "
"""Arguments that are no JSON pass through, noted: the only breach of the dialect that is the model's own."""


@cache
def request_of(case: Case) -> ClientRequest | None:
    """The case's request; None where the proxy refuses it."""
    try:
        return ClientRequest.from_body(case.request, id="req-1", received=1_790_000_000)
    except ProxyError:
        return None


@cache
def profile_of(case: Case) -> Profile:
    """The case's profile."""
    name = case.profile if case.profile in builtin_names() else "generic"
    return load_profile(name, case.overrides)


@cache
def answered_cases() -> tuple[Case, ...]:
    """The cases whose body reaches the core: a readable request, answered with 200."""
    return tuple(case for case in load_cases() if case.response["status"] == 200 and request_of(case) is not None)


def normalize(
    request: ClientRequest,
    profile: Profile,
    pieces: Iterable[bytes],
    *,
    clean: bool = True,
    limits: Limits | None = None,
    extras: bool = False,
) -> list[Event]:
    """The events of a body fed in *pieces*; asserts that the answer ends once and that nothing follows."""
    normalizer = StreamNormalizer(request, profile, limits or Limits(), extras=extras)
    events: list[Event] = []
    for piece in pieces:
        events += normalizer.receive_data(piece)
    events += normalizer.receive_eof(clean)
    assert normalizer.state in (State.COMPLETE, State.FAILED)
    assert isinstance(events[-1], Ended if normalizer.state is State.COMPLETE else Failed)
    assert not any(isinstance(event, Ended | Failed) for event in events[:-1])
    assert normalizer.receive_data(b'data: {"choices":[{"index":0,"delta":{"content":"late"}}]}\n\n') == []
    return events


def violations(request: ClientRequest, events: list[Event]) -> list[str]:
    """What is wrong with the answer that *events* make, streamed and not; ``tool-arguments`` excepted."""
    error = events[-1].error if isinstance(events[-1], Failed) else None
    named = request.tool_choice == "named"
    found = []
    if error is not None:
        found += dialect.check_error(error.body())
    if error is None or any(isinstance(event, OUTPUT) for event in events):
        stream = written(request, events)
        found += dialect.check_stream(stream, request.include_usage, named_function=named, usage_optional=True)
    if error is None:
        completion = folded(request, events)
        found += dialect.check_completion(completion, named_function=named)
        found += _differences(dialect.summarize(stream), dialect.summarize_completion(completion))
    return [line for line in found if AS_THE_MODEL_WROTE_THEM not in line]


def written(request: ClientRequest, events: list[Event]) -> bytes:
    """The stream a client gets."""
    writer = SSEWriter(request)
    stream = b""
    for event in events:
        if not writer.is_open and not isinstance(event, Identified):
            stream += writer.open()
        stream += writer.write(event)
    return stream


def folded(request: ClientRequest, events: list[Event]) -> bytes:
    """The completion a client gets that asked for no stream."""
    folder = CompletionFolder(request)
    for event in events:
        folder.feed(event)
    return dumps(folder.completion())


def _differences(streamed: dict[str, object], plain: dict[str, object]) -> list[str]:
    """Where the two forms of one answer say different things; usage is the client's choice in a stream."""
    return [
        f"answer: streamed {key} {value!r}, plain {plain[key]!r}"
        for key, value in streamed.items()
        if key != "usage" and value != plain[key]
    ]
