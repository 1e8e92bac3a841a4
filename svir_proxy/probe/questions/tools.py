"""Tools and the choice between them: whether it is accepted shows at once, whether it is kept only when it matters.

So `required` and a named function are asked for where no tool is needed, and `none` where one is. Where the server
counts prompt tokens, what it leaves out of the prompt shows without any help from the model.
"""

from __future__ import annotations

from typing import Any, Final

from svir_proxy.probe.answer import Reading
from svir_proxy.probe.dialogue import (
    FEW,
    HELLO,
    HELLOS,
    Asking,
    Dialogue,
    Question,
    demand,
    gained,
    in_words,
    rejected,
    size,
    taken,
    unknown,
)
from svir_proxy.probe.finding import Finding
from svir_proxy.probe.subject import Subject

CALL: Final = "Use the function get_weather to find out the weather in Oslo."
CALLS: Final = (CALL, "What is the weather in Oslo now? Call get_weather.", "Call get_weather with the city Oslo.")
TWO_CALLS: Final = "Use the function get_weather for Oslo and for Bergen, with two calls at once."

TOOLS: Final = "request.tools"
_CHOICE: Final = "request.tool_choice"
_STREAM: Final = "request.stream_with_tools"
_PARALLEL: Final = "request.optional_fields.parallel_tool_calls"
_LEGACY: Final = "request.legacy_functions"
_NONE_OFFERED: Final = "request.empty_tools"
_STRICT: Final = "request.tool_strict"
_BARE: Final = "request.empty_parameters"


def function(name: str, parameter: str, **more: Any) -> dict[str, Any]:
    """A tool with one text as its parameter."""
    schema = {
        "type": "object",
        "properties": {parameter: {"type": "string"}},
        "required": [parameter],
        "additionalProperties": False,
    }
    return {
        "type": "function",
        "function": {"name": name, "description": f"{name} of a {parameter}", "parameters": schema, **more},
    }


WEATHER: Final = function("get_weather", "city")
LOCKER: Final = function("open_locker", "number")
BOTH: Final = [WEATHER, LOCKER]
_NAMED: Final = {"type": "function", "function": {"name": "open_locker"}}
_ALLOWED: Final = {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [_NAMED]}}


def tools(subject: Subject) -> Dialogue:
    """Whether a model that is asked to call does."""
    last = None
    for words in CALLS:
        last = yield subject.ask(words, tools=BOTH)
        if last.refused:
            subject.tools = "rejected"
            yield rejected(TOOLS, last)
            return
        if last.calls:
            subject.tools, subject.calls = "kept", True
            yield Finding(TOOLS, "kept", in_words(last))
            return
    without = yield from size(subject, HELLO)
    offered = yield from size(subject, HELLO, tools=BOTH)
    more = gained(subject, offered, without)
    told = f"{len(CALLS)} requests for a call, none came ({in_words(last) if last else ''})"
    if more is not None and more <= FEW:
        subject.tools = "ignored"
        yield Finding(TOOLS, "ignored", f"{told}, and the tools are not in the prompt")
    else:
        yield unknown(TOOLS, f"{told}{'; the tools are in the prompt' if more else ''}")


def _no_tools(subject: Subject, *facts: str) -> Asking[bool]:
    """Whether there is no use in asking; says so for *facts*."""
    if subject.tools not in ("rejected", "ignored"):
        return False
    for fact in facts:
        yield unknown(fact, f"tools as such are {subject.tools}")
    return True


def in_a_stream(subject: Subject) -> Dialogue:
    """A stream of a request with tools."""
    if (yield from _no_tools(subject, _STREAM)):
        return
    asks = (subject.ask(words, tools=BOTH, stream=True) for words in CALLS)

    def honours(reading: Reading) -> bool | None:
        # A model that calls nothing in a plain answer either shows nothing; nor does an answer that is no stream.
        if not reading.raw.streamed:
            return None
        return True if reading.calls else False if subject.calls and not reading.cut else None

    subject.streams_tools = (yield from demand(_STREAM, asks, honours)) != "rejected"


def auto(subject: Subject) -> Dialogue:
    """``auto``, said in so many words."""
    fact = f"{_CHOICE}.auto"
    if (yield from _no_tools(subject, fact)):
        return
    reading = yield subject.ask(CALL, tools=BOTH, tool_choice="auto")
    if reading.refused:
        yield rejected(fact, reading)
    elif reading.calls:
        yield Finding(fact, "kept", in_words(reading))
    else:
        yield unknown(fact, f"taken, without a call: {in_words(reading)}")


def none(subject: Subject) -> Dialogue:
    """``none``: kept where the tools are not in the prompt, or where a call that would come does not."""
    fact = f"{_CHOICE}.none"
    if (yield from _no_tools(subject, fact)):
        return
    without = yield from size(subject, CALL)
    offered = yield from size(subject, CALL, tools=BOTH)
    barred = yield from size(subject, CALL, tools=BOTH, tool_choice="none")
    if barred.refused:
        yield rejected(fact, barred)
        return
    more, all_of_it = gained(subject, barred, without), gained(subject, offered, without)
    if more is not None and all_of_it is not None and more <= FEW < all_of_it:
        yield Finding(fact, "kept", "the tools are left out of the prompt")
    elif not subject.calls:
        yield unknown(fact, "taken; the model calls nothing in any case")
    else:
        control = yield subject.ask(CALL)
        # A model may write a call of a function that it was never told of; not where it was told.
        guesses = _is_markup(control) and (more is None or more <= FEW)

        def honours(reading: Reading) -> bool | None:
            if reading.calls or (_is_markup(reading) and not guesses):
                return False
            return None if reading.cut or guesses else True

        yield from demand(fact, (subject.ask(words, tools=BOTH, tool_choice="none") for words in CALLS), honours)


def _is_markup(reading: Reading) -> bool:
    """Whether the text is that of a call: the model was told of its tools all the same."""
    return WEATHER["function"]["name"] in reading.text and "{" in reading.text


def required(subject: Subject) -> Dialogue:
    """``required``, where no tool is of any use."""
    yield from _forced(subject, f"{_CHOICE}.required", {"get_weather", "open_locker"}, tool_choice="required")


def named(subject: Subject) -> Dialogue:
    """A named function, where no tool is of any use."""
    yield from _forced(subject, f"{_CHOICE}.named", {"open_locker"}, tool_choice=_NAMED)


def allowed(subject: Subject) -> Dialogue:
    """A choice among some of the tools."""
    yield from _forced(subject, f"{_CHOICE}.allowed_tools", {"open_locker"}, tool_choice=_ALLOWED)


def _forced(subject: Subject, fact: str, names: set[str], **choice: Any) -> Dialogue:
    if (yield from _no_tools(subject, fact)):
        return
    control = yield subject.ask(HELLO, tools=BOTH)
    if {call.name for call in control.calls} & names:
        first = yield subject.ask(HELLO, tools=BOTH, **choice)
        yield (
            rejected(fact, first)
            if first.refused
            else unknown(fact, f"taken; the model calls for no reason: {in_words(control)}")
        )
        return
    asks = (subject.ask(words, tools=BOTH, **choice) for words in HELLOS)
    yield from demand(fact, asks, lambda reading: _is_call_of(reading, names))


def _is_call_of(reading: Reading, names: set[str]) -> bool | None:
    if reading.calls:
        return {call.name for call in reading.calls} <= names
    return False if reading.finish == "stop" and reading.text.strip() else None


def parallel(subject: Subject) -> Dialogue:
    """``parallel_tool_calls: false``, where two calls would come."""
    if (yield from _no_tools(subject, _PARALLEL)):
        return
    control = yield subject.ask(TWO_CALLS, tools=BOTH, room=2 * subject.room)
    asks = [
        subject.ask(TWO_CALLS, tools=BOTH, parallel_tool_calls=False, room=2 * subject.room) for _ in range(len(CALLS))
    ]
    if len(control.calls) > 1:
        yield from demand(_PARALLEL, asks, lambda reading: len(reading.calls) == 1 if reading.calls else None)
        return
    first = yield asks[0]
    yield (
        rejected(_PARALLEL, first)
        if first.refused
        else unknown(_PARALLEL, f"taken; two calls at once come in no case: {in_words(control)}")
    )


def legacy(subject: Subject) -> Dialogue:
    """The deprecated ``functions``, one of them named."""
    old: dict[str, Any] = {"functions": [tool["function"] for tool in BOTH], "function_call": {"name": "open_locker"}}
    without = yield from size(subject, HELLO)
    offered = yield from size(subject, HELLO, **old)
    if offered.refused:
        yield rejected(_LEGACY, offered)
        return
    more = gained(subject, offered, without)
    if more is not None and more <= FEW:
        reading = yield subject.ask(HELLO, **old)
        if not reading.calls:
            yield Finding(_LEGACY, "ignored", f"the functions are not in the prompt; {in_words(reading)}")
            return
    asks = (subject.ask(words, **old) for words in HELLOS)
    yield from demand(_LEGACY, asks, lambda reading: _is_call_of(reading, {"open_locker"}))


def none_offered(subject: Subject) -> Dialogue:
    """An empty list of tools, and a choice between none."""
    empty: tuple[dict[str, Any], ...] = ({"tools": []}, {"tool_choice": "auto"})
    for fields in empty:
        reading = yield subject.ask(HELLO, room=subject.least, **fields)
        if reading.refused:
            yield Finding(_NONE_OFFERED, "rejected", f"{', '.join(fields)}: {reading.words}")
            return
    yield Finding(_NONE_OFFERED, "ignored", "tools [], and a choice without tools, are taken as none")


def strict(subject: Subject) -> Dialogue:
    """``strict`` in a definition."""
    if not (yield from _no_tools(subject, _STRICT)):
        ask = subject.ask(HELLO, room=subject.least, tools=[function("get_weather", "city", strict=True)])
        yield from taken(_STRICT, ask, "kept", "taken; what it changes does not show")


def bare(subject: Subject) -> Dialogue:
    """A tool without parameters, and one with an empty object for them."""
    if (yield from _no_tools(subject, _BARE)):
        return
    bells: tuple[dict[str, Any], ...] = ({}, {"parameters": {}})
    for more in bells:
        tool = {"type": "function", "function": {"name": "ring_bell", **more}}
        reading = yield subject.ask(HELLO, room=subject.least, tools=[tool])
        if reading.refused:
            yield rejected(_BARE, reading)
            return
    yield Finding(_BARE, "kept", "a tool without parameters, and one with {}: taken")


ABOUT_TOOLS: Final = (
    Question("tools", (TOOLS,), tools),
    Question("tools in a stream", (_STREAM,), in_a_stream),
    Question("tool_choice auto", (f"{_CHOICE}.auto",), auto),
    Question("tool_choice none", (f"{_CHOICE}.none",), none),
    Question("tool_choice required", (f"{_CHOICE}.required",), required),
    Question("tool_choice named", (f"{_CHOICE}.named",), named),
    Question("tool_choice allowed_tools", (f"{_CHOICE}.allowed_tools",), allowed),
    Question("parallel calls", (_PARALLEL,), parallel),
    Question("functions", (_LEGACY,), legacy),
    Question("an empty list of tools", (_NONE_OFFERED,), none_offered),
    Question("strict tools", (_STRICT,), strict),
    Question("tools without parameters", (_BARE,), bare),
)
