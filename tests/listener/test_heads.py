"""Heads of messages, as bytes."""

from __future__ import annotations

import httptools
import pytest

from svir_proxy.listener.heads import authority, request_head, response_head

RESPONSES: list[tuple[int, list[tuple[bytes, bytes]], tuple[bytes, int | None, bool]]] = [
    (200, [], (b"HTTP/1.1 200 OK", None, False)),
    (200, [(b"content-length", b"3")], (b"HTTP/1.1 200 OK\r\ncontent-length: 3", 3, False)),
    (204, [], (b"HTTP/1.1 204 No Content", 0, False)),
    (404, [(b"connection", b"Close")], (b"HTTP/1.1 404 Not Found\r\nconnection: Close", None, True)),
    (599, [(b"x", b"\xe9")], (b"HTTP/1.1 599 \r\nx: \xe9", None, False)),
]


@pytest.mark.parametrize(("status", "headers", "head"), RESPONSES)
def test_response(status: int, headers: list[tuple[bytes, bytes]], head: tuple[bytes, int | None, bool]) -> None:
    assert response_head(status, headers) == head


@pytest.mark.parametrize(
    "field",
    [
        (b"x", b"1\r\ny: 2"),
        (b"x", b"1\n"),
        (b"x", b"\r"),
        (b"x\r\ny", b"1"),
        (b"x", b"\0"),
        (b"transfer-encoding", b"a"),
    ],
)
def test_a_header_that_would_be_something_else_on_the_wire(field: tuple[bytes, bytes]) -> None:
    with pytest.raises(ValueError, match=r"the response holds|frames the body"):
        response_head(200, [field])


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        (b"http://a", b"a"),
        (b"http://a/b@c", b"a"),
        (b"http://a:1?b", b"a:1"),
        (b"http://u:p@a:1#b", b"a:1"),
        (b"http://u@v@a/", b"a"),
        (b"https://[::1]:80/", b"[::1]:80"),
        (b"/http://a/", b""),
        (b"*", b""),
    ],
)
def test_authority(target: bytes, expected: bytes) -> None:
    assert authority(target) == expected


def test_a_request_without_its_upgrade_is_read_as_it_was() -> None:
    class Reader:
        def __init__(self) -> None:
            self.url = b""
            self.headers: list[tuple[bytes, bytes]] = []

        def on_url(self, url: bytes) -> None:
            self.url += url

        def on_header(self, name: bytes, value: bytes) -> None:
            self.headers.append((name, value))

    headers = [
        (b"host", b"a"),
        (b"connection", b"upgrade"),
        (b"x", b""),
        (b"y", b"\xe9 , b"),
        (b"content-length", b"2"),
    ]
    reader = Reader()
    parser = httptools.HttpRequestParser(reader)
    parser.feed_data(request_head(b"POST", b"/a?b", "1.1", [*headers, (b"upgrade", b"h2c"), (b"upgrade", b"x/1")]))
    assert (reader.url, reader.headers) == (b"/a?b", headers)
    assert (parser.get_method(), parser.get_http_version(), parser.should_upgrade()) == (b"POST", "1.1", False)
