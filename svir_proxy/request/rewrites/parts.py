"""Images, audio and files that a backend cannot take: refused early, with the code that says so.

A text file is no loss: its text goes into the message, as ``<file name="NAME">``, wherever files are not taken.
"""

from __future__ import annotations

import base64
import binascii
from typing import Any, Final

from svir_proxy.client_request import Body
from svir_proxy.errors import ProxyError
from svir_proxy.profiles.schema import Fact
from svir_proxy.request.context import Context, map_messages

_TEXT_TYPES: Final = ("text/", "application/json", "application/xml", "application/yaml", "application/x-yaml")


def gate_parts(body: Body, context: Context) -> Body:
    """Refuse what the backend is known not to take; put text files inline where files are not kept."""
    kinds = context.request.part_kinds
    if not kinds:
        return body
    facts = context.profile.request
    _refuse(kinds, "image", facts.images, context)
    _refuse(kinds, "audio", facts.audio, context)
    if "file" not in kinds or facts.files in ("kept", "unknown"):
        return body

    def change(message: dict[str, Any]) -> dict[str, Any]:
        content = message.get("content")
        if not isinstance(content, list):
            return message
        parts = [_inline(part, context) for part in content]
        if all(new is old for new, old in zip(parts, content, strict=True)):
            return message
        return {**message, "content": parts}

    return map_messages(body, change)


def _refuse(kinds: frozenset[str], kind: str, fact: Fact, context: Context) -> None:
    if kind in kinds and fact in ("rejected", "ignored"):
        raise ProxyError(
            f"{kind}_not_supported",
            f"{context.profile.server} takes no {kind} input; send the request without it, or to another model.",
            param="messages",
        )


def _inline(part: Any, context: Context) -> Any:
    if not isinstance(part, dict) or part.get("type") != "file":
        return part
    file = part.get("file")
    name = file.get("filename") if isinstance(file, dict) else None
    name = name if isinstance(name, str) and name else "file"
    text = _text(file) if isinstance(file, dict) else None
    if text is None:
        raise ProxyError(
            "file_not_supported",
            f"{context.profile.server} takes no files, and {name!r} is not a text file sent inline"
            " (file_data as a data URL of a text type). Put its text into the message.",
            param="messages",
        )
    context.note("file=text")
    safe = name.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;").replace("\n", " ")
    return {"type": "text", "text": f'<file name="{safe}">\n{text}\n</file>'}


def _text(file: dict[str, Any]) -> str | None:
    data = file.get("file_data")
    if not isinstance(data, str) or not data.startswith("data:"):
        return None
    head, comma, payload = data[5:].partition(",")
    media = head.partition(";")[0].lower()
    if not comma or not media.startswith(_TEXT_TYPES):
        return None
    if not head.endswith(";base64"):
        return None
    try:
        return base64.b64decode(payload, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return None
