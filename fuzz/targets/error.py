"""The response of a status that is no success: one canonical error, and what it teaches leads to a request again."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Final

from fuzz.controls import Controls, chosen
from fuzz.targets.circumstances import PROFILES, REQUESTS, numbers, position_of_profile, position_of_request
from svir_proxy.conform import dialect
from svir_proxy.conform.cases import load_cases
from svir_proxy.conform.judge import UPSTREAM_KEY
from svir_proxy.errors import KINDS, ProxyError
from svir_proxy.request import rewrite_request
from svir_proxy.request.retry import apply_learned, learn_from
from svir_proxy.response.json_text import dumps
from svir_proxy.response.upstream_error import ErrorReader

_STATUSES: Final = [400, 401, 402, 403, 404, 408, 409, 413, 415, 422, 424, 429, 499, 500, 501, 502, 503, 504, 524, 529]
_WAITS: Final = [
    {}, {"retry-after": "7"}, {"retry-after": "0.5"}, {"retry-after": "-1"}, {"retry-after": "inf"},
    {"retry-after": "nan"}, {"retry-after-ms": "1e400"}, {"retry-after": "Wed, 21 Oct 2026 07:28:00 GMT"},
    {"retry-after": "Wed, 21 Oct 2026 07:28:00 GMT", "date": "Wed, 21 Oct 2026 07:27:00 GMT"},
]  # fmt: skip


def check(data: bytes) -> str:
    """Raises where *data* breaks the reading of errors; otherwise the kind of the error."""
    controls, body = Controls.split(data)
    profile, request = controls.pick(PROFILES), controls.pick(REQUESTS)
    reader = ErrorReader(request, profile.errors, [UPSTREAM_KEY])
    status, headers = controls.pick(_STATUSES), controls.pick(_WAITS)
    at = len(body) * controls.number() // 255
    if at:
        body = body[:at] + UPSTREAM_KEY.encode() + body[at:]  # some servers repeat what they were sent
    error = reader.from_response(status, headers, body)
    _accept(error)
    _accept(reader.from_text(body))
    try:
        rewritten = rewrite_request(request, profile, "m")
    except ProxyError:
        return error.kind
    news = learn_from(error, rewritten.body, profile)
    learned = apply_learned(profile, news)
    try:
        json.loads(dumps(rewrite_request(request, learned, "m").body))
    except ProxyError as refused:
        _accept(refused)
    return error.kind


def seeds() -> Iterator[bytes]:
    """The recorded errors, each with its own profile, status and a request like its own."""
    for case in load_cases():
        status = case.response["status"]
        if status is not None and status >= 300:
            known = _STATUSES.index(status) if status in _STATUSES else 0
            yield chosen(position_of_profile(case), *numbers(position_of_request(case)), known) + case.body


def _accept(error: ProxyError) -> None:
    assert error.kind in KINDS
    found = dialect.check_error(error.body())
    assert not found, "\n".join(found)
    assert UPSTREAM_KEY[:10].encode() not in error.body(), "the key leaked, or half of it"
    wait = dict(error.headers()).get(b"retry-after")
    assert (wait is not None) == (error.status in (429, 503))
    assert wait is None or 0 <= int(wait) <= 60
