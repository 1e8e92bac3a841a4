"""Every error a client can see."""

from __future__ import annotations

import json

import pytest

from svir_proxy.conform import dialect
from svir_proxy.errors import KINDS, MAX_MESSAGE, ProxyError

WAITS = {
    # seconds: the headers
    None: {b"retry-after": b"1"},
    0: {b"retry-after": b"0", b"retry-after-ms": b"0"},
    0.25: {b"retry-after": b"1", b"retry-after-ms": b"250"},
    1: {b"retry-after": b"1"},
    1.5: {b"retry-after": b"2"},
    86_400: {b"retry-after": b"60"},
    float("inf"): {b"retry-after": b"60"},
    -3: {b"retry-after": b"0", b"retry-after-ms": b"0"},
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_canonical(kind):
    error = ProxyError(kind, "what happened")
    assert json.loads(error.body()) == error.envelope()
    assert dialect.check_error(error.body()) == []
    headers = dict(error.headers())
    assert (b"retry-after" in headers) == (error.status in (429, 503))
    assert (headers.get(b"x-should-retry") == b"false") != KINDS[kind].curable
    assert KINDS[kind].curable or error.status < 500 or kind == "upstream_auth_failed"


@pytest.mark.parametrize("kind", ["rate_limit_exceeded", "upstream_unavailable"])
@pytest.mark.parametrize(("wait", "headers"), WAITS.items())
def test_waits(kind, wait, headers):
    assert dict(ProxyError(kind, "x", retry_after=wait).headers()) == headers


@pytest.mark.parametrize(("wait", "is_final"), [(None, False), (0, False), (60, False), (61, True), (86_400, True)])
def test_a_quota_that_is_free_again_in_hours_is_not_asked_for_again(wait, is_final):
    headers = dict(ProxyError("quota_exceeded", "x", retry_after=wait).headers())
    assert headers.pop(b"x-should-retry", None) == (b"false" if is_final else None)
    assert set(headers) <= {b"retry-after", b"retry-after-ms"}


def test_a_wait_that_helps_nobody_is_not_told():
    assert ProxyError("upstream_timeout", "x", retry_after=7).headers() == []


def test_fields_of_the_envelope():
    assert ProxyError("invalid_request", " bad \n", param="n", code="bad_n").envelope() == {
        "error": {"message": "bad", "type": "invalid_request_error", "param": "n", "code": "bad_n"}
    }
    assert ProxyError("model_not_found", "x").envelope()["error"]["code"] == "model_not_found"


@pytest.mark.parametrize(
    ("kind", "message"), [("overloaded", "overloaded"), ("invalid_request", "invalid_request_error")]
)
def test_a_message_is_never_empty(kind, message):
    assert ProxyError(kind, " ").envelope()["error"]["message"] == message


def test_a_message_is_cut():
    exact, long = "x" * MAX_MESSAGE, "x" * (MAX_MESSAGE + 1)
    assert ProxyError("upstream_failed", exact).envelope()["error"]["message"] == exact
    assert ProxyError("upstream_failed", long).envelope()["error"]["message"] == "x" * (MAX_MESSAGE - 1) + "…"


def test_it_is_a_value_and_an_exception():
    error = ProxyError("overloaded", "x")
    assert error == ProxyError("overloaded", "x")
    assert error != ProxyError("overloaded", "y")
    assert {error: 1}[error] == 1
    assert str(error) == "overloaded: x"
    with pytest.raises(ProxyError) as caught:
        raise error
    assert caught.value is error
