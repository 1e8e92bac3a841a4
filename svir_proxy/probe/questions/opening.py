"""The first questions: whether the server answers at all, how, and what its answers are made of.

The others lean on what is learned here: under which name the limit of tokens is read, how much room an answer needs,
whether the counts of prompt tokens can be trusted.
"""

from __future__ import annotations

import itertools
from typing import Final

from svir_proxy.probe.answer import Reading
from svir_proxy.probe.dialogue import (
    FEW,
    FILLER,
    HELLO,
    NO_EFFECT,
    NO_STREAM,
    Asking,
    Dialogue,
    Question,
    in_words,
    quoted,
    size,
    unknown,
)
from svir_proxy.probe.finding import Finding, NotInterviewed
from svir_proxy.probe.subject import MOST_ROOM, Subject

_LIMIT: Final = "request.max_tokens_field"
_TEMPERATURE: Final = "request.optional_fields.temperature"
_CARRIER: Final = "response.reasoning"
_PREOPENED: Final = "think_tags_preopened"
_STREAM: Final = "request.stream"
_USAGE: Final = "request.optional_fields.stream_options"
_CONTENT: Final = "response.content"
_SHORT: Final = 2
"""Tokens of an answer that is cut on purpose."""
_SMALL: Final = 16
"""Tokens that a server takes as a limit which takes no smaller one."""
_LETTERS: Final = 16
"""Of a long token."""
_CUTS: Final = 3
"""Pieces of text that show how a stream grows."""


def plain(subject: Subject) -> Dialogue:
    """The plainest request; NotInterviewed where even that is refused."""
    reading = yield from _first(subject)
    while reading.cut and not reading.text.strip() and subject.room < MOST_ROOM:
        subject.room *= 4
        reading = yield subject.ask(HELLO)
    carrier = _carrier(reading)
    if carrier.value == _PREOPENED:
        subject.learn(reasoning=_PREOPENED)
        reading = yield subject.ask(HELLO)
    subject.control, subject.control_tokens = reading.text, reading.completion_tokens
    subject.echoes = HELLO in reading.text
    subject.thinks = bool(reading.reasoning)
    if subject.cool:
        yield unknown(_TEMPERATURE, NO_EFFECT)
    else:
        yield Finding(_TEMPERATURE, "rejected", "temperature 0 is refused; without it the same request is answered")
    if subject.echoes:
        yield Finding(
            "echo", "yes", f"asked {quoted(HELLO)} it says {quoted(reading.text)}: what it says shows nothing"
        )
    yield Finding("answer", "yes", in_words(reading))
    yield carrier


def _first(subject: Subject) -> Asking[Reading]:
    """The first answer, with as few of the usual fields as it takes."""
    refusal = ""
    usual = subject.base.request.max_tokens_field
    for limit in dict.fromkeys(
        (usual if usual != "both" else "max_tokens", "max_completion_tokens", "max_tokens", None)
    ):
        for cool in (True, False):
            subject.limit, subject.cool = limit, cool
            reading = yield subject.ask(HELLO)
            if not reading.refused:
                return reading
            refusal = refusal or reading.words
            if reading.kind == "model_not_found":
                raise NotInterviewed(f"the server has no model {subject.model!r} ({refusal}); name one with --model")
    raise NotInterviewed(f"the server refuses even the plainest request: {refusal}")


def _carrier(reading: Reading) -> Finding:
    said = reading.raw.said
    if "</think>" in said and "<think>" not in said.partition("</think>")[0]:
        return Finding(_CARRIER, _PREOPENED, f"the answer has </think> and no <think>: {quoted(said)}")
    if "<think>" in said:
        return Finding(_CARRIER, "field", "reasoning comes between think tags, both of them in the content")
    if reading.raw.reasoning_keys:
        return Finding(_CARRIER, "field", f"reasoning comes as {', '.join(sorted(reading.raw.reasoning_keys))}")
    return unknown(_CARRIER, "the model did not reason")


def streamed(subject: Subject) -> Dialogue:
    """A stream: whether it is one, and how its pieces are cut."""
    reading = yield subject.ask(HELLO, stream=True)
    if reading.refused:
        yield Finding(_STREAM, "never", reading.words)
        return
    if not reading.raw.streamed:
        yield Finding(_STREAM, "never", "asked for a stream, it sent one JSON object")
        return
    texts = reading.raw.texts
    if subject.local:
        yield Finding(_STREAM, "always", f"it streams, in {len(texts)} pieces; a server in one's own network")
    else:
        yield Finding(_STREAM, "as_client", f"it streams, in {len(texts)} pieces")
    yield Finding("stream", "pieces", _shape(reading))
    if len(texts) < _CUTS:
        yield unknown(_CONTENT, f"the answer came in {len(texts)} pieces")
    elif all(later.startswith(earlier) for earlier, later in itertools.pairwise(texts)):
        subject.learn(content="cumulative")
        yield Finding(_CONTENT, "cumulative", f"each piece repeats the text so far: {quoted(reading.raw.said)}")
    else:
        yield Finding(_CONTENT, "incremental", f"{len(texts)} pieces, each with new text")


def _shape(reading: Reading) -> str:
    ends = "[DONE] at the end" if reading.raw.done else "no [DONE]"
    comments = f"{reading.raw.comments} keep-alive comments" if reading.raw.comments else "no keep-alive comments"
    return f"{comments}; {ends}; usage {'comes unasked' if reading.raw.usage else 'only when asked for'}"


def usage(subject: Subject) -> Dialogue:
    """Usage in a stream."""
    for _ in range(2):
        reading = yield subject.ask(HELLO, stream=True, stream_options={"include_usage": True})
        if reading.refused:
            yield Finding(_USAGE, "rejected", reading.words)
            return
        if not reading.raw.streamed:
            yield unknown(_USAGE, NO_STREAM)
            return
        if reading.prompt_tokens is not None:
            yield Finding(_USAGE, "kept", "a report of usage came")
            return
    yield Finding(_USAGE, "ignored", "asked for twice, no report of usage came")


def counts(subject: Subject) -> Dialogue:
    """Whether the count of prompt tokens tells what became part of the prompt."""
    for least in (1, _SMALL, subject.room):
        subject.least = least
        short = yield from size(subject, HELLO)
        if not short.refused:
            break
    long = yield from size(subject, f"{FILLER}{HELLO}")
    if short.refused or long.refused or short.prompt_tokens is None or long.prompt_tokens is None:
        yield Finding("counts", "no", "the server does not say how long a prompt is: the answers alone have to tell")
        return
    rise = long.prompt_tokens - short.prompt_tokens
    subject.counts = rise > 2 * FEW
    yield Finding(
        "counts", "yes" if subject.counts else "no", f"{len(FILLER.split())} words more are {rise} prompt tokens more"
    )


def limits(subject: Subject) -> Dialogue:
    """Which name for the limit of output tokens is read."""
    if subject.limit is None:
        yield unknown(_LIMIT, "a request with either name is refused")
        return
    short = max(_SHORT, subject.least)
    read: dict[str, str] = {}
    for name in ("max_tokens", "max_completion_tokens"):
        ask = subject.ask(HELLO)
        body = {key: value for key, value in ask.body.items() if key != subject.limit}
        reading = yield type(ask)({**body, name: short})
        if reading.refused:
            read[name] = "rejected"
        else:
            read[name] = "kept" if _is_short(subject, reading, short) else "ignored"
    told = ", ".join(f"{name} {fate}" for name, fate in read.items())
    usual = subject.base.request.max_tokens_field
    names = [name for name in (usual, *read) if read.get(name) == "kept"]
    if not names:
        yield unknown(_LIMIT, told)
        return
    subject.limit = names[0]
    yield Finding(_LIMIT, names[0], told)


def _is_short(subject: Subject, reading: Reading, limit: int) -> bool:
    """Whether a limit of so many tokens ended the answer, and not one of the server's own."""
    if reading.completion_tokens is None:
        return reading.cut and len(reading.text) + len(reading.reasoning) <= _LETTERS * limit
    longer = subject.control_tokens is None or subject.control_tokens > limit + 1
    return reading.completion_tokens <= limit + 1 and (reading.cut or longer)


OPENING: Final = (
    Question("a plain answer", ("answer", _CARRIER, _TEMPERATURE), plain),
    Question("a stream", (_STREAM, _CONTENT), streamed),
    Question("usage in a stream", (_USAGE,), usage),
    Question("counted tokens", ("counts",), counts),
    Question("limits of tokens", (_LIMIT,), limits),
)
