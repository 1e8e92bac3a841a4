"""Request heads, byte by byte, and what never becomes one."""

from __future__ import annotations

from typing import Any

import httptools
import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from svir_proxy.server.transport.head import outgoing, post_head

URL = "http://h:8/v1/x"


async def _stream() -> Any:
    yield b"abc"


def _request(method: str = "POST", url: Any = URL, headers: Any = None, **content: Any) -> httpx.Request:
    return httpx.Request(method, url, headers=headers, **content)


# name: (request, head, length of the content)
WRITTEN: dict[str, tuple[dict[str, Any], bytes, int | None]] = {
    "bytes": ({"content": b"abc"}, b"POST /v1/x HTTP/1.1\r\nHost: h:8\r\nContent-Length: 3\r\n\r\n", 3),
    "no content": ({"method": "GET"}, b"GET /v1/x HTTP/1.1\r\nHost: h:8\r\n\r\n", 0),
    "stream": ({"content": _stream()}, b"POST /v1/x HTTP/1.1\r\nHost: h:8\r\nTransfer-Encoding: chunked\r\n\r\n", None),
    "stream of a length": (
        {"content": _stream(), "headers": {"content-length": "3"}},
        b"POST /v1/x HTTP/1.1\r\nHost: h:8\r\ncontent-length: 3\r\n\r\n",
        3,
    ),
    "bare stream": (
        {"stream": httpx.AsyncByteStream()},
        b"POST /v1/x HTTP/1.1\r\nhost: h:8\r\ntransfer-encoding: chunked\r\n\r\n",
        None,
    ),
    "bare bytes, chunked": (
        {"stream": httpx.ByteStream(b"abc"), "headers": {"transfer-encoding": "chunked"}},
        b"POST /v1/x HTTP/1.1\r\ntransfer-encoding: chunked\r\nhost: h:8\r\n\r\n",
        None,
    ),
    "target": (
        {"method": "GET", "url": "http://h:8/a b?q=\xe9 #frag"},
        b"GET /a%20b?q=%C3%A9%20 HTTP/1.1\r\nHost: h:8\r\n\r\n",
        0,
    ),
    "header as given": (
        {"method": "GET", "headers": [("X-A", "1"), ("x-a", "\t2 "), (b"X-B", b"\xe9")]},
        b"GET /v1/x HTTP/1.1\r\nHost: h:8\r\nX-A: 1\r\nx-a: \t2 \r\nX-B: \xe9\r\n\r\n",
        0,
    ),
}


@pytest.mark.parametrize("name", WRITTEN)
def test_written(name: str) -> None:
    arguments, head, length = WRITTEN[name]
    out = outgoing(_request(**arguments))
    assert (out.head, out.length) == (head, length)


def test_bytes_given_as_a_stream_are_bytes_once_read() -> None:
    request = _request(stream=httpx.ByteStream(b"abc"))
    request.read()
    out = outgoing(request)
    assert out.head.endswith(b"content-length: 3\r\n\r\n")
    assert (out.content, out.length) == (b"abc", 3)


class _Target(httpx.URL):
    """An URL whose target was not made by httpx's own quoting."""

    target = b"/"

    @property
    def raw_path(self) -> bytes:
        return self.target


# What is wrong with a request, and the request.
REFUSED: dict[str, dict[str, Any]] = {
    "CR LF in a value": {"headers": [(b"a", b"1\r\nX: y")]},
    "LF in a value": {"headers": [(b"a", b"1\nX: y")]},
    "CR in a value": {"headers": [(b"a", b"1\rX: y")]},
    "NUL in a value": {"headers": [(b"a", b"1\x00")]},
    "control in a value": {"headers": [(b"a", b"1\x1b")]},
    "CR LF in a name": {"headers": [(b"a: 1\r\nX", b"y")]},
    "colon in a name": {"headers": [(b"a:b", b"y")]},
    "colon and blank in a name": {"headers": [(b"transfer-encoding: chunked, a", b"y")]},
    "blank in a name": {"headers": [(b"a ", b"y")]},
    "empty name": {"headers": [(b"", b"y")]},
    "non-ASCII name": {"headers": [(b"\xe9", b"y")]},
    "CR LF in the method": {"method": "GET / HTTP/1.1\r\nX: y\r\n\r\n"},
    "blank in the method": {"method": "GET /x"},
    "empty method": {"method": ""},
    "non-ASCII method": {"method": "G\xc9T "},
    "two lengths": {"headers": [("content-length", "3"), ("Content-Length", "3")], "content": b"abc"},
    "length of no digits": {"headers": {"content-length": "+3"}, "content": b"abc"},
    "negative length": {"headers": {"content-length": "-1"}, "content": _stream()},
    "wrong length": {"headers": {"content-length": "4"}, "content": b"abc"},
    "length and coding": {"headers": {"content-length": "3", "transfer-encoding": "chunked"}, "content": _stream()},
    "coding gzip": {"headers": {"transfer-encoding": "gzip"}, "content": _stream()},
    "chunked twice": {
        "headers": [("transfer-encoding", "chunked"), ("transfer-encoding", "chunked")],
        "content": _stream(),
    },
    "two hosts": {"headers": [("host", "a"), ("Host", "b")]},
    "synchronous stream": {"stream": httpx.SyncByteStream()},
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    with pytest.raises(httpx.LocalProtocolError) as caught:
        outgoing(_request(**REFUSED[name]))
    assert "X: y" not in str(caught.value)


@pytest.mark.parametrize("target", [b"/a b", b"/\r\nX: y", b"/\n", b"/\x00", b"/\x7f", b"/\xe9", b""])
def test_refused_targets(target: bytes) -> None:
    url = _Target(URL)
    url.target = target
    request = _request()
    request.url = url
    with pytest.raises(httpx.LocalProtocolError):
        outgoing(request)


class _Server:
    """What a server would take the head for."""

    def __init__(self) -> None:
        self.headers: list[tuple[bytes, bytes]] = []
        self.heads = 0

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers.append((name, value))

    def on_headers_complete(self) -> None:
        self.heads += 1


@given(st.lists(st.tuples(st.binary(max_size=6), st.binary(max_size=12)), max_size=4))
def test_any_header_is_refused_or_arrives_as_itself(pairs: list[tuple[bytes, bytes]]) -> None:
    request = _request("GET", headers=pairs)
    try:
        out = outgoing(request)
    except httpx.LocalProtocolError:
        assert pairs
        return
    server = _Server()
    httptools.HttpRequestParser(server).feed_data(out.head)
    assert server.heads == 1
    assert server.headers == [(name, value.lstrip(b" \t")) for name, value in request.headers.raw]


@pytest.mark.parametrize(
    ("more", "lines"),
    [
        ({}, b""),
        ({"traceparent": "00-1-2-01", "tracestate": "a=b"}, b"traceparent: 00-1-2-01\r\ntracestate: a=b\r\n"),
        ({"x": "1\r\ny: 2"}, None),
        ({"x": "1\ny: 2"}, None),
        ({"x y": "1"}, None),
        ({"x": "\0"}, None),
    ],
)
def test_a_prepared_head_takes_headers_of_one_request(more: dict[str, str], lines: bytes | None) -> None:
    head = post_head(httpx.URL("http://h/v1"), httpx.Headers({"a": "b"}))
    if lines is None:
        with pytest.raises(httpx.LocalProtocolError, match="a header holds a character"):
            head.adding(more)
        return
    before, after = head.outgoing(b"{}").head, head.adding(more).outgoing(b"{}").head
    assert after == before.replace(b"content-length", lines + b"content-length")
    assert head.outgoing(b"{}").head == before
