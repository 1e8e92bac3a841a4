"""Streams: their headers, their framing, and the order of what is in them."""

from __future__ import annotations

from typing import Final

from svir_proxy.conform.dialect import DONE, RULES
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

_WHOLE: Final = (
    "framing-bom", "framing-utf8", "framing-cr", "framing-line", "framing-event", "json", "json-duplicate",
    "end-missing",
)  # fmt: skip
"""Rules of the checker that every stream shows."""
_CHUNKS: Final = ("id-constant", "model-constant", "created-constant", "role-first", "role-once")
_FINISH: Final = ("finish-missing", "finish-once", "finish-delta", "finish-last")


def _answered(reading: Reading) -> Verdict:
    if reading.kind == "stream" and reading.choices:
        return KEPT
    return f"status {reading.exchange.status}, no chunk with a choice"


def _header(name: str, wanted: str, *also: str) -> Rule:
    def judge(reading: Reading) -> Verdict:
        value = reading.exchange.headers.get(name)
        return KEPT if value in (wanted, *also) else f"{name} is {value!r}"

    return Rule(
        f"stream-{name}", "streams", f"a stream has the header {name}: {wanted}", in_answers_of("stream", judge=judge)
    )


def _first(reading: Reading) -> Verdict:
    delta = reading.choices[0].get("delta") if reading.choices else None
    if not isinstance(delta, dict) or "role" not in delta:
        return NOT_SHOWN  # role-first has it
    return KEPT if delta == {"role": "assistant", "content": ""} else f"the first delta is {delta}"


def _empty(reading: Reading) -> Verdict:
    later = reading.choices[1:]
    empty = [choice for choice in later if choice.get("delta") == {} and choice.get("finish_reason") is None]
    return f"{len(empty)} of {len(later)} later deltas say nothing" if empty else KEPT if later else NOT_SHOWN


def _blank(reading: Reading) -> Verdict:
    later = [choice.get("delta") for choice in reading.choices[1:]]
    for delta in later:
        blank = [key for key, value in delta.items() if value in (None, "", [])] if isinstance(delta, dict) else []
        if blank:
            return f"the delta {delta} says nothing under {', '.join(blank)}"
    return KEPT if later else NOT_SHOWN


def _logprobs(reading: Reading) -> Verdict:
    if not reading.choices:
        return NOT_SHOWN
    return KEPT if all("logprobs" in choice for choice in reading.choices) else "a choice has no key logprobs"


def _early(reading: Reading) -> Verdict:
    if reading.kind == "error":
        return KEPT if reading.exchange.request.streamed else NOT_SHOWN
    if reading.said["error"] is None or reading.committed:
        return NOT_SHOWN
    return NOT_SHOWN if reading.said["partial"] else f"status {reading.exchange.status} and an error before any output"


STREAMS: Final = (
    Rule("stream-answered", "streams", "a request for a stream is answered with one",
         in_answers_to("stream", "stream with usage", judge=_answered)),
    _header("content-type", "text/event-stream; charset=utf-8", "text/event-stream;charset=utf-8"),
    _header("cache-control", "no-cache"),
    _header("x-accel-buffering", "no"),
    *(Rule(name, "streams", RULES[name], of_the_checker("stream", rule=name)) for name in _WHOLE),
    Rule("chunk-shape", "streams", "a chunk has all of its keys, each with its kind of value",
         of_the_checker("stream", rule="schema", shows=lambda reading: bool(reading.chunks), of=shapes)),
    Rule("chunk-foreign", "streams", "a chunk has no key that OpenAI's have not, but for reasoning_content",
         of_the_checker("stream", rule="schema", shows=lambda reading: bool(reading.chunks), of=foreign_keys)),
    Rule("chunk-logprobs", "streams", "each choice has the key logprobs, null where there are none",
         in_answers_of("stream", judge=_logprobs)),
    *(Rule(name, "streams", RULES[name], of_the_checker("stream", rule=name, shows=lambda r: bool(r.chunks)))
      for name in _CHUNKS),
    Rule("delta-first", "streams", 'the first delta is {"role":"assistant","content":""}',
         in_answers_of("stream", judge=_first)),
    Rule("delta-empty", "streams", "no later delta is empty, but for the one beside the finish reason",
         in_answers_of("stream", judge=_empty)),
    Rule("delta-blank", "streams", "no later delta has a key with nothing in it",
         in_answers_of("stream", judge=_blank)),
    *(Rule(name, "streams", RULES[name], of_the_checker("stream", rule=name, shows=lambda r: r.said["error"] is None))
      for name in _FINISH),
    Rule("end-done", "streams", RULES["end-done"],
         of_the_checker("stream", rule="end-done", shows=lambda reading: DONE in reading.events)),
    Rule("end-error", "streams", RULES["end-error"],
         of_the_checker("stream", rule="end-error", shows=lambda reading: reading.said["error"] is not None)),
    Rule("error-early", "streams", "a failure before any output has an HTTP status of its own, streamed or not",
         in_answers_of("stream", "error", judge=_early)),
)  # fmt: skip
