"""Any error of an upstream to the one error a client sees.

Three steps: find the server's own words (`error_words`), judge what they mean (the profile's rules first, then
`error_kinds`), scrub what must not leave the proxy.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping, Sequence
from email.utils import parsedate_to_datetime
from typing import Any, Final

from svir_proxy.client_request import ClientRequest
from svir_proxy.errors import ProxyError
from svir_proxy.profiles.schema import ErrorRule
from svir_proxy.response.error_kinds import judge
from svir_proxy.response.error_words import MAX_WORDS, UpstreamError, read_body, read_value
from svir_proxy.response.json_text import whole_characters

_AGAIN_IN: Final = re.compile(
    r"(?:again in|retry after|wait)\s+(\d+(?:\.\d+)?)\s*(ms|milliseconds|m(?:in)?\w*|h\w*|s\w*)?", re.IGNORECASE
)
_CREDENTIALS: Final = re.compile(r"(\b[a-z][a-z0-9+.-]*://)[^/\s@:]+(?::[^/\s@]*)?@", re.IGNORECASE)
_BEARER: Final = re.compile(r"(\bbearer\s+)[A-Za-z0-9._~+/=-]{8,}", re.IGNORECASE)
_KEY: Final = re.compile(r"\b(?:sk|pk|gsk|xai|AIza|hf|nvapi)[-_][A-Za-z0-9_-]{12,}")
_MAX_PARAM: Final = 200
_IDENTIFIER: Final = re.compile(r"[A-Za-z][\w.-]{0,63}")


_OVERFLOW_WORDS: Final = ("maximum context length", "prompt is too long", "exceeds the context window")
"""What clients look for: litellm and pydantic-ai, litellm and LangChain, LangChain in a stream."""
_OVERFLOW: Final = "(The prompt is too long: it exceeds the context window of this model, its maximum context length.)"


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
        said = read_body(body)
        error = self._judge(said, status)
        if error.status in (429, 503) and error.retry_after is None:
            error.retry_after = _retry_after(headers, said.message)
        return error

    def from_stream(self, value: Any) -> ProxyError:
        """The error in a parsed object inside a 200: a chunk, an event, a whole body."""
        said = read_value(value)
        error = self._judge(said, None)
        if error.status in (429, 503):
            error.retry_after = _retry_after({}, said.message)
        return error

    def from_text(self, data: bytes) -> ProxyError:
        """The error in an ``event: error`` whose data is no JSON."""
        return self._judge(read_body(data), None)

    def from_finish(self, reason: str, said: str = "") -> ProxyError:
        """The error for a finish reason that is a failure; *said* is the server's account of it, if any."""
        message = f"The server ended the answer with finish_reason {reason!r}."
        return ProxyError("upstream_failed", self.scrub(f"{said[:MAX_WORDS]} ({message})" if said else message))

    def _judge(self, said: UpstreamError, status: int | None) -> ProxyError:
        outer = status
        status = said.status or outer
        kind = self._rule(said, status) or judge(said, status, outer, self._request)
        message = self.scrub(said.message) or _silence(outer)
        if kind == "context_length_exceeded" and not all(words in message.lower() for words in _OVERFLOW_WORDS):
            message = f"{message.rstrip()} {_OVERFLOW}"
        elif kind == "upstream_auth_failed":
            message = f"The server refused the proxy's key (api_key of the backend): {message}"
        elif kind == "upstream_bad_response" and status == 404:
            message = f"{message.rstrip()} (The server has no such path: check the backend's base_url.)"
        code = self.scrub(said.code or "") if kind == "invalid_request" else ""
        param = self.scrub(said.param or "")[:_MAX_PARAM]  # cut last, so that no half of a key is left
        return ProxyError(kind, message, param=param or None, code=code if _IDENTIFIER.fullmatch(code) else None)

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

    def scrub(self, text: str) -> str:
        """*text* of a server without what must not leave the proxy."""
        for secret in self._secrets:
            if secret:
                text = text.replace(secret, "[key]")
        text = _CREDENTIALS.sub(r"\1[credentials]@", text)
        text = _BEARER.sub(r"\1[key]", text)
        return whole_characters(_KEY.sub("[key]", text))


def _silence(status: int | None) -> str:
    return f"The server answered {status} without a word." if status else "The server reported an error without a word."


def _retry_after(headers: Mapping[str, str], message: str) -> float | None:
    """Seconds to wait, from the headers or, failing them, from the words."""
    for wait in _waits(headers, message):
        if wait >= 0:
            return wait
    return None


def _waits(headers: Mapping[str, str], message: str) -> Iterator[float]:
    with contextlib.suppress(KeyError, ValueError):
        yield float(headers["retry-after-ms"]) / 1000
    value = headers.get("retry-after", "")
    try:
        yield float(value)
    except ValueError:
        try:
            until, now = parsedate_to_datetime(value), parsedate_to_datetime(headers.get("date", ""))
            yield (until - now).total_seconds()
        except (ValueError, TypeError, OverflowError):
            pass
    found = _AGAIN_IN.search(message)
    if found:
        unit = (found[2] or "s").lower()
        scale = 0.001 if unit in ("ms", "milliseconds") else 60 if unit[0] == "m" else 3600 if unit[0] == "h" else 1
        yield float(found[1]) * scale
