"""Errors: one envelope, the status and the code that a client acts on, the words it looks for."""

from __future__ import annotations

from typing import Final

from svir_proxy.conform.questions import NO_MODEL
from svir_proxy.conform.reading import Reading
from svir_proxy.conform.rules.rule import (
    KEPT,
    NOT_SHOWN,
    Judge,
    Rule,
    Verdict,
    in_answers_of,
    in_answers_to,
    of_the_checker,
)

MAXIMUM: Final = "maximum context length"
LONGEST_WAIT: Final = 60
_REJECTED: Final = (400, 401, 404, 413, 415)
_NEVER: Final = (400, 401, 403, 404)
"""What no repetition cures."""
_LONG: Final = ("too long", "too long, streamed")


def _status(*wanted: int) -> Judge:
    def judge(reading: Reading) -> Verdict:
        status = reading.exchange.status
        return KEPT if status in wanted else f"status {status}, not {wanted[0]}"

    return judge


def _code(*wanted: str) -> Judge:
    """The code, where the request was refused; that it was is another rule."""

    def judge(reading: Reading) -> Verdict:
        if reading.kind != "error":
            return NOT_SHOWN
        code = reading.error.get("code")
        return KEPT if code in wanted else f"code is {code!r}, not {wanted[0]!r}"

    return judge


def _too_long(reading: Reading) -> Verdict:
    """A server may have room for it all the same, or shorten what it gets."""
    return NOT_SHOWN if reading.answered or reading.committed else _status(400)(reading)


def _words(reading: Reading) -> Verdict:
    if reading.kind != "error":
        return NOT_SHOWN
    return KEPT if MAXIMUM in str(reading.error.get("message")) else f"the message lacks the words {MAXIMUM!r}"


def _image(reading: Reading) -> Verdict:
    if reading.answered or reading.committed:
        return NOT_SHOWN
    status, code = reading.exchange.status, reading.error.get("code")
    right = status == 400 and code == "image_not_supported"
    return KEPT if right else f"status {status}, code {code!r}, not 400, image_not_supported"


def _unknown_model(reading: Reading) -> Verdict:
    """A server with one model may take any name; then the answer says which one it was."""
    status, code = reading.exchange.status, reading.error.get("code")
    if reading.answered:
        told = reading.document.get("model")
        return KEPT if told != NO_MODEL else f"the answer says that {NO_MODEL} gave it"
    return (
        KEPT
        if (status, code) == (404, "model_not_found")
        else f"status {status}, code {code!r}, not 404, model_not_found"
    )


def _type(reading: Reading) -> Verdict:
    value = reading.exchange.headers.get("content-type", "")
    return KEPT if value.split(";")[0].strip().lower() == "application/json" else f"content-type is {value!r}"


def _kind(reading: Reading) -> Verdict:
    if reading.exchange.status not in _REJECTED:
        return NOT_SHOWN
    kind = reading.error.get("type")
    return KEPT if kind == "invalid_request_error" else f"type is {kind!r}, not 'invalid_request_error'"


def _final(reading: Reading) -> Verdict:
    if reading.exchange.status not in _NEVER:
        return NOT_SHOWN
    value = reading.exchange.headers.get("x-should-retry")
    return KEPT if value == "false" else f"x-should-retry is {value!r}"


def _wait(reading: Reading) -> Verdict:
    if reading.exchange.status not in (429, 503):
        return NOT_SHOWN
    value = reading.exchange.headers.get("retry-after", "")
    return KEPT if value.isdigit() and int(value) <= LONGEST_WAIT else f"retry-after is {value!r}"


def _refused(name: str, question: str, demands: str, *statuses: int) -> Rule:
    return Rule(name, "errors", demands, in_answers_to(question, judge=_status(*statuses)))


ERRORS: Final = (
    Rule("error-type", "errors", "the content type of an error is application/json",
         in_answers_of("error", judge=_type)),
    Rule("error-json", "errors", "an error is one JSON object", of_the_checker("error", rule="json")),
    Rule("error-shape", "errors", "an error has message, type, param and code, and no more",
         of_the_checker("error", rule="schema")),
    Rule("error-kind", "errors", "what the client did wrong has the type invalid_request_error",
         in_answers_of("error", judge=_kind)),
    Rule("error-final", "errors", "an error that no repetition cures has x-should-retry: false",
         in_answers_of("error", judge=_final)),
    Rule("error-wait", "errors", "429 and 503 say in Retry-After when to come back",
         in_answers_of("error", judge=_wait)),
    _refused("broken-json", "broken JSON", "a body that is no JSON is refused with 400", 400),
    Rule("broken-json-code", "errors", "and its code is invalid_json",
         in_answers_to("broken JSON", judge=_code("invalid_json"))),
    _refused("no-object", "no JSON object", "a body that is no JSON object is refused with 400", 400),
    _refused("no-messages", "no messages", "a request without messages is refused with 400", 400),
    _refused("empty-messages", "empty messages", "a request with no message is refused with 400", 400),
    _refused("text-messages", "messages of text", "messages that are no list are refused with 400", 400),
    _refused("unknown-path", "unknown path", "an unknown path is 404", 404),
    _refused("wrong-method", "wrong method", "a method that a path has not is 404 or 405", 404, 405),
    _refused("wrong-key", "wrong key", "a wrong key is refused with 401", 401),
    Rule("wrong-key-code", "errors", "and the code is invalid_api_key",
         in_answers_to("wrong key", judge=_code("invalid_api_key"))),
    Rule("unknown-model", "errors", "an unknown model is 404 model_not_found, or the answer says which one gave it",
         in_answers_to("unknown model", judge=_unknown_model)),
    Rule("image", "errors", "an image that the model cannot take is refused with 400 image_not_supported",
         in_answers_to("image", "image, streamed", judge=_image)),
    Rule("too-long", "errors", "a prompt that is too long is refused with 400", in_answers_to(*_LONG, judge=_too_long)),
    Rule("too-long-code", "errors", "and the code is context_length_exceeded",
         in_answers_to(*_LONG, judge=_code("context_length_exceeded"))),
    Rule("too-long-words", "errors", f'and the message has the words "{MAXIMUM}"', in_answers_to(*_LONG, judge=_words)),
)  # fmt: skip
