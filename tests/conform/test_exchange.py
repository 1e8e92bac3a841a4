"""Requests and answers as values, and excerpts of what was sent."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from svir_proxy.conform.exchange import EXCERPT, Exchange, Request, excerpt


@pytest.mark.parametrize(
    ("request_", "verb", "content", "streamed"),
    [
        (Request("/v1/models"), "GET", None, False),
        (Request("/c", {"a": 1}), "POST", b'{"a": 1}', False),
        (Request("/c", {"stream": True}), "POST", b'{"stream": true}', True),
        (Request("/c", {"stream": "yes"}), "POST", b'{"stream": "yes"}', False),
        (Request("/c", raw=b"{"), "POST", b"{", False),
        (Request("/c", method="GET"), "GET", None, False),
    ],
)
def test_a_request(request_: Request, verb: str, content: bytes | None, *, streamed: bool) -> None:
    assert (request_.verb, request_.content, request_.streamed) == (verb, content, streamed)


@pytest.mark.parametrize(
    ("status", "ok", "refused"), [(None, False, False), (200, True, False), (302, False, False), (400, False, True)]
)
def test_a_status(status: int | None, *, ok: bool, refused: bool) -> None:
    exchange = Exchange(Request("/"), status)
    assert (exchange.ok, exchange.refused) == (ok, refused)


@given(st.binary(max_size=2000), st.text(max_size=10))
def test_an_excerpt_is_short_and_of_one_line(data: bytes, around: str) -> None:
    piece = excerpt(data, around)
    assert len(piece) <= EXCERPT + 2
    assert "\n" not in piece


def test_an_excerpt_has_what_it_is_about() -> None:
    assert "needle" in excerpt("hay " * 500 + "needle" + " hay" * 500, "needle")
