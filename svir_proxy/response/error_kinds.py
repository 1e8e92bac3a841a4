"""What a server's words about a failure mean: the key of the table of errors they amount to.

Statuses lie (mlx-lm answers everything with 404, llama.cpp request faults with 500), codes are missing or numeric, so
words decide more often than one would wish. Wordings that one server alone uses stand in its profile instead.
"""

from __future__ import annotations

import re
from typing import Final

from svir_proxy.client_request import ClientRequest
from svir_proxy.response.error_words import UpstreamError

_OVERFLOW: Final = re.compile(
    r"maximum context length|context (?:length|window|size|budget)|exceed_context|context_(?:length|window)_exceeded"
    r"|max_kv_size|maximum (?:allowed )?(?:input|prompt) (?:length|tokens)|tokens_limit_reached"
    r"|(?:prompt|input|request)(?: is| are)? too (?:long|large)[^.]*tokens|prompt length \d+ exceeds"
    r"|too many tokens in (?:the )?prompt|context the overflows|cannot fit in a compaction"
    r"|leaves no room for (?:a summary|compacted context)"
    r"|reduce the length of (?:the |either )?(?:messages|input|prompt|one)",
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
    r"\bmodel\b.{0,80}?(?:not (?:found|exist|available|loaded|installed|supported)"
    r"|does ?n.t exist|does not exist|unknown)"
    r"|(?:no such|unknown|invalid) model|model_not_found|no models? (?:are )?loaded|invalid model identifier"
    r"|deployment.{0,60}(?:does not exist|not found)|cached snapshot folder|repository not found"
    r"|repo(?:sitory)? id must|is not a local folder",
    re.IGNORECASE | re.DOTALL,
)
_MODEL_CODES: Final = frozenset({"model_not_found", "deploymentnotfound", "unknown_model", "no_such_model"})
_PATH_WORDS: Final = re.compile(
    r"^\W*(?:not found|file not found|404(?: page)? not found|404 not found|page not found|resource not found"
    r"|not_found|url not found)\W*$|unexpected endpoint|no route|cannot (?:post|get) |invalid url"
    r"|unknown (?:url|path|endpoint)",
    re.IGNORECASE,
)
_DEAD_WORDS: Final = re.compile(r"\bdied\b|crash|shut ?down|terminated|out of memory|thread|not running", re.IGNORECASE)
_IMAGE_WORDS: Final = re.compile(r"\bimages?\b|image_url|vision|multimodal|mmproj", re.IGNORECASE)
_UNSUPPORTED_WORDS: Final = re.compile(
    r"not (?:currently )?support|n.t support|unsupported|only supported|not (?:a )?multimodal|not loaded"
    r"|unknown variant|only 'text'|should be 'text'|no vision|cannot (?:read|process|handle)|text[- ]only"
    r"|not allowed|not enabled",
    re.IGNORECASE,
)
_PART_WORDS: Final = re.compile(
    r"only 'text'|should be 'text'|content part|content\[\]|content type|multimodal|unknown variant", re.IGNORECASE
)
_MEDIUM_FAULT: Final = re.compile(
    r"base64|image urls? (?:are|is) not|cannot identify|failed to (?:load|decode|fetch|download)"
    r"|could not (?:load|decode|fetch)|invalid image|corrupt",
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


def judge(said: UpstreamError, status: int | None, outer: int | None, request: ClientRequest) -> str:
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
