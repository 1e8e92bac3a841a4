"""What the scripted upstream says, in bytes: one answer of five words, as a stream and as a document, in every framing."""

from __future__ import annotations

import json
from typing import Any, Final

WORDS: Final = ("One", " two", " three", " four", " five")
"""The words of every answer; no word is part of another."""

_USAGE: Final = {"prompt_tokens": 3, "completion_tokens": 5, "total_tokens": 8}
_COMMON: Final = {"id": "chatcmpl-1", "created": 1700000000, "model": "m"}


def dumps(value: Any) -> bytes:
    """Compact JSON."""
    return json.dumps(value, separators=(",", ":")).encode()


def _event(choices: list[Any], **more: Any) -> bytes:
    return b"data: " + dumps({**_COMMON, "object": "chat.completion.chunk", "choices": choices, **more}) + b"\n\n"


def _choice(delta: dict[str, Any], finish: str | None = None) -> list[Any]:
    return [{"index": 0, "delta": delta, "finish_reason": finish}]


ROLE: Final = _event(_choice({"role": "assistant", "content": ""}))
TEXT: Final = tuple(_event(_choice({"content": word})) for word in WORDS)
FINISH: Final = _event(_choice({}, "stop"))
USAGE: Final = _event([], usage=_USAGE)
DONE: Final = b"data: [DONE]\n\n"
EVENTS: Final = (ROLE, *TEXT, FINISH, USAGE, DONE)

STREAM: Final = b"".join(EVENTS)
"""The answer as a stream."""

DOCUMENT: Final = dumps(
    {
        **_COMMON,
        "object": "chat.completion",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": "".join(WORDS)},
                "finish_reason": "stop",
            }
        ],
        "usage": _USAGE,
    }
)
"""The answer as one document."""


def head(*headers: str, status: str = "200 OK", version: str = "1.1", media: str = "text/event-stream") -> bytes:
    """A response head."""
    lines = [f"HTTP/{version} {status}", *([f"Content-Type: {media}"] if media else []), *headers]
    return "\r\n".join([*lines, "", ""]).encode()


CHUNKED: Final = "Transfer-Encoding: chunked"
JSON: Final = "application/json"


def chunk(data: bytes) -> bytes:
    """One chunk."""
    return b"%x\r\n%b\r\n" % (len(data), data)


LAST_CHUNK: Final = b"0\r\n\r\n"


def sized(body: bytes, **more: str) -> bytes:
    """A response with a content-length."""
    return head(f"Content-Length: {len(body)}", **more) + body


def chunked(*parts: bytes, **more: str) -> bytes:
    """A response in chunks."""
    return head(CHUNKED, **more) + b"".join(map(chunk, parts)) + LAST_CHUNK


def error(status: str, message: str, **more: Any) -> bytes:
    """A response that is an error, in OpenAI's envelope."""
    return sized(dumps({"error": {"message": message, **more}}), status=status, media=JSON)


GOOD: Final = {True: chunked(*EVENTS), False: sized(DOCUMENT, media=JSON)}
"""A faultless response to a streamed request and to a plain one."""
