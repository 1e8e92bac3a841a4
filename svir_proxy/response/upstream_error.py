"""Any error body to the one error a client sees.

Three steps: find the server's own words, wherever it put them; judge what they mean; scrub what must not leave the
proxy. Servers agree on nothing here: ``{"error":{...}}``, ``{"error":"text"}``, ``{"detail":...}``, flat objects, lists,
JSON inside a message, HTML, plain text, numeric codes, a context overflow under any status and in any wording.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any, Final

from svir_proxy.client_request import ClientRequest
from svir_proxy.errors import ProxyError
from svir_proxy.profiles.schema import ErrorRule
from svir_proxy.response.json_text import loads

_MAX_WORDS: Final = 4000
"""Characters of a server's words that are looked at: some repeat the whole request."""


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


class ErrorReader:
    """Reads the errors of one upstream answer.

    *rules* are the profile's; *secrets* are texts that must never reach a client (the upstream's key).
    """

    __slots__ = ("_request", "_rules", "_secrets")

    def __init__(self, request: ClientRequest, rules: Sequence[ErrorRule], secrets: Sequence[str] = ()) -> None:
        self._request = request
        self._rules = rules
        self._secrets = secrets

    def from_response(self, status: int, headers: Mapping[str, str], body: bytes) -> ProxyError:
        """The error in a response whose *status* is no success. *headers* have lower-case names."""
        said = _read_body(body)
        error = self._judge(said, status)
        if error.status in (429, 503) and error.retry_after is None:
            error.retry_after = _retry_after(headers, said.message)
        return error

    def from_stream(self, value: Any) -> ProxyError:
        """The error in a parsed object inside a 200: a chunk, an event, a whole body."""
        said = _read_value(value)
        error = self._judge(said, None)
        if error.status in (429, 503):
            error.retry_after = _retry_after({}, said.message)
        return error

    def from_text(self, data: bytes) -> ProxyError:
        """The error in an ``event: error`` whose data is no JSON."""
        return self._judge(_read_body(data), None)

    def from_finish(self, reason: str, said: str = "") -> ProxyError:
        """The error for a finish reason that is a failure; *said* is the server's account of it, if any."""
        message = f"The server ended the answer with finish_reason {reason!r}."
        return ProxyError("upstream_failed", self._scrub(f"{said} ({message})" if said else message))

    def _judge(self, said: UpstreamError, status: int | None) -> ProxyError:
        outer = status
        status = said.status or outer
        kind = self._rule(said, status) or _kind(said, status, outer, self._request)
        message = self._scrub(said.message) or _silence(outer)
        if kind == "context_length_exceeded" and "maximum context length" not in message.lower():
            message = f"{message.rstrip()} (The request exceeds the model's maximum context length.)"
        elif kind == "upstream_auth_failed":
            message = f"The server refused the proxy's key (api_key of the backend): {message}"
        elif kind == "upstream_bad_response" and status == 404:  # noqa: PLR2004
            message = f"{message.rstrip()} (The server has no such path: check the backend's base_url.)"
        code = said.code if kind == "invalid_request" and said.code and _IDENTIFIER.fullmatch(said.code) else None
        return ProxyError(kind, message, param=said.param, code=code)

    def _rule(self, said: UpstreamError, status: int | None) -> str | None:
        for rule in self._rules:
            when = rule.when
            if (
                (when.status is None or when.status == status)
                and (when.code is None or when.code == said.code)
                and (when.type is None or when.type == said.type)
                and (when.message is None or re.search(when.message, said.message, re.IGNORECASE))
            ):
                return rule.then
        return None

    def _scrub(self, text: str) -> str:
        for secret in self._secrets:
            if secret:
                text = text.replace(secret, "[key]")
        text = _CREDENTIALS.sub(r"\1[credentials]@", text)
        text = _BEARER.sub(r"\1[key]", text)
        return _KEY.sub("[key]", text)


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


# --------------------------------------------------------------------------- the server's words


def _read_body(body: bytes) -> UpstreamError:
    text = body.strip()
    if text[:1] in (b"{", b"["):
        try:
            return _read_value(loads(text))
        except ValueError:
            pass
    if text[:5] == b"data:":  # an error that was framed as an event under an error status
        return _read_body(text.partition(b"\n")[0][5:])
    words = body.decode("utf-8", "replace").strip()
    if words[:1] == "<":
        words = " ".join(_TAG.sub(" ", _INVISIBLE.sub(" ", words)).split())
    return UpstreamError(words[:_MAX_WORDS])


def _read_value(value: Any) -> UpstreamError:
    said = UpstreamError()
    _collect(value, said, 0)
    said.message = said.message.strip()[:_MAX_WORDS]
    _read_inner(said)
    return said


def _collect(value: Any, said: UpstreamError, depth: int) -> None:
    """Fill *said* from *value*, outer words only where inner ones are missing."""
    if depth > 6:  # noqa: PLR2004 - no server nests its errors deeper
        return
    if isinstance(value, str):
        said.message = said.message or value
    elif isinstance(value, list):
        for item in value:
            if isinstance(item, dict | str):
                _collect(item, said, depth + 1)
                break
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


def _read_codes(value: dict[str, Any], said: UpstreamError) -> None:
    for key in ("code", "status", "status_code"):
        code = value.get(key)
        if isinstance(code, str) and code.isdecimal() and len(code) == 3:  # noqa: PLR2004 - a status as text
            code = int(code)
        if type(code) is int:
            if 400 <= code < 600 and said.status is None:  # noqa: PLR2004 - a status
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
        said.param = ".".join(str(step) for step in steps if step != "body")[:200] or None
    if said.param and said.param.startswith("body."):
        said.param = said.param.removeprefix("body.")
    inner = value.get("innererror")
    if isinstance(inner, dict):
        said.filtered = said.filtered or inner.get("code") == "ResponsibleAIPolicyViolation"


def _read_inner(said: UpstreamError) -> None:
    """A message that is JSON, or has JSON in it: the inner words and codes decide (Mistral, Gemini's proxies, LM Studio)."""
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


def _silence(status: int | None) -> str:
    return f"The server answered {status} without a word." if status else "The server reported an error without a word."


# --------------------------------------------------------------------------- what they mean

_OVERFLOW: Final = re.compile(
    r"maximum context length|context (?:length|window|size|budget)|exceed_context|context_(?:length|window)_exceeded"
    r"|max_kv_size|maximum (?:allowed )?(?:input|prompt) (?:length|tokens)|tokens_limit_reached"
    r"|(?:prompt|input|request)(?: is| are)? too (?:long|large)[^.]*tokens|prompt length \d+ exceeds"
    r"|too many tokens in (?:the )?prompt|context the overflows|cannot fit in a compaction"
    r"|leaves no room for (?:a summary|compacted context)|reduce the length of (?:the |either )?(?:messages|input|prompt|one)",
    re.IGNORECASE,
)
_NOT_OVERFLOW: Final = re.compile(r"max_model_len|per minute|per day|rate limit|quota", re.IGNORECASE)
_OVERFLOW_CODES: Final = frozenset(
    {
        "context_length_exceeded",
        "context_window_exceeded",
        "exceed_context_size_error",
        "tokens_limit_reached",
        "model_context_window_exceeded",
    }
)
_MODEL_WORDS: Final = re.compile(
    r"\bmodel\b.{0,80}?(?:not (?:found|exist|available|loaded|installed|supported)|does ?n.t exist|does not exist|unknown)"
    r"|(?:no such|unknown|invalid) model|model_not_found|no models? (?:are )?loaded|invalid model identifier"
    r"|deployment.{0,60}(?:does not exist|not found)|cached snapshot folder|repository not found|repo(?:sitory)? id must"
    r"|is not a local folder",
    re.IGNORECASE | re.DOTALL,
)
_MODEL_CODES: Final = frozenset({"model_not_found", "deploymentnotfound", "unknown_model", "no_such_model"})
_PATH_WORDS: Final = re.compile(
    r"^\W*(?:not found|file not found|404(?: page)? not found|404 not found|page not found|resource not found"
    r"|not_found|url not found)\W*$|unexpected endpoint|no route|cannot (?:post|get) |invalid url|unknown (?:url|path|endpoint)",
    re.IGNORECASE,
)
_DEAD_WORDS: Final = re.compile(r"\bdied\b|crash|shut ?down|terminated|out of memory|thread|not running", re.IGNORECASE)
_IMAGE_WORDS: Final = re.compile(r"\bimages?\b|image_url|vision|multimodal|mmproj", re.IGNORECASE)
_UNSUPPORTED_WORDS: Final = re.compile(
    r"not (?:currently )?support|n.t support|unsupported|only supported|not (?:a )?multimodal|not loaded|unknown variant"
    r"|only 'text'|should be 'text'|no vision|cannot (?:read|process|handle)|text[- ]only|not allowed|not enabled",
    re.IGNORECASE,
)
_PART_WORDS: Final = re.compile(
    r"only 'text'|should be 'text'|content part|content\[\]|content type|multimodal|unknown variant", re.IGNORECASE
)
_MEDIUM_FAULT: Final = re.compile(
    r"base64|image urls? (?:are|is) not|cannot identify|failed to (?:load|decode|fetch|download)|could not (?:load|decode|fetch)"
    r"|invalid image|corrupt",
    re.IGNORECASE,
)
_REQUEST_FAULT: Final = re.compile(
    r"jinja|chat.?template|--jinja|failed to parse (?:messages|tools|tool call arguments)|unknown reasoning format"
    r"|cannot use tools|failed to (?:parse|generate) (?:the )?grammar|initialize samplers|conversation roles must"
    r"|roles must alternate|unsupported param|validation error|extra inputs|invalid_request|bad request",
    re.IGNORECASE,
)
_REJECTED_FIELD: Final = re.compile(
    r"extra (?:inputs|fields)|extra_forbidden|unsupported (?:parameter|value)|unknown (?:field|parameter|argument)"
    r"|unrecognized (?:field|request argument)|is unsupported|unexpected keyword|not permitted",
    re.IGNORECASE,
)
_INVALID_TYPES: Final = re.compile(
    r"invalid_request|badrequest|bad request|validation|invalid_argument|unprocessable", re.IGNORECASE
)
_UNAVAILABLE_TYPES: Final = re.compile(
    r"service_?\s?unavailable|unavailable_error|overloaded|engine is currently busy", re.IGNORECASE
)
_RATE_WORDS: Final = re.compile(r"rate.?limit|too many requests|insufficient_quota|resource_exhausted", re.IGNORECASE)
_TIMEOUTS: Final = frozenset({408, 504, 522, 524})
_IDENTIFIER: Final = re.compile(r"[A-Za-z][\w.-]{0,63}")


def _kind(said: UpstreamError, status: int | None, outer: int | None, request: ClientRequest) -> str:
    """The key of the table of errors that *said* amounts to; *status* is the one that counts, *outer* the HTTP one."""
    words = said.message
    labels = f"{said.code or ''} {said.type or ''}"
    if outer in (401, 403, 407) or status in (401, 403, 407):
        return "upstream_auth_failed"
    if status == 429 or (status in (None, 413) and _RATE_WORDS.search(labels)):
        return "quota_exceeded" if said.code == "insufficient_quota" else "rate_limit_exceeded"
    if said.code == "content_filter" or said.filtered:
        return "content_filter"
    if said.code in _OVERFLOW_CODES or said.type in _OVERFLOW_CODES:
        return "context_length_exceeded"
    is_request = status is None or 400 <= status < 500
    if (is_request or status == 500) and _OVERFLOW.search(words) and not _NOT_OVERFLOW.search(words):
        return "context_length_exceeded"
    if status == 404 or (said.code or "").lower() in _MODEL_CODES:
        return _not_found(said, request)
    if is_request or status == 500:
        part = _part(words, request)
        if part:
            return part
    if status is None:
        return _streamed(said, labels)
    if status in _TIMEOUTS:
        return "upstream_timeout"
    if status == 503:
        return "upstream_unavailable"
    if status == 529:
        return "overloaded"
    if status == 402:
        return "upstream_failed"
    if 400 <= status < 500:
        if status == 400 and _MODEL_WORDS.search(words) and _is_about_model(said):
            return "model_not_found"
        return "unsupported_parameter" if _REJECTED_FIELD.search(f"{labels} {words}") else "invalid_request"
    if 300 <= status < 400:
        return "upstream_bad_response"
    if status == 500 and (_REQUEST_FAULT.search(words) or (request.part_kinds and _MEDIUM_FAULT.search(words))):
        return "invalid_request"
    return "upstream_failed"


def _streamed(said: UpstreamError, labels: str) -> str:
    """An error in a 200 without a status: its type decides, then its words."""
    if _UNAVAILABLE_TYPES.search(labels):
        return "upstream_unavailable"
    if _INVALID_TYPES.search(labels) or _REQUEST_FAULT.search(said.message):
        return "invalid_request"
    return "upstream_failed"


def _not_found(said: UpstreamError, request: ClientRequest) -> str:
    words = said.message
    if (said.code or "").lower() in _MODEL_CODES or said.type == "model_not_found" or said.param == "model":
        return "model_not_found"
    part = _part(words, request)
    if part:
        return part
    if _MODEL_WORDS.search(words) or (request.model and said.type == "NotFoundError" and request.model in words):
        return "model_not_found"
    if not words or _PATH_WORDS.search(words):
        return "upstream_bad_response"
    return "upstream_failed" if _DEAD_WORDS.search(words) else "invalid_request"


def _is_about_model(said: UpstreamError) -> bool:
    return said.param in (None, "model") and not _UNSUPPORTED_WORDS.search(said.message)


def _part(words: str, request: ClientRequest) -> str | None:
    """The kind of content that a server says it cannot take; only where the request has such content."""
    kinds = request.part_kinds
    if not kinds or _MEDIUM_FAULT.search(words) or not _UNSUPPORTED_WORDS.search(words):
        return None
    lowered = words.lower()
    for kind, error in (("audio", "audio_not_supported"), ("video", "invalid_request"), ("file", "file_not_supported")):
        if kind in kinds and kind in lowered:
            return error
    if "image" in kinds and (_IMAGE_WORDS.search(words) or _PART_WORDS.search(words)):
        return "image_not_supported"
    if _PART_WORDS.search(words):
        for kind, error in (("audio", "audio_not_supported"), ("file", "file_not_supported")):
            if kind in kinds:
                return error
    return None


# --------------------------------------------------------------------------- waits and secrets

_AGAIN_IN: Final = re.compile(
    r"(?:again in|retry after|wait)\s+(\d+(?:\.\d+)?)\s*(ms|milliseconds|m(?:in)?\w*|h\w*|s\w*)?", re.IGNORECASE
)
_CREDENTIALS: Final = re.compile(r"(\b[a-z][a-z0-9+.-]*://)[^/\s@:]+(?::[^/\s@]*)?@", re.IGNORECASE)
_BEARER: Final = re.compile(r"(\bbearer\s+)[A-Za-z0-9._~+/=-]{8,}", re.IGNORECASE)
_KEY: Final = re.compile(r"\b(?:sk|pk|gsk|xai|AIza|hf|nvapi)[-_][A-Za-z0-9_-]{12,}")
_TAG: Final = re.compile(r"<[^>]{0,2000}>")
_INVISIBLE: Final = re.compile(r"<(script|style)\b[^>]*>.*?(?:</\1>|\Z)", re.IGNORECASE | re.DOTALL)


def _retry_after(headers: Mapping[str, str], message: str) -> float | None:
    """Seconds to wait, from the headers or, failing them, from the words."""
    for wait in _waits(headers, message):
        if wait >= 0:
            return wait
    return None


def _waits(headers: Mapping[str, str], message: str) -> Iterator[float]:
    try:
        yield float(headers["retry-after-ms"]) / 1000
    except (KeyError, ValueError):
        pass
    value = headers.get("retry-after", "")
    try:
        yield float(value)
    except ValueError:
        try:
            until, now = parsedate_to_datetime(value), parsedate_to_datetime(headers.get("date", ""))
            yield (until - now).total_seconds()
        except (ValueError, TypeError):
            pass
    found = _AGAIN_IN.search(message)
    if found:
        unit = (found[2] or "s").lower()
        scale = 0.001 if unit in ("ms", "milliseconds") else 60 if unit[0] == "m" else 3600 if unit[0] == "h" else 1
        yield float(found[1]) * scale
