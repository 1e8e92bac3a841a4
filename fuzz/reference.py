"""A second, naive reader of plain streams: what it reads, the proxy must say, no more and no less.

It knows the event stream format and ``choices[0].delta.content``, and gives up on whatever may change what the text
is: markers of calls and reasoning, other carriers of text, several choices, errors. Slow and simple on purpose.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

_LINE_END: Final = re.compile(rb"\r\n|\r|\n")
_CARRIERS: Final = {
    "reasoning_content", "reasoning", "thinking", "reasoning_details", "refusal", "tool_calls", "function_call",
    "message", "text", "error",
}  # fmt: skip
"""Keys of a delta, a choice or a chunk that say something else than plain text, unless they are empty."""
_MARKS: Final = set("<[{`") | {"functions.", "to="}
_KNOWN: Final = {"id", "object", "created", "model", "choices", "usage", "system_fingerprint"}
_ENDS: Final = {None, "", "stop", "length"}


def plain_text(body: bytes) -> str | None:
    """The text of a plain stream that ended with ``[DONE]``; None for anything else."""
    text, done = "", False
    for data in _events(body):
        if data.strip() == b"[DONE]":
            done = True
            break
        try:
            chunk = json.loads(data, object_pairs_hook=_once)
        except (ValueError, RecursionError):
            return None
        piece = _content(chunk)
        if piece is None:
            return None
        text += piece
    if not done or any(mark in text for mark in _MARKS):
        return None
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _events(body: bytes) -> list[bytes]:
    events: list[bytes] = []
    lines: list[bytes] = []
    for line in _LINE_END.split(body.removeprefix(b"\xef\xbb\xbf")):
        name, _, value = line.partition(b":")
        if name == b"data":
            lines.append(value.removeprefix(b" "))
        elif not line and lines:
            events.append(b"\n".join(lines))
            lines = []
        elif name == b"event":
            return []
    return events


def _content(chunk: Any) -> str | None:
    if not isinstance(chunk, dict) or "error" in chunk:
        return None
    choices = chunk.get("choices")
    if choices == [] and set(chunk) <= _KNOWN:
        return ""
    if not isinstance(choices, list) or len(choices) != 1 or not isinstance(choices[0], dict):
        return None
    choice = choices[0]
    delta = choice.get("delta")
    if choice.get("index") not in (0, None) or not isinstance(delta, dict) or _says_more(choice) or _says_more(delta):
        return None
    finish, content = choice.get("finish_reason"), delta.get("content")
    if not (finish is None or isinstance(finish, str)) or finish not in _ENDS:
        return None
    return content if isinstance(content, str) else "" if content is None else None


def _says_more(value: dict[str, Any]) -> bool:
    return any(value.get(key) for key in _CARRIERS)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) != len(pairs):
        raise ValueError("a key is there twice")
    return dict(pairs)
