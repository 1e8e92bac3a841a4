"""Canonical events to the bytes of a stream."""

from __future__ import annotations

from typing import Any, Final

import orjson

from svir_proxy.client_request import ClientRequest
from svir_proxy.response.chunk_reader import made_up_identity
from svir_proxy.response.events import (
    ArgumentsDelta,
    ContentDelta,
    Ended,
    Event,
    ExtrasReported,
    Failed,
    Finished,
    Identified,
    LogprobsReported,
    ReasoningDelta,
    RefusalDelta,
    ToolCallStarted,
    UsageReported,
)
from svir_proxy.response.json_text import dumps
from svir_proxy.response.logprobs import joined_logprobs

KEEPALIVE: Final = b": keepalive\n\n"
DONE: Final = b"data: [DONE]\n\n"

_MAX_WAITING: Final = 2000
"""Tokens whose probabilities wait for the text they go with, where it is held back or never comes."""
_MAX_EXTRAS: Final = 100
"""Keys outside of the protocol that wait for the next chunk."""
_DELTA: Final = b'{"index":0,"delta":{'
_TAIL: Final = b'},"logprobs":null,"finish_reason":null}]}\n\n'


class SSEWriter:
    """Writes one answer as a stream of chunks.

    `open` writes the chunk with the role, before anything else; `write` what an event says, ``b""`` where it says
    nothing to a client. The identity that `open` finds is the whole stream's.
    """

    __slots__ = ("_extras", "_frame", "_head", "_logprobs", "_request", "_waiting", "finish_reason", "usage")

    def __init__(self, request: ClientRequest) -> None:
        self.finish_reason: str | None = None
        """Why the answer ended, once it has."""
        self.usage: dict[str, Any] | None = None
        """The token counts, also where the client did not ask for them."""
        self._request = request
        self._frame = b""  # the head to be, as soon as the identity is known: nobody waits for anything then
        self._head = b""  # a chunk up to the inside of its delta
        self._logprobs: list[LogprobsReported] | None = None  # for the next chunk
        self._waiting = 0  # tokens in them
        self._extras: dict[str, Any] | None = None

    @property
    def is_open(self) -> bool:
        """Whether the stream has begun."""
        return bool(self._head)

    def open(self) -> bytes:
        """The first chunk."""
        self._head, self._frame = self._frame or _frame(made_up_identity(self._request)), b""
        return self._head + b'"role":"assistant","content":""' + _TAIL

    def forget(self) -> None:
        """Another answer takes the place of this one, which has no output: what it said about itself is not said."""
        self._frame = b""
        self._logprobs, self._waiting = None, 0
        self._extras = None
        self.usage = self.finish_reason = None

    def write(self, event: Event) -> bytes:
        """The bytes for *event*."""
        # The pieces of text come first: they are all but a few of the events.
        if type(event) is ContentDelta:
            key = b'"content":'
        elif type(event) is ReasoningDelta:
            key = b'"reasoning_content":'
        else:
            return self._write_rare(event)
        try:
            text = orjson.dumps(event.text)  # `_string`, without the call
        except TypeError:
            text = dumps(event.text)
        if self._logprobs is None and self._extras is None:
            return b"".join((self._head, key, text, _TAIL))
        return self._delta(key + text)

    def _write_rare(self, event: Event) -> bytes:
        match event:
            case ArgumentsDelta(index, text):
                piece = b'{"index":%d,"function":{"arguments":%b}}' % (index, _string(text))
                return self._delta(b'"tool_calls":[' + piece + b"]")
            case ToolCallStarted(index, identity, name):
                function = {"name": name, "arguments": ""}
                call = {"index": index, "id": identity, "type": "function", "function": function}
                return self._delta(b'"tool_calls":[' + dumps(call) + b"]")
            case RefusalDelta(text):
                return self._delta(b'"refusal":' + _string(text))
            case Identified():
                if not self._head:
                    self._frame = _frame(event)
            case LogprobsReported():
                if self._waiting < _MAX_WAITING:
                    if self._logprobs is None:
                        self._logprobs = []
                    self._logprobs.append(event)
                    self._waiting += len(event.content or ()) + len(event.refusal or ())
            case ExtrasReported(values):
                if self._extras is None:
                    self._extras = {}
                if len(self._extras) < _MAX_EXTRAS:
                    self._extras |= values
            case Finished(reason):
                self.finish_reason = reason
                return self._choice(b"}", dumps(reason))
            case UsageReported(usage):
                self.usage = usage
                if not self._request.include_usage:
                    return b""
                return self._head.removesuffix(_DELTA) + b'],"usage":' + dumps(usage) + b"}\n\n"
            case Failed(error):
                return b"data: " + error.body() + b"\n\n"
            case Ended():
                return DONE
            case _:
                pass
        return b""

    def _delta(self, inside: bytes) -> bytes:
        if self._logprobs is None and self._extras is None:
            return b"".join((self._head, inside, _TAIL))
        return self._choice(inside + b"}", b"null")

    def _choice(self, rest_of_delta: bytes, reason: bytes) -> bytes:
        said = b"null"
        if self._logprobs is not None:
            said = dumps(joined_logprobs(self._logprobs))
            self._logprobs, self._waiting = None, 0
        extras, self._extras = self._extras, None
        tail = b',"svir":' + dumps(extras) if extras else b""
        return (
            self._head
            + rest_of_delta
            + b',"logprobs":'
            + said
            + b',"finish_reason":'
            + reason
            + b"}]"
            + tail
            + b"}\n\n"
        )


def _frame(identity: Identified) -> bytes:
    """A chunk of *identity* up to the inside of its delta."""
    fields = {
        "id": identity.id,
        "object": "chat.completion.chunk",
        "created": identity.created,
        "model": identity.model,
    }
    if identity.system_fingerprint is not None:
        fields["system_fingerprint"] = identity.system_fingerprint
    if identity.service_tier is not None:
        fields["service_tier"] = identity.service_tier
    return b"".join((b"data: ", dumps(fields)[:-1], b',"choices":[', _DELTA))


def _string(text: str) -> bytes:
    try:
        return orjson.dumps(text)
    except TypeError:
        return dumps(text)
