"""The client against a scripted server: it takes what comes, and what goes wrong is part of the answer."""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from svir_proxy.conform.client import WRONG_KEY, Client, root_of
from svir_proxy.conform.exchange import Request

CHAT = Request("/v1/chat/completions", {"stream": True})
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"


@contextmanager
def serving(*answers: bytes) -> Iterator[tuple[str, list[bytes]]]:
    """A server that reads a request, sends the next of *answers*, and closes; gives its address and the requests."""
    received: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            for answer in answers:
                connection, _ = listener.accept()
                with connection:
                    received.append(_request(connection))
                    connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}", received
        thread.join(20)


def _request(connection: socket.socket) -> bytes:
    """A request, head and body."""
    data = b""
    while b"\r\n\r\n" not in data:
        data += connection.recv(65536)
    head, _, body = data.partition(b"\r\n\r\n")
    length = re.search(rb"content-length: (\d+)", head, re.IGNORECASE)
    while length and len(body) < int(length[1]):
        body += connection.recv(65536)
    return head + b"\r\n\r\n" + body


def test_an_answer_is_taken_as_it_is() -> None:
    body = b"data: {\r\n\r\n\xff"
    with (
        serving(HEAD + b"content-length: %d\r\nX-Odd: 1\r\n\r\n" % len(body) + body) as (url, received),
        Client(url, "sk-1") as client,
    ):
        exchange = client.ask(CHAT)
    assert (exchange.status, exchange.body, exchange.clean, exchange.headers["x-odd"]) == (200, body, True, "1")
    assert b"POST /v1/chat/completions HTTP/1.1" in received[0]
    assert b"authorization: Bearer sk-1" in received[0]
    assert b'{"stream": true}' in received[0]


@pytest.mark.parametrize(
    ("answer", "status", "failure"),
    [
        (b"", None, "disconnected"),
        (HEAD + b"transfer-encoding: chunked\r\n\r\n4\r\ndata", 200, "peer closed"),
        (b"SSH-2.0\r\n\r\n", None, "RemoteProtocolError"),
    ],
    ids=["closed", "cut", "no HTTP"],
)
def test_what_goes_wrong_is_told(answer: bytes, status: int | None, failure: str) -> None:
    with serving(answer) as (url, _), Client(url) as client:
        exchange = client.ask(CHAT)
    assert exchange.status == status
    assert failure in exchange.failure
    assert not (exchange.clean and exchange.status)
    assert not exchange.late


def test_nobody_there() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    with Client(url) as client:
        assert "ConnectError" in client.ask(CHAT).failure


def test_a_wrong_key_is_not_the_key() -> None:
    empty = HEAD + b"content-length: 0\r\n\r\n"
    with serving(empty) as (url, received), Client(url, "sk-1") as client:
        client.ask(Request("/v1/models", key="wrong"))
    assert WRONG_KEY.encode() in received[0]
    assert b"sk-1" not in received[0]


def test_a_client_that_leaves_does_not_read_to_the_end() -> None:
    begun = HEAD + b'\r\ndata: {"content": "a"}\n\n'
    with serving(begun) as (url, _), Client(url) as client:
        exchange = client.ask(Request("/", {}, leave=b'"content":'))
    assert (exchange.status, exchange.clean) == (200, True)


def test_a_busy_server_is_asked_again() -> None:
    busy = b"HTTP/1.1 503 No\r\nretry-after: 0\r\ncontent-length: 0\r\n\r\n"
    with serving(busy, busy, HEAD + b"content-length: 0\r\n\r\n") as (url, received), Client(url) as client:
        assert client.ask(CHAT).status == 200
    assert len(received) == 3
    with serving(busy) as (url, _), Client(url, tries=1) as client:
        assert client.ask(CHAT).status == 503


@pytest.mark.parametrize("silent", [b"", HEAD + b"\r\ndata: {}\n\n"], ids=["before", "within"])
def test_an_answer_that_takes_too_long_is_late(silent: bytes) -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        Client(f"http://127.0.0.1:{listener.getsockname()[1]}", seconds=0.2) as client,
    ):
        held: list[socket.socket] = []

        def serve() -> None:
            held.append(listener.accept()[0])
            held[0].sendall(silent)

        thread = threading.Thread(target=serve)
        thread.start()
        exchange = client.ask(CHAT)
        thread.join()
        held[0].close()
    assert exchange.late
    assert "in" in exchange.failure


@pytest.mark.parametrize(
    ("url", "root"),
    [
        ("http://h:1/v1", "http://h:1"),
        ("http://h:1/v1/", "http://h:1"),
        ("https://h/api", "https://h/api"),
        ("http://h/", "http://h"),
    ],
)
def test_an_address_with_or_without_v1(url: str, root: str) -> None:
    assert root_of(url) == root
