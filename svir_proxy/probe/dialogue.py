"""How questions are asked: generators that yield what to ask and what was found, and get the reading of each answer.

A dialogue never sees a failure: what was not answered ends it with `NoAnswer`. A refusal it sees was repeated once by
the interview. So what is left to decide here is what an answer means.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, TypeVar

from svir_proxy.probe.answer import Ask, Reading
from svir_proxy.probe.finding import UNKNOWN, Finding
from svir_proxy.probe.subject import Messages, Subject, said

_T = TypeVar("_T")
Asking: TypeAlias = Generator[Ask | Finding, Reading, _T]
"""A part of a dialogue with a result."""
Dialogue: TypeAlias = Asking[None]

HELLO: Final = "Say hello."
HELLOS: Final = (HELLO, "Greet me in one short sentence.", "Wish me a good morning in a few words.")
"""What nobody needs a tool, or JSON, for."""
FILLER: Final = "The quiet harbour lies between two hills, and small boats come home in the evening light. " * 2
"""Some forty tokens for every tokenizer."""
FEW: Final = 3
"""Tokens that a template may spend on anything."""
NO_STREAM: Final = "a stream was asked for, and none came"
NO_EFFECT: Final = "taken; what it does no answer shows"
_TWICE: Final = 2
_EXCERPT: Final = 80


@dataclass(frozen=True, slots=True)
class Question:
    """A dialogue, and the facts that it is about."""

    title: str
    facts: tuple[str, ...]
    ask: Callable[[Subject], Dialogue]


def rejected(fact: str, reading: Reading) -> Finding:
    """The finding that the server refused twice."""
    return Finding(fact, "rejected", reading.words)


def unknown(fact: str, why: str) -> Finding:
    """The finding that it does not show."""
    return Finding(fact, UNKNOWN, why)


def taken(fact: str, ask: Ask, value: str, evidence: str) -> Dialogue:
    """*value* for an answer, whatever it says; rejected for a refusal."""
    reading = yield ask
    yield rejected(fact, reading) if reading.refused else Finding(fact, value, evidence)


def size(subject: Subject, messages: str | Messages, **fields: Any) -> Asking[Reading]:
    """The reading of a request that is only asked for the length of its prompt."""
    reading = yield subject.ask(said(messages), room=subject.least, **fields)
    return reading


def gained(subject: Subject, more: Reading, less: Reading) -> int | None:
    """How many tokens *more*'s prompt is longer than *less*'s; None where the server does not count."""
    if not subject.counts or more.prompt_tokens is None or less.prompt_tokens is None:
        return None
    return more.prompt_tokens - less.prompt_tokens


Judgement: TypeAlias = bool | None
"""Whether an answer honours a demand; None: it shows neither."""


def demand(fact: str, asks: Iterable[Ask], honours: Callable[[Reading], Judgement]) -> Asking[str]:
    """Asks until the answers agree: kept or ignored for two that say the same and none that says otherwise.

    Yields the finding, and returns its value.
    """
    kept: list[str] = []
    broken: list[str] = []
    vague: list[str] = []
    for ask in asks:
        reading = yield ask
        if reading.refused:
            yield rejected(fact, reading)
            return "rejected"
        verdict = honours(reading)
        (vague if verdict is None else kept if verdict else broken).append(in_words(reading))
        if len(kept) >= _TWICE and not broken:
            break
    times = len(kept) + len(broken) + len(vague)
    if len(kept) >= _TWICE and not broken:
        value, why = "kept", f"{len(kept)} of {times} tries: {kept[0]}"
    elif len(broken) >= _TWICE:
        value, why = "ignored", f"{len(broken)} of {times} tries: {broken[0]}"
    else:
        seen = "; ".join(dict.fromkeys((*kept, *broken, *vague)))
        value, why = UNKNOWN, f"{times} tries do not tell: {seen}"
    yield Finding(fact, value, why)
    return value


def in_words(reading: Reading) -> str:
    """An answer, for people."""
    if reading.refused:
        return reading.words
    if reading.calls:
        made = ", ".join(f"{call.name}({call.arguments})" for call in reading.calls)
        return f"{'text of ' if reading.written else ''}a call {excerpt(made)}"
    parts = [f"text {quoted(reading.text)}"] if reading.text.strip() else []
    if not parts:
        parts = ["reasoning alone"] if reading.reasoning else ["nothing"]
    if reading.finish not in (None, "stop"):
        parts.append(f"finished with {reading.finish}")
    return ", ".join(parts)


def quoted(text: str) -> str:
    """The beginning of *text*, in quotes."""
    return json.dumps(excerpt(text), ensure_ascii=False)


def excerpt(text: str) -> str:
    """The beginning of *text*, on one line."""
    line = " ".join(text.split())
    return line if len(line) <= _EXCERPT else f"{line[:_EXCERPT]}…"
