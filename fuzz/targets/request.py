"""A client's body: read, rewritten for every profile and explained, or refused in words; nothing else."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from functools import cache
from typing import Final

from fuzz.controls import Controls, chosen
from fuzz.targets.circumstances import PROFILES
from svir_proxy.cli import explain
from svir_proxy.client_request import ClientRequest
from svir_proxy.conform import dialect
from svir_proxy.conform.cases import load_cases
from svir_proxy.errors import ProxyError
from svir_proxy.profiles.schema import Profile
from svir_proxy.request import UpstreamRequest, rewrite_request
from svir_proxy.request.reasons import reason
from svir_proxy.response.json_text import dumps
from svir_proxy.settings import Backend
from tests.request.support import bodies

_REFUSALS: Final = {
    "invalid_json", "invalid_request", "unsupported_parameter", "image_not_supported", "audio_not_supported",
    "file_not_supported", "image_url_not_allowed",
}  # fmt: skip
_BACKEND: Final = Backend.model_validate({"name": "b", "base_url": "http://127.0.0.1:1/v1"})
_NO_RULES: Final = {"answers": [], "deprecated": None}


def check(data: bytes) -> str:
    """Raises where *data* breaks the way up; otherwise whether it was rewritten or how it was refused."""
    controls, raw = Controls.split(data)
    profile = controls.pick(PROFILES)
    try:
        request = ClientRequest.from_json(raw, id="req-1", received=1_790_000_000)
        result = rewrite_request(request, profile, "served")
    except ProxyError as error:
        assert error.kind in _REFUSALS
        found = dialect.check_error(error.body())
        assert not found, "\n".join(found)
        return error.kind
    _check_explained(profile, result)
    try:
        content = dumps(result.body)
    except ValueError:
        return "too deep to be sent"  # which the server refuses in so many words, before it connects
    with contextlib.suppress(ValueError):  # too deep was only what is left out
        again = ClientRequest.from_json(raw, id="", received=1).body
        assert request.blobs or dumps(request.body) == dumps(again), "a rewrite changed the client's body"
    sent = content if request.blobs is None else b"".join(request.blobs.fill(content))
    assert isinstance(json.loads(sent), dict)
    assert json.loads(sent)["model"] == "served" or "model" not in result.body
    if result.expectation is not None:
        result.expectation.unmet(["f"], "{}")
        result.expectation.unmet([], "{}")
    return "rewritten"


def _check_explained(profile: Profile, result: UpstreamRequest) -> None:
    """Each change is told in words, and in a header that no client can add to."""
    for note in result.notes:
        assert reason(note, profile).done, note
    header = ", ".join(result.notes)
    assert len(header.encode("ascii")) < 8000
    assert not set(header) & set("\r\n\0")
    with contextlib.suppress(RecursionError):  # which the command tells in words
        for as_json in (False, True):
            assert explain._explanation(_backend(profile), [], result, _NO_RULES, as_json=as_json)  # noqa: SLF001 - all but its file


def seeds() -> Iterator[bytes]:
    """What clients were recorded to send, and the requests of the cases, over all profiles."""
    texts = [json.dumps(body) for body in bodies().values()] + [json.dumps(case.request) for case in load_cases()]
    for number, text in enumerate(dict.fromkeys(texts)):
        yield chosen(number % len(PROFILES)) + text.encode()


@cache
def _named(name: str) -> Backend:
    return _BACKEND.model_copy(update={"profile": name})


def _backend(profile: Profile) -> Backend:
    return _named(profile.name)
