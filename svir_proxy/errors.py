"""Every error a client can see.

One table, `KINDS`, holds status, type and code of each; nothing else in the code base names a status for a client.
A `ProxyError` is a value as well as an exception: the sans-I/O core carries it in an event, the server raises it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import orjson

MAX_MESSAGE: Final = 2000
"""Characters of an error message that reach a client: some servers repeat the whole prompt in theirs."""

RETRY_AFTER_LIMIT: Final = 60.0
"""Seconds. Clients either give up or sleep for as long as they are told; a wait beyond this helps neither."""


class Kind(NamedTuple):
    """One row of the table of errors."""

    status: int
    type: str
    code: str | None
    curable: bool = False
    """Whether the same request can succeed when it is sent again."""


_INVALID = "invalid_request_error"
_UPSTREAM = "upstream_error"

KINDS: Final[dict[str, Kind]] = {
    # the request, as the server judged it
    "invalid_request": Kind(400, _INVALID, None),
    "context_length_exceeded": Kind(400, _INVALID, "context_length_exceeded"),
    "image_not_supported": Kind(400, _INVALID, "image_not_supported"),
    "audio_not_supported": Kind(400, _INVALID, "audio_not_supported"),
    "file_not_supported": Kind(400, _INVALID, "file_not_supported"),
    "image_url_not_allowed": Kind(400, _INVALID, "image_url_not_allowed"),
    "unsupported_parameter": Kind(400, _INVALID, "unsupported_parameter"),
    "content_filter": Kind(400, _INVALID, "content_filter"),
    # the request, as the proxy judged it
    "invalid_json": Kind(400, _INVALID, "invalid_json"),
    "request_too_large": Kind(413, _INVALID, "request_too_large"),
    "unsupported_media_type": Kind(415, _INVALID, None),
    "request_timeout": Kind(408, _INVALID, "request_timeout", curable=True),
    "invalid_api_key": Kind(401, _INVALID, "invalid_api_key"),
    "model_not_allowed": Kind(403, "permission_error", "model_not_allowed"),
    "endpoint_not_allowed": Kind(403, "permission_error", "endpoint_not_allowed"),
    "forbidden_host": Kind(403, "permission_error", "forbidden_host"),
    "forbidden_origin": Kind(403, "permission_error", "forbidden_origin"),
    "model_not_found": Kind(404, _INVALID, "model_not_found"),
    "unknown_url": Kind(404, _INVALID, "unknown_url"),
    "method_not_allowed": Kind(405, _INVALID, "method_not_allowed"),
    "rate_limit_exceeded": Kind(429, "rate_limit_error", "rate_limit_exceeded", curable=True),
    "quota_exceeded": Kind(429, "rate_limit_error", "quota_exceeded", curable=True),
    "client_closed": Kind(499, _INVALID, "client_closed"),
    # the upstream
    "upstream_auth_failed": Kind(502, _UPSTREAM, "upstream_auth_failed"),
    "upstream_unreachable": Kind(502, _UPSTREAM, "upstream_unreachable", curable=True),
    "upstream_bad_response": Kind(502, _UPSTREAM, "upstream_bad_response", curable=True),
    "upstream_failed": Kind(502, _UPSTREAM, "upstream_failed", curable=True),
    "stream_truncated": Kind(502, _UPSTREAM, "stream_truncated", curable=True),
    "upstream_unavailable": Kind(503, _UPSTREAM, "upstream_unavailable", curable=True),
    "overloaded": Kind(503, _UPSTREAM, "overloaded", curable=True),
    "upstream_timeout": Kind(504, _UPSTREAM, "upstream_timeout", curable=True),
    # the proxy itself
    "internal_error": Kind(500, "server_error", "internal_error", curable=True),
}

_WAITS: Final = frozenset({429, 503})
"""Statuses that always carry ``Retry-After``."""


@dataclass(slots=True)
class ProxyError(Exception):
    """An error in the proxy's own terms.

    Attributes:
        kind: A key of `KINDS`.
        message: What happened, where, and what to do; the server's own words where it had any.
        param: The request field at fault, or None.
        code: A more telling code than the kind's (the server's own); None: the kind's.
        retry_after: Seconds until a repeat makes sense; None: not known.
    """

    kind: str
    message: str
    param: str | None = None
    code: str | None = None
    retry_after: float | None = None

    __hash__ = Exception.__hash__

    def __str__(self) -> str:
        return f"{self.kind}: {self.message}"

    @property
    def status(self) -> int:
        """The HTTP status."""
        return KINDS[self.kind].status

    def envelope(self) -> dict[str, Any]:
        """The canonical error object, all four keys present."""
        kind = KINDS[self.kind]
        message = _whole(self.message.strip()) or kind.code or kind.type
        if len(message) > MAX_MESSAGE:
            message = message[: MAX_MESSAGE - 1] + "…"
        param = None if self.param is None else _whole(self.param)
        code = kind.code if self.code is None else _whole(self.code)
        return {"error": {"message": message, "type": kind.type, "param": param, "code": code}}

    def body(self) -> bytes:
        """The envelope as JSON."""
        return orjson.dumps(self.envelope())

    def headers(self) -> list[tuple[bytes, bytes]]:
        """Headers that say whether and when a repeat makes sense."""
        kind = KINDS[self.kind]
        headers: list[tuple[bytes, bytes]] = []
        if kind.status in _WAITS:
            wait = min(max(self.retry_after if self.retry_after is not None else 1.0, 0.0), RETRY_AFTER_LIMIT)
            headers.append((b"retry-after", b"%d" % math.ceil(wait)))
            if wait < 1:
                headers.append((b"retry-after-ms", b"%d" % math.ceil(wait * 1000)))
        # A quota of a day or a month is still used up after the longest wait that is told, and the one after that.
        is_over_for_long = self.kind == "quota_exceeded" and (self.retry_after or 0.0) > RETRY_AFTER_LIMIT
        if not kind.curable or is_over_for_long:
            headers.append((b"x-should-retry", b"false"))
        return headers


def _whole(text: str) -> str:
    """*text* without lone surrogates, which a server's words may hold and no UTF-8 can say."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
