"""The server's own words about a failure, found wherever it put them.

Servers agree on nothing: ``{"error":{...}}``, ``{"error":"text"}``, ``{"detail":...}`` as text, list or object, flat
objects, lists, JSON inside a message, an event's line under an error status, HTML, plain text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

from svir_proxy.response.json_text import loads

_MAX_ITEMS: Final = 10
"""Errors of a list that are looked at."""
MAX_WORDS: Final = 4000
"""Characters of a server's words that are looked at: some repeat the whole request."""
_MAX_PAGE: Final = 64 * 1024
"""Bytes of a page or of plain text in which words are looked for: of a page most is markup."""
_EVENT: Final = re.compile(rb"(?:(?:event|id|retry)?:[^\r\n]*[\r\n]+)*data:([^\r\n]*)")
_TAG: Final = re.compile(r"<[^<>]{0,2000}>")
_INVISIBLE: Final = re.compile(r"<(script|style)\b[^>]{0,2000}>.*?(?:</\1>|\Z)", re.IGNORECASE | re.DOTALL)


@dataclass(slots=True)
class UpstreamError:
    """What a server said about a failure, in its own terms; None and ``""`` where it said nothing."""

    message: str = ""
    code: str | None = None
    type: str | None = None
    param: str | None = None
    status: int | None = None
    """The status inside the body, which decides before the one outside."""
    filtered: bool = False
    """A content filter's verdict stands beside the error."""


def has_error(value: Any) -> bool:
    """Whether a parsed object is an error: one that has no choices, or one that says so beside them."""
    if isinstance(value, list):
        return bool(value) and isinstance(value[0], dict) and has_error(value[0])
    if not isinstance(value, dict):
        return False
    if value.get("error") or value.get("object") == "error":
        return True
    if value.get("choices") or "usage" in value:
        return False
    return bool(value.get("detail") or value.get("errors")) or isinstance(value.get("message"), str)


def read_body(body: bytes) -> UpstreamError:
    """The words in a raw error body, whatever it is."""
    body = body.removeprefix(b"\xef\xbb\xbf").strip()
    framed = _EVENT.match(body)  # an error that was framed as an event under an error status
    text = framed[1].strip() if framed else body
    if text[:1] in (b"{", b"["):
        try:
            return read_value(loads(text))
        except ValueError:
            pass
    words = text[:_MAX_PAGE].decode("utf-8", "replace")
    if words[:1] == "<":
        words = " ".join(_TAG.sub(" ", _INVISIBLE.sub(" ", words)).split())
    return UpstreamError(words[:MAX_WORDS])


def read_value(value: Any) -> UpstreamError:
    """The words in a parsed error body, or in a parsed chunk that is an error."""
    said = UpstreamError()
    _collect(value, said, 0)
    said.message = said.message.strip()[:MAX_WORDS]
    _read_inner(said)
    return said


def _collect(value: Any, said: UpstreamError, depth: int) -> None:
    """Fill *said* from *value*, outer words only where inner ones are missing."""
    if depth > 6:
        return
    if isinstance(value, str):
        said.message = said.message or value
    elif isinstance(value, list):
        items = [item for item in value[:_MAX_ITEMS] if isinstance(item, dict | str)]
        if items:
            _collect(items[0], said, depth + 1)
            said.message += "".join(map(_also, items[1:]))
    elif isinstance(value, dict):
        for key in ("error", "detail", "errors"):
            if isinstance(value.get(key), dict | list | str) and value[key]:
                if key == "detail" and isinstance(value.get("errors"), list) and isinstance(value[key], str):
                    continue  # "Validation Error", with the errors beside it
                _collect(value[key], said, depth + 1)
        for key in ("message", "msg", "error_message", "details", "reason"):
            if isinstance(value.get(key), str):
                said.message = said.message or value[key]
            elif isinstance(value.get(key), dict):
                _collect(value[key], said, depth + 1)
        _read_codes(value, said)


def _also(item: Any) -> str:
    """One more item of a list of validation errors: its words, and where it is."""
    more = UpstreamError()
    _collect(item, more, 5)
    if not more.message:
        return ""
    return f"; {more.message} ({more.param})" if more.param else f"; {more.message}"


def _read_codes(value: dict[str, Any], said: UpstreamError) -> None:
    for key in ("code", "status", "status_code"):
        code = value.get(key)
        if isinstance(code, str) and code.isdecimal() and len(code) == 3:
            code = int(code)
        if type(code) is int:
            if 400 <= code < 600 and said.status is None:
                said.status = code
        elif isinstance(code, str) and code and said.code is None and key == "code":
            said.code = code
    kind = value.get("type")
    if isinstance(kind, str) and kind and said.type is None:
        said.type = kind
    param = value.get("param")
    if isinstance(param, str) and param and said.param is None:
        said.param = param
    loc = value.get("loc")
    if said.param is None and loc:
        steps = loc if isinstance(loc, list) else str(loc).replace(" -> ", ".").split(".")
        said.param = ".".join(str(step) for step in steps if step != "body")[:MAX_WORDS] or None
    if said.param and said.param.startswith("body."):
        said.param = said.param.removeprefix("body.")
    inner = value.get("innererror")
    if isinstance(inner, dict):
        said.filtered = said.filtered or inner.get("code") == "ResponsibleAIPolicyViolation"


def _read_inner(said: UpstreamError) -> None:
    """A message that is JSON, or has JSON in it: the inner words decide (Mistral, Gemini's proxies, LM Studio)."""
    start = min(
        (i for i in (said.message.find("{"), said.message.find("[{"), said.message.find("[\n")) if i >= 0), default=-1
    )
    if start < 0:
        return
    try:
        value = loads(said.message[start:].encode("utf-8", "replace"))
    except ValueError:
        return
    inner = UpstreamError()
    _collect(value, inner, 0)
    if not inner.message and not inner.status:
        return
    if start == 0:
        said.message = inner.message or said.message
    said.code, said.type, said.param = inner.code or said.code, inner.type or said.type, inner.param or said.param
    said.status = inner.status or said.status
