"""How the server words its errors; a wording that the proxy would misjudge becomes a rule.

What costs most, or could cost the server most, is asked last: a prompt beyond the context, a model that is none.
"""

from __future__ import annotations

import re
from typing import Any, Final

from svir_proxy.probe.answer import Reading
from svir_proxy.probe.dialogue import HELLO, Dialogue, Question, in_words, unknown
from svir_proxy.probe.finding import Finding
from svir_proxy.probe.subject import Subject

MODEL: Final = "request.model"
RULES: Final = "errors"
OVERFLOW: Final = "overflow"
NO_SUCH_MODEL: Final = "svir-probe-no-such-model"

_LOADS: Final = re.compile(r"\bload|download|hugging ?face|repo(?:sitory)?\b|snapshot|pull", re.IGNORECASE)
_ABOUT_LENGTH: Final = re.compile(r"context|token|length|long|large|window|exceed|limit", re.IGNORECASE)
_WORD: Final = "harbour "
_BEYOND: Final = 1.2
_LONGEST: Final = 40_000
"""Words that are sent at most: more would be a long time on a server that reads them all."""
_UNTOLD: Final = 20_000
"""Words that are sent where the server does not say how long a prompt may be."""


def shape(subject: Subject) -> Dialogue:
    """A request that no server can work with."""
    ask = subject.ask(HELLO)
    reading = yield type(ask)({**ask.body, "messages": [{"role": "user", "content": 7}]})
    if reading.refused:
        yield Finding("refusal", "in words", reading.words)
    else:
        yield Finding("refusal", "none", f"a number as content is answered: {in_words(reading)}")


def overflow(subject: Subject) -> Dialogue:
    """A prompt that is too long; only of a server in one's own network, where it costs nothing."""
    if not subject.local:
        yield unknown(OVERFLOW, "not asked: a server that may charge for it")
        return
    words = min(round(_BEYOND * subject.context), _LONGEST) if subject.context else _UNTOLD
    if subject.context and words < subject.context:
        yield unknown(OVERFLOW, f"not asked: {subject.context} tokens of context are too many to fill")
        return
    ask = subject.ask(_WORD * words, room=subject.least, stream=True, leave=True)
    reading = yield ask
    if not reading.refused:
        yield unknown(OVERFLOW, f"{words} words are answered: {in_words(reading)}")
    elif reading.kind == "context_length_exceeded":
        yield Finding(OVERFLOW, "told", reading.words)
    elif _ABOUT_LENGTH.search(reading.message):
        yield Finding(OVERFLOW, "told", reading.words)
        yield Finding(RULES, [rule(reading, "context_length_exceeded")], f"{words} words: {reading.words}")
    else:
        yield unknown(OVERFLOW, f"{words} words: {reading.words}")


def rule(reading: Reading, kind: str, *variable: str) -> dict[str, Any]:
    """A rule for this wording; numbers, and the texts in *variable*, may be others next time."""
    pattern = re.escape(reading.message[:200].strip())
    for text in variable:
        pattern = pattern.replace(re.escape(text), ".+")
    pattern = re.sub(r"\\ ", " ", re.sub(r"\d+", r"\\d+", pattern))
    return {"when": {"status": reading.status, "message": pattern}, "then": kind}


def other_model(subject: Subject) -> Dialogue:
    """A model that is none; not asked of a kind of server that loads whatever a request names."""
    if subject.base.request.model == "loads":
        yield unknown(MODEL, f"not asked: {subject.base.server} loads the model that a request names")
        return
    ask = subject.ask(HELLO, room=subject.least)
    reading = yield type(ask)({**ask.body, "model": NO_SUCH_MODEL})
    if not reading.refused:
        yield Finding(MODEL, "any", f"{NO_SUCH_MODEL} is answered by {reading.raw.model!r}")
        return
    value = "loads" if _LOADS.search(reading.message) else "listed"
    yield Finding(MODEL, value, reading.words)
    if reading.kind != "model_not_found" and re.search(f"model|{NO_SUCH_MODEL}", reading.message, re.IGNORECASE):
        yield Finding(RULES, [rule(reading, "model_not_found", NO_SUCH_MODEL)], reading.words)


ABOUT_ERRORS: Final = (
    Question("the shape of an error", ("refusal",), shape),
    Question("a model that is none", (MODEL,), other_model),
    Question("a prompt that is too long", (OVERFLOW,), overflow),
)
