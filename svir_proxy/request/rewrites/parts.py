"""Images, audio and files that a backend cannot take: refused early, with the code that says so.

A text file is no loss: its text goes into the message, as ``<file name="NAME">``, wherever files are not taken.

=================  =====================  =====================  =====================  ===============================
fact               images                 audio                  remote_images          files
=================  =====================  =====================  =====================  ===============================
kept, unknown      send                   send                   send                   send
ignored, rejected  image_not_supported    audio_not_supported    image_url_not_allowed  text as text, else
                                                                                        file_not_supported
withheld                                                         image_url_not_allowed
=================  =====================  =====================  =====================  ===============================

``withheld`` is for servers in a network of the operator's: from there a URL leads to what the client may not reach. It
goes for whatever a part refers to instead of holding it: ``image_url``, ``audio_url``, ``video_url``, ``file_url``, by
any scheme, or by a path.
"""

from __future__ import annotations

import base64
import binascii
import re
from typing import Any, Final
from urllib.parse import unquote

from svir_proxy.client_request import Body, content_parts
from svir_proxy.errors import ProxyError
from svir_proxy.profiles.schema import Fact
from svir_proxy.request.context import Context, map_messages

_TEXT_TYPES: Final = ("text/", "application/json", "application/xml", "application/yaml", "application/x-yaml")
_REFERENCES: Final = frozenset({"image_url", "audio_url", "video_url", "file_url", "image", "audio", "video", "url"})
"""Keys of a part whose value is, or holds, a URL: data URLs hold what others refer to."""
_TAKEN: Final = ("kept", "unknown")


def gate_parts(body: Body, context: Context) -> Body:
    """Refuse what the backend is known not to take; put text files inline where files are not kept."""
    kinds = context.request.part_kinds
    if not kinds:
        return body
    facts = context.profile.request
    _refuse(kinds, "image", facts.images, context)
    _refuse(kinds, "audio", facts.audio, context)
    if facts.remote_images == "withheld":
        if any(map(_refers, content_parts(body["messages"]))):
            raise ProxyError(
                "image_url_not_allowed",
                f"{context.profile.server} gets no URLs to fetch, for it may stand in a network of its own: send the"
                " image inline, as a data URL. (The operator can allow it: remote_images of the backend.)",
                param="messages",
            )
    elif (
        "image" in kinds
        and facts.remote_images not in _TAKEN
        and any(map(remote_image_url, content_parts(body["messages"])))
    ):
        raise ProxyError(
            "image_url_not_allowed",
            f"{context.profile.server} takes no images by URL; send the image inline, as a data URL.",
            param="messages",
        )
    if "file" not in kinds or facts.files in _TAKEN:
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
    if kind in kinds and fact not in _TAKEN:
        raise ProxyError(
            f"{kind}_not_supported",
            f"{context.profile.server} takes no {kind} input; send the request without it, or to another model.",
            param="messages",
        )


def remote_image_url(part: dict[str, Any]) -> str | None:
    """The http(s) URL of an image part; None where it has none."""
    image = part.get("image_url")
    url = image.get("url") if isinstance(image, dict) else image
    return url if isinstance(url, str) and url[:8].lower().startswith(("http://", "https://")) else None


def _refers(part: Any) -> bool:
    """Whether a part, or what is in it, refers to something that the server would have to fetch."""
    waiting = [part]  # no recursion: a client may nest as deeply as JSON can be read
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            for key, item in value.items():
                if isinstance(item, str):
                    if key in _REFERENCES and item[:5].lower() != "data:":
                        return True
                else:
                    waiting.append(item)
        elif isinstance(value, list):
            waiting += value
    return False


def _inline(part: Any, context: Context) -> Any:
    if not isinstance(part, dict) or part.get("type") not in ("file", "input_file"):
        return part
    file = part.get("file") if part["type"] == "file" else part
    name = file.get("filename") if isinstance(file, dict) else None
    name = name if isinstance(name, str) and name else "file"
    text = _text(file) if isinstance(file, dict) else None
    if text is None:
        raise ProxyError(
            "file_not_supported",
            f"{context.profile.server} takes no files, and {name[:100]!r} is not a text file sent inline"
            " (file_data as a data URL of a text type). Put its text into the message.",
            param="messages",
        )
    context.note("file=text")
    safe = re.sub(r"\s", " ", name.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;"))
    return {"type": "text", "text": f'<file name="{safe}">\n{text}\n</file>'}


def _text(file: dict[str, Any]) -> str | None:
    """The text in *file*'s data URL; None where it is no text."""
    data = file.get("file_data")
    if not isinstance(data, str) or not data.startswith("data:"):
        return None
    head, comma, payload = data[5:].partition(",")
    if not comma or not head.lower().startswith(_TEXT_TYPES):
        return None
    if not head.endswith(";base64"):
        return unquote(payload)
    try:
        return base64.b64decode(payload, validate=True).decode("utf-8-sig")
    except (binascii.Error, ValueError):
        return None
