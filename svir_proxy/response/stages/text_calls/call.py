"""A call, the tools it may name, and a call written as a JSON object."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import orjson

from svir_proxy.response.stages.text_calls.literals import JSON, read_value
from svir_proxy.response.stages.text_calls.reader import Parse, Reader, Rejected

_NAME: Final = ('"name"', '"tool_name"')
_ARGUMENTS: Final = ('"arguments"', '"parameters"')
_INNER: Final = ('"function"', '"tool_call"')
_IGNORED: Final = ('"type"', '"id"', '"call_id"', '"index"')
_KEYS: Final = (*_NAME, *_ARGUMENTS, *_INNER, *_IGNORED)


@dataclass(frozen=True, slots=True)
class Call:
    """A whole call: a listed tool's name, and the JSON text of an object."""

    name: str
    arguments: str


class Tools:
    """The tools a text may call: what names are listed, and the schema of each one's parameters."""

    __slots__ = ("_parameters", "names", "quoted")

    def __init__(self, parameters: Mapping[str, Mapping[str, Any]]) -> None:
        self._parameters = parameters
        self.names = tuple(name for name in parameters if name)
        self.quoted = {json.dumps(name, ensure_ascii=False): name for name in self.names}

    def parameters(self, name: str) -> Mapping[str, Any]:
        """The JSON schema of the parameters of the tool *name*."""
        return self._parameters[name]


def read_name(reader: Reader, tools: Tools) -> Parse[str]:
    """Read a listed name; what comes next decides whether the name was whole."""
    return (yield from reader.expect(*tools.names))


def read_call_object(reader: Reader, tools: Tools, *, bare: bool, opened: bool = False, depth: int = 0) -> Parse[Call]:
    """Read ``{"name": .., "arguments": ..}``, also one inside ``function`` or ``tool_call``.

    Nothing marks a *bare* object as a call, so that it must have arguments; behind a marker none are ``{}``. Of an
    *opened* object the brace was read.
    """
    name = ""
    arguments: str | None = None
    inner: Call | None = None
    if not opened:
        yield from reader.expect("{")
    while True:
        yield from reader.spaces()
        key = yield from reader.expect(*_KEYS)
        yield from reader.spaces()
        yield from reader.expect(":")
        yield from reader.spaces()
        if key in _INNER and depth == 0 and (yield from reader.peek()) == "{":
            inner = yield from read_call_object(reader, tools, bare=bare, depth=1)
        elif key in _NAME or key in _INNER:
            name = tools.quoted[(yield from reader.expect(*tools.quoted))]
        elif key in _ARGUMENTS:
            arguments = _object_text((yield from read_value(reader, JSON)))
        else:
            yield from read_value(reader, JSON)
        yield from reader.spaces()
        if (yield from reader.expect(",", "}")) == "}":
            break
    if inner is not None:
        return inner
    if not name or (bare and arguments is None):
        raise Rejected
    return Call(name, arguments or "{}")


def read_call_array(reader: Reader, tools: Tools, *, bare: bool) -> Parse[list[Call]]:
    """Read an array of call objects from behind its bracket on."""
    calls = []
    while True:
        yield from reader.spaces()
        calls.append((yield from read_call_object(reader, tools, bare=bare)))
        yield from reader.spaces()
        if (yield from reader.expect(",", "]")) == "]":
            return calls


def _object_text(text: str) -> str:
    """Arguments as the text of an object: models also write that text as a string, and null for none."""
    if text.startswith('"'):
        text = str(json.loads(text))
        if not text.strip():
            return "{}"
        try:
            is_object = isinstance(orjson.loads(text), dict)
        except orjson.JSONDecodeError:
            is_object = False
        if not is_object:
            raise Rejected
        return text
    if text == "null":
        return "{}"
    if not text.startswith("{"):
        raise Rejected
    return text
