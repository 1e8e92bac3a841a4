"""The bytes that the scripted upstream sends: pieces of streams, as servers write them and not as they should."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from svir_proxy.conform.upstream import Answer

if TYPE_CHECKING:
    from collections.abc import Mapping

USAGE: Final = {"prompt_tokens": 11, "completion_tokens": 5, "total_tokens": 16}
DONE: Final = b"data: [DONE]\n\n"


def event(value: Any) -> bytes:
    """One event."""
    return b"data: " + json.dumps(value).encode() + b"\n\n"


def chunk(delta: Mapping[str, Any], finish: str | None = None, **more: Any) -> bytes:
    """One chunk of the only choice; *more* are keys beside ``choices``, or in place of the usual ones."""
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return event({**_head("chat.completion.chunk"), "choices": [choice], **more})


def usage() -> bytes:
    """The chunk of the tokens used."""
    return event({**_head("chat.completion.chunk"), "choices": [], "usage": USAGE})


def completion(message: Mapping[str, Any], finish: str) -> bytes:
    """A whole answer as one object."""
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish}
    return json.dumps({**_head("chat.completion"), "choices": [choice], "usage": USAGE}).encode()


def call(index: int | None = None, call_id: str | None = None, name: str | None = None, arguments: Any = None) -> bytes:
    """A chunk with a piece of a call; what is None is left out."""
    function = {key: value for key, value in (("name", name), ("arguments", arguments)) if value is not None}
    head = {key: value for key, value in (("index", index), ("id", call_id)) if value is not None}
    return chunk({"tool_calls": [{**head, "type": "function", "function": function}]})


def stream(*pieces: bytes, then: Answer | None = None, cut: bool = False) -> Answer:
    """An answer that streams *pieces*; *then* is the next one."""
    return Answer(200, {"content-type": "text/event-stream"}, pieces, cut=cut, then=then)


def text(*pieces: str) -> Answer:
    """A plain answer, with usage, as OpenAI sends it."""
    said = [chunk({"content": piece}) for piece in pieces]
    return stream(chunk({"role": "assistant", "content": ""}), *said, chunk({}, "stop"), usage(), DONE)


def _head(kind: str) -> dict[str, Any]:
    return {"id": "chatcmpl-1", "object": kind, "created": 1_790_000_000, "model": "local"}
