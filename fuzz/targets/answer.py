"""The body of a 200: the whole way down, held answers included, is canonical for every profile and every request."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from random import Random
from typing import Any, Final

from fuzz.controls import Controls, chosen
from fuzz.reference import plain_text
from fuzz.targets.circumstances import (
    PROFILES,
    REQUESTS,
    numbers,
    position_of_profile,
    position_of_request,
    position_of_tools,
)
from svir_proxy.client_request import ClientRequest
from svir_proxy.conform.cases import load_cases
from svir_proxy.errors import ProxyError
from svir_proxy.profiles.schema import Profile
from svir_proxy.request import rewrite_request
from svir_proxy.request.correct import correct
from svir_proxy.response.events import ContentDelta, Event, ExtrasReported, Failed
from svir_proxy.response.json_text import dumps
from svir_proxy.response.normalizer import Limits
from svir_proxy.server.answer import Source
from svir_proxy.server.held_answer import HeldAnswer
from tests.response.stages.text_calls import test_channel_forms, test_json_forms, test_python_forms, test_tagged_forms
from tests.support.core import normalize, violations, written
from tests.support.mutations import cut_up

_LIMITS: Final = [Limits(), Limits(), Limits(), Limits(event_bytes=2000, answer_bytes=2000, held_characters=100)]


_FORMS: Final = (test_channel_forms, test_json_forms, test_python_forms, test_tagged_forms)
_EVENT: Final = b'data: {"choices":[{"index":0,"delta":{"content":%b}}]}\n\n'
_END: Final = b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
_USUAL: Final = PROFILES[0].response.reasoning
"""How the text of all but a few profiles is read: with the block of reasoning opened by the model, if at all."""


def check(data: bytes) -> str:
    """Raises where *data* breaks the core; otherwise how the answer ended, for the figures."""
    controls, body = Controls.split(data)
    profile, request = controls.pick(PROFILES), controls.pick(REQUESTS)
    circumstances = controls.number()
    clean, limits = circumstances % 4 != 1, _LIMITS[circumstances >> 2 & 3]
    events = normalize(request, profile, [body], clean=clean, limits=limits)
    _accept(request, events)
    cut = cut_up(Random(controls.number()), body)
    again = normalize(request, profile, cut, clean=clean, limits=limits)
    assert again == events, f"cut as {cut}: {again}, whole: {events}"
    if circumstances & 16:
        _check_extras(request, profile, body, events, clean=clean, limits=limits)
    _check_text(profile, body, events, limits)
    if not isinstance(events[-1], Failed):
        _check_held(request, profile, events)
        return "answer"
    return events[-1].error.kind


def seeds() -> Iterator[bytes]:
    """The recorded bodies, each with its own profile and a request like its own; then every form of a call as text."""
    for case in load_cases():
        if case.response["status"] == 200:
            cut = 1 if case.response.get("cut") else 0
            yield chosen(position_of_profile(case), *numbers(position_of_request(case)), cut) + case.body
    forms = (form for module in _FORMS for form in (*(text for text, *_ in module.CALLS.values()), *_texts(module)))
    for number, text in enumerate(forms):
        pieces = (text[at : at + 9] for at in range(0, len(text), 9))
        body = b"".join(_EVENT % json.dumps(piece).encode() for piece in pieces)
        yield chosen(number % len(PROFILES), *numbers(position_of_tools())) + body + _END


def _texts(module: Any) -> Iterator[str]:
    """What looks like a call and is none."""
    return (value if isinstance(value, str) else value[0] for value in module.TEXTS.values())


def _accept(request: ClientRequest, events: list[Event]) -> None:
    found = violations(request, events)
    assert not found, "\n".join(found)


def _check_text(profile: Profile, body: bytes, events: list[Event], limits: Limits) -> None:
    """Of a plain stream nothing is invented, and nothing is lost without an error."""
    if limits != Limits() or profile.response.content == "cumulative" or profile.response.reasoning != _USUAL:
        return
    text = plain_text(body)
    if text is not None:
        said = "".join(event.text for event in events if isinstance(event, ContentDelta))
        failed = isinstance(events[-1], Failed)
        assert text.startswith(said) if failed else text == said, f"text: {said!r}, not {text!r}"


def _check_extras(
    request: ClientRequest, profile: Profile, body: bytes, events: list[Event], *, clean: bool, limits: Limits
) -> None:
    """What is outside of the protocol comes beside the answer and changes nothing in it."""
    more = normalize(request, profile, [body], clean=clean, limits=limits, extras=True)
    assert [event for event in more if not isinstance(event, ExtrasReported)] == events
    for line in written(request, more).split(b"\n\n"):
        if line.startswith(b"data: {"):
            json.loads(line[6:])


def _check_held(request: ClientRequest, profile: Profile, events: list[Event]) -> None:
    """An answer that the request makes a demand on is canonical as it is let out, and its repeat can be sent."""
    try:
        rewritten = rewrite_request(request, profile, "m")
    except ProxyError:
        return
    if rewritten.expectation is None:
        return
    out = _Collected()
    held = HeldAnswer(out, rewritten.expectation)
    held.take(events)
    problem = held.unmet()
    held.release()
    _accept(request, out.events)
    if problem is not None and not held.is_cut:
        body = correct(rewritten.body, rewritten.expectation, request, profile, problem=problem, said=held.text)
        json.loads(dumps(body))


class _Collected:
    """An `Answer` that keeps the events."""

    gathers = True
    has_output = False

    def __init__(self) -> None:
        self.events: list[Event] = []

    def take(self, events: Sequence[Event]) -> None:
        self.events += events

    def tick(self, now: float) -> float:
        return now

    def begin_source(self, source: Source) -> None:
        pass

    def end_source(self, silence: float | None = None) -> None:
        pass
