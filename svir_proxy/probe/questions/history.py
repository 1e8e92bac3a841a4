"""Earlier turns: calls, their results, refusals, reasoning. Each is one change of a conversation that is taken."""

from __future__ import annotations

from copy import deepcopy
from typing import Any, Final

from svir_proxy.probe.answer import Reading
from svir_proxy.probe.dialogue import (
    FEW,
    FILLER,
    HELLO,
    Asking,
    Dialogue,
    Question,
    gained,
    rejected,
    size,
    unknown,
)
from svir_proxy.probe.finding import Finding
from svir_proxy.probe.questions.messages import text_parts
from svir_proxy.probe.questions.tools import BOTH, CALL
from svir_proxy.probe.subject import Messages, Subject

_IDS: Final = "request.call_ids"
_NAME: Final = "request.tool_message_name"
_NULL: Final = "request.null_content"
_MISSING: Final = "request.missing_content"
_PARTS: Final = "request.tool_content_parts"
_EMPTY: Final = "request.empty_arguments"
_REFUSAL: Final = "request.refusal_parts"
_REASONING: Final = "request.reasoning_history"

_USUAL_ID: Final = "call_probe_1"
_NINE: Final = "probe0001"
_KEYS: Final = ("reasoning_content", "reasoning")
_FACTS: Final = (_IDS, _NAME, _NULL, _MISSING, _PARTS, _EMPTY, _REASONING)


def conversation(call_id: str = _USUAL_ID) -> Messages:
    """A question, a call, its result."""
    call = {"id": call_id, "type": "function", "function": {"name": "get_weather", "arguments": '{"city": "Oslo"}'}}
    return [
        {"role": "user", "content": CALL},
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": call_id, "content": FILLER},
    ]


def with_(base: Messages, position: int, **values: Any) -> Messages:
    """*base* with *values* in the message at *position*."""
    return [{**message, **(values if at == position else {})} for at, message in enumerate(base)]


def calls(subject: Subject) -> Dialogue:
    """A call and its result, in every form."""
    base = conversation()
    usual = yield from size(subject, base, tools=BOTH)
    if usual.refused:
        found = yield from _taken_form(subject, usual)
        if found is None:
            for fact in _FACTS:
                yield unknown(fact, f"no conversation with a call is taken: {usual.words}")
            return
        base, usual = found
    else:
        yield Finding(_IDS, "any", f"an id like {_USUAL_ID} is taken")
        named = yield from size(subject, with_(base, 2, name="get_weather"), tools=BOTH)
        yield (
            Finding(_NAME, "rejected", named.words)
            if named.refused
            else Finding(_NAME, "any", "a result is taken with the function's name and without")
        )
    yield from _contents(subject, base, usual)
    yield from _reasoning(subject, base, usual)


def _taken_form(subject: Subject, usual: Reading) -> Asking[tuple[Messages, Reading] | None]:
    """The conversation as this server takes it, where it refuses the usual form."""
    for fact, value, base in (
        (_IDS, "alphanumeric_9", conversation(_NINE)),
        (_NAME, "required", with_(conversation(), 2, name="get_weather")),
    ):
        reading = yield from size(subject, base, tools=BOTH)
        if not reading.refused:
            yield Finding(fact, value, f"otherwise {usual.words}")
            return base, reading
    return None


def _contents(subject: Subject, base: Messages, usual: Reading) -> Dialogue:
    null = yield from size(subject, with_(base, 1, content=None), tools=BOTH)
    yield rejected(_NULL, null) if null.refused else Finding(_NULL, "kept", "null beside a call is taken")
    missing = deepcopy(base)
    del missing[1]["content"]
    absent = yield from size(subject, missing, tools=BOTH)
    yield rejected(_MISSING, absent) if absent.refused else Finding(_MISSING, "kept", "a call without content is taken")
    empty = deepcopy(base)
    empty[1]["tool_calls"][0]["function"]["arguments"] = ""
    reading = yield from size(subject, empty, tools=BOTH)
    yield (
        rejected(_EMPTY, reading)
        if reading.refused
        else unknown(_EMPTY, "taken; what the template makes of an empty text does not show")
    )
    parts = yield from size(subject, with_(base, 2, content=text_parts(FILLER)), tools=BOTH)
    more = gained(subject, parts, usual)
    if parts.refused:
        yield rejected(_PARTS, parts)
    elif more is None:
        yield unknown(_PARTS, "taken; whether the result was read does not show")
    elif more < -len(FILLER.split()) // 2:
        yield Finding(_PARTS, "ignored", f"a result in parts is {-more} prompt tokens less than as a string")
    else:
        yield Finding(_PARTS, "kept", f"a result in parts and as a string differ by {abs(more)} prompt tokens")


def _reasoning(subject: Subject, base: Messages, usual: Reading) -> Dialogue:
    """Under which key reasoning that goes back reaches the template."""
    reached: list[str] = []
    told: list[str] = []
    for key in _KEYS:
        reading = yield from size(subject, with_(base, 1, **{key: FILLER}), tools=BOTH)
        more = gained(subject, reading, usual)
        told.append(f"{key} {'refused' if reading.refused else f'adds {more} tokens' if more is not None else 'taken'}")
        if not reading.refused and more is not None and more > FEW:
            reached.append(key)
    before = subject.base.request.reasoning_history
    if reached:
        yield Finding(_REASONING, before if before in reached else reached[0], ", ".join(told))
    else:
        yield unknown(_REASONING, f"{', '.join(told)}: by template and model")


def refusals(subject: Subject) -> Dialogue:
    """A refusal of the assistant as a part."""
    part = {"type": "refusal", "refusal": "I cannot do that."}
    messages: Messages = [
        {"role": "user", "content": HELLO},
        {"role": "assistant", "content": [part]},
        {"role": "user", "content": HELLO},
    ]
    reading = yield from size(subject, messages)
    yield (
        rejected(_REFUSAL, reading) if reading.refused else unknown(_REFUSAL, "taken; whether it is read does not show")
    )


ABOUT_HISTORY: Final = (
    Question("calls and results", _FACTS, calls),
    Question("refusals", (_REFUSAL,), refusals),
)
