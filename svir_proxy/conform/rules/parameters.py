"""Parameters of the request: those that change the answer do, and those that need not are no reason to refuse."""

from __future__ import annotations

from typing import Final

from svir_proxy.conform.questions import LIMIT
from svir_proxy.conform.reading import Reading
from svir_proxy.conform.rules.rule import KEPT, NOT_SHOWN, Rule, Verdict, in_answers_to

_LIMITS: Final = ("max_tokens", "max_completion_tokens")


def _tokens(reading: Reading) -> int | None:
    tokens = (reading.said["usage"] or {}).get("completion_tokens")
    return tokens if isinstance(tokens, int) else None


def _limited(reading: Reading) -> Verdict:
    if not reading.answered:
        return f"status {reading.exchange.status}"
    tokens = _tokens(reading)
    if tokens is None:
        return KEPT if reading.said["finish_reason"] == "length" else NOT_SHOWN
    return KEPT if tokens <= LIMIT else f"{tokens} tokens, where {LIMIT} were the limit"


def _length(reading: Reading) -> Verdict:
    if not reading.answered or _tokens(reading) != LIMIT:
        return NOT_SHOWN
    reason = reading.said["finish_reason"]
    return KEPT if reason == "length" else f"the limit ended the answer, and finish_reason is {reason!r}"


def _stopped(reading: Reading) -> Verdict:
    if not reading.answered:
        return f"status {reading.exchange.status}"
    (word,) = reading.request["stop"]
    if word in reading.said["content"]:
        return f"the answer goes on past the stop word {word!r}"
    return NOT_SHOWN if reading.was_cut else KEPT


def _taken(reading: Reading) -> Verdict:
    return KEPT if reading.answered else f"status {reading.exchange.status}"


def _two(reading: Reading) -> Verdict:
    """The proxy refuses it, OpenAI gives two; one without a word is what nobody asked for."""
    if reading.exchange.refused:
        status = reading.exchange.status
        return KEPT if status == 400 else f"status {status}, not 400"
    choices = reading.document.get("choices")
    number = len(choices) if isinstance(choices, list) else 0
    return KEPT if number == 2 else f"{number} of two choices, and nothing says so"


PARAMETERS: Final = (
    Rule("limit-max-tokens", "parameters", "max_tokens is kept", in_answers_to("max_tokens", judge=_limited)),
    Rule("limit-max-completion-tokens", "parameters", "max_completion_tokens is kept",
         in_answers_to("max_completion_tokens", judge=_limited)),
    Rule("limit-finish", "parameters", "an answer that a limit ended says length",
         in_answers_to(*_LIMITS, judge=_length)),
    Rule("stop", "parameters", "a stop word ends the answer, and is not in it", in_answers_to("stop", judge=_stopped)),
    Rule("stop-stream", "parameters", "a stop word ends the answer, and is not in it, streamed",
         in_answers_to("stop, streamed", judge=_stopped)),
    Rule("optional-fields", "parameters", "fields with their usual values are taken",
         in_answers_to("optional fields", judge=_taken)),
    Rule("null-fields", "parameters", "fields that are null are taken", in_answers_to("null fields", judge=_taken)),
    Rule("developer", "parameters", "the role developer is taken", in_answers_to("developer", judge=_taken)),
    Rule("content-parts", "parameters", "content as a list of text parts is taken",
         in_answers_to("content parts", judge=_taken)),
    Rule("two-choices", "parameters", "two choices are refused, or there are two",
         in_answers_to("two choices", judge=_two)),
)  # fmt: skip
