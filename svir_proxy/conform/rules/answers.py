"""Answers that are not streamed."""

from __future__ import annotations

from typing import Final

from svir_proxy.conform.reading import Reading
from svir_proxy.conform.rules.rule import (
    KEPT,
    NOT_SHOWN,
    Rule,
    Verdict,
    foreign_keys,
    in_answers_of,
    in_answers_to,
    of_the_checker,
    shapes,
)


def _answered(reading: Reading) -> Verdict:
    if reading.kind == "completion" and reading.document.get("choices"):
        return KEPT
    return f"status {reading.exchange.status}, no choice"


def _type(reading: Reading) -> Verdict:
    value = reading.exchange.headers.get("content-type", "")
    return KEPT if value.split(";")[0].strip().lower() == "application/json" else f"content-type is {value!r}"


def _content(reading: Reading) -> Verdict:
    """A text of the model where it had room for one."""
    if not reading.answered or reading.was_cut:
        return NOT_SHOWN
    return KEPT if reading.said["content"] else "the answer has no text"


def _null(reading: Reading) -> Verdict:
    if not reading.calls or reading.said["content"]:
        return NOT_SHOWN
    message = reading.document["choices"][0]["message"]
    return KEPT if message.get("content", "absent") is None else f"content is {message.get('content', 'absent')!r}"


ANSWERS: Final = (
    Rule("answer-answered", "answers", "a request for a plain answer gets one",
         in_answers_to("plain", judge=_answered)),
    Rule("answer-type", "answers", "its content type is application/json", in_answers_of("completion", judge=_type)),
    Rule("answer-json", "answers", "it is one JSON object", of_the_checker("completion", rule="json")),
    Rule("answer-duplicate", "answers", "no object in it has a key twice",
         of_the_checker("completion", rule="json-duplicate")),
    Rule("answer-shape", "answers", "it has all of its keys, each with its kind of value",
         of_the_checker("completion", rule="schema", of=shapes)),
    Rule("answer-foreign", "answers", "it has no key that OpenAI's have not, but for reasoning_content",
         of_the_checker("completion", rule="schema", of=foreign_keys)),
    Rule("answer-content", "answers", "what the model says is its content", in_answers_to("plain", judge=_content)),
    Rule("answer-null", "answers", "content is null where there are only calls",
         in_answers_of("completion", judge=_null)),
)  # fmt: skip
