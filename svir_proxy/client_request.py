"""What the client asked for, read once and remembered for the way back."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, Self

import orjson

from svir_proxy.blobs import SMALLEST, Blobs
from svir_proxy.bulk import MOST_VALUES, has_too_many_values
from svir_proxy.errors import ProxyError
from svir_proxy.values import value

Body = Mapping[str, Any]
"""A request body. Never mutated: images are tens of megabytes, and rewrites share what they do not change."""

_PAIR: Final = rb"[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
_SURROGATES: Final = re.compile(rb"\\u(?:%b(?:(?>\\u%b))*+|([dD][89a-fA-F][0-9a-fA-F]{2}))" % (_PAIR, _PAIR))
"""What may be the escapes of whole characters beyond U+FFFF in a row, or that of a half of one (group 1)."""
_MOST_HALVES: Final = 10_000
_MOST_SURROGATES: Final = 300_000
"""What is looked at in a body that is repaired, one by one: 0.2 s."""
_REPLACEMENT: Final = rb"\ufffd"

_PART_KINDS: Final = {
    "image_url": "image",
    "image": "image",
    "input_image": "image",
    "input_audio": "audio",
    "audio_url": "audio",
    "file": "file",
    "input_file": "file",
    "video": "video",
    "video_url": "video",
    "input_video": "video",
}


@value
class ClientRequest:
    """A chat request in the client's words, which stay as they are.

    Attributes:
        id: The request's id: the ``x-request-id`` of the answer, and the seed of every id the proxy makes up.
        received: Unix time in seconds.
        body: The JSON object as sent.
        model: The model the client named; ``""`` where it named none.
        stream: Whether the client wants a stream.
        include_usage: Whether the stream shall report usage.
        tool_names: The functions the client offers, in order.
        tool_choice: ``auto``, ``none``, ``required``, ``named``, or None where it said nothing this proxy knows.
        named_tool: The function the client named, or None.
        call_ids: The ids of the calls in the history.
        blobs: Large payloads of the body, which holds markers in their place; None: it has none.
        notes: What was repaired in reading it.
        part_kinds: Kinds of content beside text: ``image``, ``audio``, ``file``, ``video``.
        is_counted: Whether the proxy needs the token counts itself, whatever the client wants to know.
    """

    id: str
    received: int
    body: Body
    model: str
    stream: bool
    include_usage: bool
    tool_names: tuple[str, ...]
    tool_choice: str | None
    named_tool: str | None
    call_ids: frozenset[str]
    part_kinds: frozenset[str]
    blobs: Blobs | None = None
    notes: tuple[str, ...] = ()
    is_counted: bool = False

    @classmethod
    def from_json(cls, raw: bytes | bytearray, *, id: str, received: int) -> Self:  # noqa: A002 - the field's name
        """Read a body; raises ProxyError where no server could work with it."""
        small, blobs = raw, None
        notes: tuple[str, ...] = ()
        if len(raw) >= SMALLEST:  # else there is neither a large payload in it, nor are there too many values
            small, blobs = Blobs.lift(raw)
            if has_too_many_values(small):
                raise ProxyError("request_too_large", f"The request body holds more than {MOST_VALUES} values.")
        try:
            body = orjson.loads(small)
        except orjson.JSONDecodeError as exc:
            body = _with_whole_characters(small)
            if body is None:
                raise ProxyError("invalid_json", f"The request body is not valid JSON: {exc}.") from None
            notes = ("text=half_characters_replaced",)
        if not isinstance(body, dict):
            raise ProxyError("invalid_json", f"The request body must be a JSON object, not {_name(body)}.")
        return cls.from_body(body, id=id, received=received, blobs=blobs, notes=notes)

    @classmethod
    def from_body(
        cls,
        body: dict[str, Any],
        *,
        id: str,  # noqa: A002 - the field's name
        received: int,
        blobs: Blobs | None = None,
        notes: tuple[str, ...] = (),
    ) -> Self:
        """Read a parsed body; raises ProxyError where no server could work with it."""
        messages = body.get("messages")
        if messages is None:
            raise ProxyError("invalid_request", "'messages' is required: a list of messages.", param="messages")
        if not isinstance(messages, list):
            raise ProxyError(
                "invalid_request", f"'messages' must be a list of messages, not {_name(messages)}.", param="messages"
            )
        if not messages:
            raise ProxyError("invalid_request", "'messages' must not be an empty list.", param="messages")
        call_ids: list[str] = []
        part_kinds: list[str] = []
        for position, message in enumerate(messages):
            if not isinstance(message, dict):
                raise ProxyError(
                    "invalid_request",
                    f"'messages[{position}]' must be an object with 'role' and 'content', not {_name(message)}.",
                    param=f"messages[{position}]",
                )
            if "tool_calls" in message:
                call_ids += _call_ids(message["tool_calls"])
            if "content" in message and isinstance(content := message["content"], list):
                part_kinds += _part_kinds(content)
        if "n" in body and (n := body["n"]) is not None and (n != 1 or n is True):
            raise ProxyError(
                "unsupported_parameter",
                "'n' must be 1: the proxy gives one choice per request. Send the request several times instead.",
                param="n",
            )
        model = body.get("model")
        if model is not None and not isinstance(model, str):
            raise ProxyError("invalid_request", f"'model' must be a string, not {_name(model)}.", param="model")
        choice, named = _tool_choice(body) if "tool_choice" in body or "function_call" in body else (None, None)
        return cls(
            id=id,
            received=received,
            body=body,
            model=model or "",
            stream="stream" in body and body["stream"] is True,
            include_usage="stream_options" in body and _includes_usage(body["stream_options"]),
            tool_names=tuple(name for name, _ in _functions(body)) if "tools" in body or "functions" in body else (),
            tool_choice=choice,
            named_tool=named,
            call_ids=frozenset(call_ids),
            part_kinds=frozenset(part_kinds),
            blobs=blobs,
            notes=notes,
        )

    @classmethod
    def without_chat(cls, model: str) -> Self:
        """A request that is none for chat: of its body no more than the *model* is known."""
        return cls(
            id="",
            received=1,
            body={},
            model=model,
            stream=False,
            include_usage=False,
            tool_names=(),
            tool_choice=None,
            named_tool=None,
            call_ids=frozenset(),
            part_kinds=frozenset(),
        )

    def tool_parameters(self) -> dict[str, Mapping[str, Any]]:
        """The JSON schema of each offered function's parameters; ``{}`` where it has none."""
        schemas = {name: function.get("parameters") for name, function in _functions(self.body)}
        return {name: schema if isinstance(schema, dict) else {} for name, schema in schemas.items()}


def content_parts(messages: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Every part of every message whose content is a list; what is no object is no part."""
    for message in messages:
        for part in _list(message.get("content")):
            if isinstance(part, dict):
                yield part


def _with_whole_characters(raw: bytes | bytearray) -> Any:
    """The JSON in *raw* if all that is wrong with it is half an emoji, which clients leave that cut texts; else None.

    An escape of one half of a surrogate pair is valid JSON, but no text that UTF-8 or a server could say.
    """
    pieces: list[bytes | bytearray] = []
    at = halves = 0
    for _ in range(_MOST_SURROGATES):
        found = _SURROGATES.search(raw, at)
        if found is None:
            break
        before, start, at = raw[at : found.start()], found.start(), found.end()
        if (len(before) - len(before.rstrip(b"\\"))) % 2:
            at = start + 2  # the backslash is an escaped one, and what follows it text
        is_half = found[1] and at == found.end()
        halves += bool(is_half)
        if halves > _MOST_HALVES:
            return None
        pieces += (before, _REPLACEMENT if is_half else raw[start:at])
    try:
        return orjson.loads(b"".join((*pieces, raw[at:])))
    except orjson.JSONDecodeError:
        return None


def _name(value: Any) -> str:
    """What JSON calls the type of *value*."""
    names = {dict: "an object", list: "a list", str: "a string", bool: "a boolean", type(None): "null"}
    return names.get(type(value), "a number")


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _functions(body: Body) -> Iterator[tuple[str, dict[str, Any]]]:
    """The functions the client offers, as tools or in the deprecated form: name and definition."""
    for tool in _list(body.get("tools")):
        if isinstance(tool, dict):
            function = tool.get("function")
            function = function if isinstance(function, dict) else tool
            if isinstance(function.get("name"), str) and function["name"]:
                yield function["name"], function
    for function in _list(body.get("functions")):
        if isinstance(function, dict) and isinstance(function.get("name"), str) and function["name"]:
            yield function["name"], function


def _includes_usage(options: Any) -> bool:
    return isinstance(options, dict) and options.get("include_usage") is True


def _tool_choice(body: Body) -> tuple[str | None, str | None]:
    choice = body.get("tool_choice")
    if choice is None:
        choice = body.get("function_call")
    if isinstance(choice, str):
        return (choice if choice in ("auto", "none", "required") else None), None
    if isinstance(choice, dict):
        function = choice.get("function")
        name = function.get("name") if isinstance(function, dict) else choice.get("name")
        if isinstance(name, str) and name:
            return "named", name
    return None, None


def _call_ids(calls: Any) -> Iterator[str]:
    for call in _list(calls):
        if isinstance(call, dict) and isinstance(call.get("id"), str):
            yield call["id"]


def _part_kinds(content: list[Any]) -> Iterator[str]:
    for part in content:
        if not isinstance(part, dict):
            continue
        if kind := _PART_KINDS.get(str(part.get("type"))):
            yield kind
        elif not _PART_KINDS.keys().isdisjoint(part):  # vLLM tells a part by its keys, without a type or with a uuid
            yield from (kind for key, kind in _PART_KINDS.items() if key in part)
