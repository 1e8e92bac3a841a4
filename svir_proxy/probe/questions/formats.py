"""``response_format``: asked for where an answer in prose is the natural one."""

from __future__ import annotations

from typing import Any, Final

from svir_proxy.probe.answer import Reading
from svir_proxy.probe.dialogue import HELLOS, Dialogue, Question, demand, quoted, rejected, unknown
from svir_proxy.probe.finding import Finding
from svir_proxy.probe.subject import Subject
from svir_proxy.response.json_text import loads

_OBJECT: Final = "request.response_format.json_object"
_SCHEMA: Final = "request.response_format.json_schema"
_WORD: Final = "request.response_format.json_object_needs_word"
_BINDS: Final = "request.response_format.schema_binds_reasoning"
_ROOM: Final = 2
"""How much more room JSON gets than prose: some grammars allow blanks without end."""

_THE_WORD: Final = " (This has nothing to do with JSON.)"

_JSON_OBJECT: Final = {"type": "json_object"}
KEY: Final = "fruit"
ONLY_VALUE: Final = "medlar"
"""Nobody says hello like that unless a schema makes him."""
_JSON_SCHEMA: Final = {
    "type": "json_schema",
    "json_schema": {
        "name": "only_one_answer",
        "strict": True,
        "schema": {
            "type": "object",
            "properties": {KEY: {"type": "string", "enum": [ONLY_VALUE]}},
            "required": [KEY],
            "additionalProperties": False,
        },
    },
}


def json_object(subject: Subject) -> Dialogue:
    """Any object, in place of a greeting; where that is refused, with the word JSON in the message."""
    asked = tuple(HELLOS)
    first = yield subject.ask(asked[0], response_format=_JSON_OBJECT)
    if first.refused:
        asked = tuple(words + _THE_WORD for words in HELLOS)
        again = yield subject.ask(asked[0], response_format=_JSON_OBJECT)
        if again.refused:
            yield rejected(_OBJECT, first)
            return
        yield Finding(_WORD, True, first.words)
    if isinstance(_parsed(subject.control), dict):
        yield unknown(_OBJECT, f"taken; it says hello in JSON of itself: {quoted(subject.control)}")
        return
    asks = (subject.ask(words, response_format=_JSON_OBJECT, room=subject.room * _ROOM) for words in asked)
    yield from demand(_OBJECT, asks, _is_object)


def _is_object(reading: Reading) -> bool | None:
    text = reading.text.strip()
    if isinstance(_parsed(text), dict):
        return True
    # An object that the limit cuts is one as far as it goes: a grammar holds small models to JSON, not to an end of it.
    return (reading.cut and text.startswith("{")) if text else None


def json_schema(subject: Subject) -> Dialogue:
    """A schema that has one answer."""
    in_reasoning: list[str] = []

    def honours(reading: Reading) -> bool | None:
        if not reading.text.strip():
            if _parsed(reading.reasoning) == {KEY: ONLY_VALUE}:
                in_reasoning.append(reading.reasoning)
                return True
            return None
        return True if _parsed(reading.text) == {KEY: ONLY_VALUE} else None if reading.cut else False

    asks = (subject.ask(words, response_format=_JSON_SCHEMA, room=subject.room * _ROOM) for words in HELLOS)
    yield from demand(_SCHEMA, asks, honours)
    if in_reasoning:
        yield Finding(_BINDS, True, f"the JSON comes as reasoning, without any content: {quoted(in_reasoning[0])}")


def _parsed(text: str) -> Any:
    """The JSON that *text* is; None where it is none."""
    try:
        return loads(text.encode("utf-8", "replace"))
    except ValueError:
        return None


ABOUT_FORMATS: Final = (
    Question("json_object", (_OBJECT,), json_object),
    Question("json_schema", (_SCHEMA,), json_schema),
)
