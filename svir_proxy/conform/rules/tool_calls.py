"""Tool calls: their form, their order, and that ``tool_choice`` is kept."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from svir_proxy.conform.dialect import RULES
from svir_proxy.conform.interview import Interview
from svir_proxy.conform.questions import HISTORY_ID, NAMED
from svir_proxy.conform.reading import Reading
from svir_proxy.conform.rules.rule import (
    KEPT,
    NOT_SHOWN,
    Look,
    Rule,
    Verdict,
    in_answers_of,
    in_answers_to,
    in_calls,
    of_the_checker,
)

MARKERS: Final = ("<tool_call>", "<function=", "[TOOL_CALLS]", "<|tool_call", "<|python_tag|>")


def _calls(reading: Reading) -> bool:
    return bool(reading.calls)


def _both(question: str) -> tuple[str, str]:
    return question, f"{question}, streamed"


def _apart(reading: Reading) -> Verdict:
    """Two clients corrupt calls whose pieces are mixed."""
    if len(reading.calls) < 2:
        return NOT_SHOWN
    last = -1
    for choice in reading.choices:
        delta = choice.get("delta")
        for piece in (delta.get("tool_calls") or []) if isinstance(delta, dict) else []:
            index = piece.get("index") if isinstance(piece, dict) else None
            if isinstance(index, int) and index < last:
                return f"a piece of call {index} comes after call {last} has begun"
            last = index if isinstance(index, int) else last
    return KEPT


def _as_text(reading: Reading) -> Verdict:
    if found := [marker for marker in MARKERS if marker in reading.said["content"]]:
        return f"a call is left in the content as {found[0]}"
    return KEPT if reading.calls else NOT_SHOWN


def _none(question: str, without: str) -> Look:
    """Nothing is shown by a model that does not call either when it may: *without* is that question."""

    def look(interview: Interview) -> Iterator[str]:
        may = interview.readings.get(without)
        if may is not None and may.calls:
            yield from in_answers_to(question, judge=_no_call)(interview)

    return look


def _no_call(reading: Reading) -> Verdict:
    if not reading.answered:
        return f"status {reading.exchange.status}"
    return f"the model called {reading.calls[0]['name']}" if reading.calls else KEPT


def _demanded(reading: Reading) -> Verdict:
    if not reading.answered:
        return f"status {reading.exchange.status}"
    if reading.calls:
        return KEPT
    return NOT_SHOWN if reading.was_cut or reading.told_unmet else "no call, and nothing says so"


def _named(reading: Reading) -> Verdict:
    if (verdict := _demanded(reading)) != KEPT:
        return verdict
    others = {call["name"] for call in reading.calls} - {NAMED}
    return f"another function was called: {', '.join(others)}" if others else KEPT


def _taken(reading: Reading) -> Verdict:
    return KEPT if reading.answered else f"status {reading.exchange.status}"


def _fresh(reading: Reading) -> Verdict:
    if not reading.calls:
        return NOT_SHOWN
    again = HISTORY_ID in reading.said["tool_call_ids"]
    return f"the id {HISTORY_ID} is in the history already" if again else KEPT


TOOL_CALLS: Final = (
    Rule("tool-shape", "tool calls", "a call has its keys, each with its kind of value, and no other",
         of_the_checker("stream", "completion", rule="schema", shows=_calls, of=in_calls)),
    Rule("tool-opening", "tool calls", RULES["tool-opening"],
         of_the_checker("stream", rule="tool-opening", shows=_calls)),
    Rule("tool-continuation", "tool calls", RULES["tool-continuation"],
         of_the_checker("stream", rule="tool-continuation", shows=_calls)),
    Rule("tool-index", "tool calls", RULES["tool-index"], of_the_checker("stream", rule="tool-index", shows=_calls)),
    Rule("tool-apart", "tool calls", "calls come one after the other", in_answers_of("stream", judge=_apart)),
    Rule("tool-id", "tool calls", RULES["tool-id"],
         of_the_checker("stream", "completion", rule="tool-id", shows=lambda reading: len(reading.calls) > 1)),
    Rule("tool-id-fresh", "tool calls", "no call has an id of the history",
         in_answers_to("another call", judge=_fresh)),
    Rule("tool-arguments", "tool calls", RULES["tool-arguments"],
         of_the_checker("stream", "completion", rule="tool-arguments", shows=lambda r: _calls(r) and not r.was_cut)),
    Rule("tool-text", "tool calls", "no call is left in the content as text",
         in_answers_to(*_both("tools"), *_both("two calls"), judge=_as_text)),
    Rule("finish-calls", "tool calls", RULES["finish-calls"],
         of_the_checker("stream", "completion", rule="finish-calls", shows=_calls)),
    Rule("choice-none", "tool calls", "tool_choice none is kept", _none("tool_choice none", "tools")),
    Rule("choice-none-stream", "tool calls", "tool_choice none is kept, streamed",
         _none("tool_choice none, streamed", "tools, streamed")),
    Rule("choice-required", "tool calls", "tool_choice required is kept",
         in_answers_to("tool_choice required", judge=_demanded)),
    Rule("choice-required-stream", "tool calls", "tool_choice required is kept, streamed",
         in_answers_to("tool_choice required, streamed", judge=_demanded)),
    Rule("choice-named", "tool calls", "a named function is called, and no other",
         in_answers_to("tool_choice named", judge=_named)),
    Rule("choice-named-stream", "tool calls", "a named function is called, and no other, streamed",
         in_answers_to("tool_choice named, streamed", judge=_named)),
    Rule("tool-history", "tool calls", "a history with a call and its result is taken",
         in_answers_to("history of a call", judge=_taken)),
)  # fmt: skip
