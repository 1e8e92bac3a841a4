"""What clients send, and what stands on the wire in answer: bytes in, bytes out."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from itertools import chain, repeat
from typing import Any, Final

import pytest
import uvicorn
from uvicorn.server import ServerState

from svir_proxy.listener import ClientConnection, ClientLimits
from tests.dialect import check_dialect

LIMITS: Final = ClientLimits()


class Wire(asyncio.Transport):
    """The other end of a connection, whose peer takes what is written unless it is *slow*."""

    def __init__(self) -> None:
        super().__init__()
        self.said = b""
        self.closed = self.aborted = self.resting = self.half_closed = False
        self.unsent = 0

    def write(self, data: Any) -> None:
        assert not self.closed
        self.said += data

    def write_eof(self) -> None:
        self.half_closed = True

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.closed = self.aborted = True

    def is_closing(self) -> bool:
        return self.closed

    def pause_reading(self) -> None:
        self.resting = True

    def resume_reading(self) -> None:
        self.resting = False

    def get_write_buffer_size(self) -> int:
        return self.unsent


class Clock:
    """A loop whose time is told, and whose timers are run by hand."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.due: list[tuple[float, Callable[[], None]]] = []
        self._loop = asyncio.get_running_loop()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loop, name)

    def time(self) -> float:
        return self.now

    def call_later(self, seconds: float, callback: Callable[[], None]) -> asyncio.TimerHandle:
        return self.call_at(self.now + seconds, callback)

    def call_at(self, when: float, callback: Callable[[], None]) -> asyncio.TimerHandle:
        self.due.append((when, callback))
        return asyncio.TimerHandle(when, callback, (), self._loop)

    def pass_seconds(self, seconds: float) -> None:
        until = self.now + seconds
        while due := sorted(entry for entry in self.due if entry[0] <= until):
            self.due.remove(due[0])
            self.now = due[0][0]
            due[0][1]()
        self.now = until


class Client:
    """A connection to an application, and what went over it."""

    def __init__(self, app: Any, limits: ClientLimits = LIMITS) -> None:
        config = uvicorn.Config(app, lifespan="off", log_config=None, log_level="critical")
        config.load()
        self.clock = Clock()
        self.state = ServerState()
        self.connection = ClientConnection(
            config=config, server_state=self.state, app_state={"of": "the application"}, _loop=self.clock, limits=limits
        )
        self.wire = Wire()
        self.connection.connection_made(self.wire)

    async def send(self, *pieces: bytes) -> None:
        for piece in pieces:
            if self.wire.closed:
                break
            self.connection.data_received(piece)
            await asyncio.sleep(0)
        await self.settle()

    async def settle(self) -> None:
        """Until nothing is left to do but wait for the client."""
        for _ in range(20):
            await asyncio.sleep(0)

    @property
    def said(self) -> bytes:
        return self.wire.said

    def lose(self) -> None:
        self.connection.connection_lost(None)


async def read_and_answer(scope: Any, receive: Any, send: Any) -> None:
    """Take the body; say how long it was."""
    del scope
    size, more = 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            return
        size += len(message.get("body", b""))
        more = message.get("more_body", False)
    said = b"%d" % size
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(said))]})
    await send({"type": "http.response.body", "body": said})


async def stream(scope: Any, receive: Any, send: Any) -> None:
    """Two pieces, without a length."""
    del scope, receive
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/plain")]})
    await send({"type": "http.response.body", "body": b"one", "more_body": True})
    await send({"type": "http.response.body", "body": b"two"})


async def refuse(scope: Any, receive: Any, send: Any) -> None:
    """An answer before the body is read."""
    del scope, receive
    await send({"type": "http.response.start", "status": 413, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"no"})


GET: Final = b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n"
POST: Final = b"POST / HTTP/1.1\r\nhost: localhost\r\n"
CHUNKED: Final = POST + b"transfer-encoding: chunked\r\n\r\n1\r\nx\r\n"
KIB: Final = b"b" * 1024

# name: (what it begins with, what comes over and over)
REFUSED: Final[dict[str, tuple[bytes, bytes]]] = {
    "TLS": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b""),
    "an unknown method": (b"FOO / HTTP/1.1\r\n\r\n", b""),
    "another version": (b"GET / HTTP/2.0\r\n\r\n", b""),
    "the version of 1991": (b"GET /\r\n\r\n", b""),
    "a tunnel": (b"CONNECT localhost:80 HTTP/1.1\r\n\r\n", b""),
    "bytes in the path": (b"GET /\xff HTTP/1.1\r\n\r\n", b""),
    "a path without end": (b"GET /", KIB),
    "a field without end": (POST + b"x-a: ", KIB),
    "fields without end": (POST, b"x-a: %b\r\n" % KIB),
    "a trailer without end": (CHUNKED + b"0\r\n", b"x-a: %b\r\n" % KIB),
    "a chunk's extension without end": (CHUNKED + b"1;", KIB),
    "two lengths": (POST + b"content-length: 1\r\ncontent-length: 2\r\n\r\nxx", b""),
    "a length and chunks": (POST + b"content-length: 6\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n", b""),
    "chunks and a length": (POST + b"transfer-encoding: chunked\r\ncontent-length: 6\r\n\r\n0\r\n\r\n", b""),
    "a length that is none": (POST + b"content-length: +1\r\n\r\nx", b""),
    "chunks that are none": (POST + b"transfer-encoding: xchunked\r\n\r\n0\r\n\r\n", b""),
    "chunked, but not last": (POST + b"transfer-encoding: chunked, identity\r\n\r\n0\r\n\r\n", b""),
    "a folded field": (POST + b"x-a: 1\r\n and more\r\n\r\n", b""),
    "a blank before the colon": (POST + b"content-length : 1\r\n\r\nx", b""),
    "a bare line feed": (b"POST / HTTP/1.1\nhost: localhost\n\n", b""),
    "a bare carriage return": (POST + b"x-a: 1\rcontent-length: 1\r\n\r\n", b""),
    "NUL in a field": (POST + b"x-a: \x00\r\n\r\n", b""),
    "a chunk's size that is none": (POST + b"transfer-encoding: chunked\r\n\r\n-1\r\nx\r\n", b""),
    "a chunk that is longer than it says": (CHUNKED + b"1\r\nxx\r\n", b""),
}


@pytest.mark.parametrize("name", REFUSED)
async def test_refused(name: str) -> None:
    begin, more = REFUSED[name]
    client = Client(read_and_answer)
    sent = 0
    for piece in chain([begin], repeat(more, 100)):
        if client.wire.closed:
            break
        client.connection.data_received(piece)
        sent += len(piece)
    assert client.wire.closed
    assert sent < LIMITS.head_bytes + 2 * len(more) + len(begin)
    await check_refusal(client)


async def check_refusal(client: Client, status: int = 400) -> None:
    head, _, body = client.said.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 %d " % status)
    assert b"\r\nx-request-id: " in head
    assert b"\r\nconnection: close" in head
    assert check_dialect.check_error(body) == []
    assert client.wire.closed
    said = client.said
    client.lose()
    await client.settle()
    assert client.said == said, "whoever read the body says nothing more"
    assert not client.state.tasks
    assert not client.state.connections


H2C: Final = POST + b"Connection: Upgrade, HTTP2-Settings\r\nHTTP2-Settings: AAE\r\n"
JAVA: Final = H2C + b"Upgrade: h2c\r\ncontent-length: 1024\r\n\r\n"

# name: (pieces, bytes of the body)
ANSWERED: Final[dict[str, tuple[list[bytes], int]]] = {
    "a long head": ([POST, *[b"x-a: %b\r\n" % KIB] * 60, b"\r\n"], 0),
    "a body": ([POST, b"content-length: 204800\r\n\r\n", *[KIB] * 200], 204800),
    "an offer of h2c": ([JAVA + KIB], 1024),
    "an offer of h2c, and the body later": ([JAVA, KIB], 1024),
    "an offer of h2c in the last field": ([H2C + b"transfer-encoding: chunked\r\nUPGRADE : h2c\r\n\r\n0\r\n\r\n"], 0),
    "words of an offer in the body": ([H2C + b"content-length: 16\r\n\r\n", b"\r\nUpgrade: h2c\r\n"], 16),
    "the same in one piece": ([H2C + b"content-length: 16\r\n\r\n\r\nUpgrade: h2c\r\n"], 16),
    "a chunked body": ([CHUNKED, *[b"400\r\n", KIB, b"\r\n"] * 200, b"0\r\n\r\n"], 204801),
    "a trailer": ([CHUNKED, b"0\r\nx-a: 1\r\nhost: b\r\n\r\n"], 1),
    "byte by byte": ([bytes([byte]) for byte in POST + b"content-length: 3\r\n\r\nabc"], 3),
    "a target with a host": ([b"POST http://localhost/ HTTP/1.1\r\ncontent-length: 3\r\n\r\nabc"], 3),
    "an empty line before it": ([b"\r\n", POST + b"content-length: 3\r\n\r\nabc"], 3),
}


@pytest.mark.parametrize("name", ANSWERED)
async def test_answered(name: str) -> None:
    pieces, size = ANSWERED[name]
    client = Client(read_and_answer)
    await client.send(*pieces)
    assert client.said.endswith(b"\r\n\r\n%d" % size)
    assert not client.wire.closed
    assert not client.wire.resting
    assert not client.state.tasks
    client.lose()


# name: (application, what is sent, what comes back but for the fixed fields, closed)
FRAMED: Final[dict[str, tuple[Any, bytes, bytes, bool]]] = {
    "chunks": (stream, GET, b"transfer-encoding: chunked\r\n\r\n3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n", False),
    "HTTP/1.0 reads to the end": (stream, b"GET / HTTP/1.0\r\n\r\n", b"connection: close\r\n\r\nonetwo", True),
    "HTTP/1.0 that would stay": (
        read_and_answer,
        b"GET / HTTP/1.0\r\nconnection: keep-alive\r\n\r\n",
        b"content-length: 1\r\nconnection: close\r\n\r\n0",
        True,
    ),
    "the last request": (
        read_and_answer,
        b"GET / HTTP/1.1\r\nconnection: close\r\n\r\nGET / HTTP/1.1\r\n\r\n",
        b"content-length: 1\r\nconnection: close\r\n\r\n0",
        True,
    ),
    "HEAD": (stream, b"HEAD / HTTP/1.1\r\n\r\n", b"content-type: text/plain\r\n\r\n", False),
    "two at once": (read_and_answer, GET + GET, b"content-length: 1\r\n\r\n0" * 2, False),
    "two at once, the second the last": (
        read_and_answer,
        GET + GET.replace(b"host", b"connection: close\r\nhost", 1),
        b"content-length: 1\r\n\r\n0content-length: 1\r\nconnection: close\r\n\r\n0",
        True,
    ),
    "two and half of one more": (read_and_answer, GET + GET + b"GET ", b"content-length: 1\r\n\r\n0" * 2, False),
    "100 (Continue)": (
        read_and_answer,
        POST + b"expect: 100-continue\r\ncontent-length: 1\r\n\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\n",
        False,
    ),
    "an answer in place of 100": (
        refuse,
        POST + b"expect: 100-continue\r\ncontent-length: 1\r\n\r\n",
        b"content-length: 2\r\nconnection: close\r\n\r\nno",
        True,
    ),
    "an answer before the body": (
        refuse,
        POST + b"content-length: 2048\r\n\r\n" + KIB,
        b"content-length: 2\r\n\r\nno",
        False,
    ),
    "an answer before the body, which comes, and another request": (
        refuse,
        POST + b"content-length: 1024\r\n\r\n" + KIB + GET,
        b"content-length: 2\r\n\r\nno" * 2,
        False,
    ),
}


@pytest.mark.parametrize("name", FRAMED)
async def test_framing(name: str) -> None:
    app, sent, expected, closed = FRAMED[name]
    client = Client(app)
    await client.send(sent)
    said = re.sub(
        rb"HTTP/1.1 (?:200 OK|413 [A-Za-z ]+)\r\n(?:content-type: text/plain\r\n(?=[a-z]))?", b"", client.said
    )
    assert said == expected
    assert client.wire.closed is closed
    client.lose()
    await client.settle()
    assert not client.state.tasks


async def test_garbage_after_a_good_request_waits_for_its_answer() -> None:
    go = asyncio.Event()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await go.wait()
        await read_and_answer(scope, receive, send)

    client = Client(app)
    await client.send(GET + b"\x00\x01\r\n\r\n")
    assert client.said == b""
    go.set()
    await client.settle()
    good, _, refusal = client.said.partition(b"\r\n\r\n0")
    assert good.startswith(b"HTTP/1.1 200 ")
    assert refusal.startswith(b"HTTP/1.1 400 ")
    assert client.wire.closed


async def test_a_body_that_breaks_off_in_mid_answer_ends_the_connection() -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"half", "more_body": True})
        while (await receive())["type"] != "http.disconnect":
            pass

    client = Client(app)
    await client.send(CHUNKED)
    await client.send(b"no chunk")
    assert client.wire.aborted
    assert client.said.endswith(b"4\r\nhalf\r\n"), "nothing that would end the answer"
    await client.settle()
    assert not client.state.tasks


async def test_reading_rests_while_the_application_does() -> None:
    go = asyncio.Event()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await go.wait()
        await read_and_answer(scope, receive, send)

    client = Client(app)
    await client.send(POST + b"content-length: 131072\r\n\r\n", KIB * 65)
    assert client.wire.resting
    go.set()
    await client.settle()
    assert not client.wire.resting
    await client.send(KIB * 63)
    assert client.said.endswith(b"\r\n\r\n131072")


async def test_a_writer_waits_for_a_slow_client_and_is_let_go_when_it_leaves() -> None:
    sent: list[int] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for number in range(4):
            await send({"type": "http.response.body", "body": b"x", "more_body": True})
            sent.append(number)

    client = Client(app)
    client.connection.pause_writing()
    await client.send(GET)
    assert sent == []
    client.connection.resume_writing()
    client.connection.pause_writing()
    await client.settle()
    client.lose()
    await client.settle()
    assert sent == [0, 1, 2, 3], "messages to nobody are dropped"
    assert not client.state.tasks


BAD_ANSWERS: Final[dict[str, list[dict[str, Any]]]] = {
    "none": [],
    "no body": [{"type": "http.response.start", "status": 200, "headers": []}],
    "a line break": [{"type": "http.response.start", "status": 200, "headers": [(b"x-a", b"1\r\nx-b: 2")]}],
    "a bare line feed": [{"type": "http.response.start", "status": 200, "headers": [(b"x-a", b"1\nx-b: 2")]}],
    "framing of its own": [
        {"type": "http.response.start", "status": 200, "headers": [(b"transfer-encoding", b"gzip")]}
    ],
    "too long": [
        {"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"1")]},
        {"type": "http.response.body", "body": b"12"},
    ],
    "too short": [
        {"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"3")]},
        {"type": "http.response.body", "body": b"12"},
    ],
    "a body first": [{"type": "http.response.body", "body": b"12"}],
    "something else": [{"type": "http.response.trailers"}],
}


@pytest.mark.parametrize("name", BAD_ANSWERS)
async def test_an_application_at_fault_cannot_spoil_the_framing(name: str) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        for message in BAD_ANSWERS[name]:
            await send(message)

    client = Client(app)
    await client.send(GET)
    assert client.wire.aborted
    assert client.said == b""
    assert not client.state.tasks


async def test_one_connection_too_many() -> None:
    client = Client(read_and_answer, ClientLimits(connections=1))
    client.state.connections.add(object())  # type: ignore[arg-type]
    await client.send(GET)
    head, _, body = client.said.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 503 ")
    assert b"\r\nretry-after: 1" in head
    assert check_dialect.check_error(body) == []
    assert client.wire.closed


# name: (what was sent, seconds until then nothing happens, what the client sees)
LATE: Final[dict[str, tuple[bytes, float, int]]] = {
    "nothing": (b"", LIMITS.idle, 0),
    "half a head": (b"GET / HTTP/1.1\r\nhost", LIMITS.head, 408),
    "half a body": (POST + b"content-length: 2\r\n\r\nx", LIMITS.body, 408),
    "between requests": (GET, LIMITS.idle, 200),
}


@pytest.mark.parametrize("name", LATE)
async def test_clients_that_say_no_more(name: str) -> None:
    sent, seconds, status = LATE[name]
    client = Client(read_and_answer)
    await client.send(sent)
    client.clock.pass_seconds(seconds - 0.01)
    assert not client.wire.closed
    client.clock.pass_seconds(0.02)
    assert client.wire.closed
    if status == 408:
        await check_refusal(client, 408)
    else:
        assert client.said.startswith(b"HTTP/1.1 200 " if status else b"")


async def test_a_head_that_trickles_ends() -> None:
    client = Client(read_and_answer)
    for _ in range(100):
        if client.wire.closed:
            break
        await client.send(b"x" if client.said else b"G" if not client.connection._counted else b"E")
        client.clock.pass_seconds(1)
    assert client.wire.closed
    assert client.clock.now < 1000 + LIMITS.head + 2


async def test_a_body_that_trickles_may() -> None:
    client = Client(read_and_answer)
    await client.send(POST + b"content-length: 10\r\n\r\n")
    for _ in range(10):
        client.clock.pass_seconds(LIMITS.body - 1)
        await client.send(b"x")
    assert client.said.endswith(b"\r\n\r\n10")


async def test_a_body_nobody_wants_is_read_only_so_long() -> None:
    client = Client(refuse)
    await client.send(POST + b"content-length: 99999999\r\n\r\n")
    assert client.said.endswith(b"no")
    while not client.wire.closed:
        await client.send(KIB)
        client.clock.pass_seconds(1)
    assert client.clock.now <= 1000 + LIMITS.body + 2


async def test_a_client_that_takes_nothing_is_cut_and_one_that_takes_little_is_not() -> None:
    go = asyncio.Event()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"x", "more_body": True})
        await go.wait()

    client = Client(app)
    await client.send(GET)
    client.wire.unsent = 1000
    client.connection.pause_writing()
    for _ in range(10):
        client.clock.pass_seconds(LIMITS.write - 1)
        client.wire.unsent -= 1
    assert not client.wire.closed
    client.clock.pass_seconds(LIMITS.write + LIMITS.head)
    assert client.wire.aborted
    client.lose()
    go.set()
    await client.settle()


async def test_an_answer_may_take_as_long_as_it_takes() -> None:
    go = asyncio.Event()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await go.wait()
        await read_and_answer(scope, receive, send)

    client = Client(app)
    await client.send(GET)
    client.clock.pass_seconds(100_000)
    go.set()
    await client.settle()
    assert client.said.endswith(b"\r\n\r\n0")
    assert not client.wire.closed


async def test_shutting_down() -> None:
    go = asyncio.Event()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await go.wait()
        await read_and_answer(scope, receive, send)

    idle, busy = Client(app), Client(app)
    await busy.send(GET)
    for client in (idle, busy):
        client.connection.shutdown()
    assert idle.wire.closed
    assert not busy.wire.closed
    go.set()
    await busy.settle()
    assert busy.said.endswith(b"connection: close\r\n\r\n0")
    assert busy.wire.closed


SCOPES: Final[dict[bytes, tuple[str, bytes, bytes]]] = {
    b"/v1/models": ("/v1/models", b"/v1/models", b""),
    b"/a%20b/%C3%A9?q=1&r=%20": ("/a b/é", b"/a%20b/%C3%A9", b"q=1&r=%20"),
    b"http://localhost:1/a?b": ("/a", b"/a", b"b"),
    b"/%ff": ("/\ufffd", b"/%ff", b""),
}


@pytest.mark.parametrize("target", SCOPES)
async def test_scope(target: bytes) -> None:
    seen: list[dict[str, Any]] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        seen.append(scope)
        await read_and_answer(scope, receive, send)

    client = Client(app)
    await client.send(b"GET %b HTTP/1.1\r\nHost: a\r\nX-A: B\r\n\r\n" % target)
    (scope,) = seen
    assert (scope["path"], scope["raw_path"], scope["query_string"]) == SCOPES[target]
    assert scope["headers"] == [(b"host", b"a"), (b"x-a", b"B")]
    assert scope["method"] == "GET"
    assert scope["http_version"] == "1.1"
    assert scope["state"] == {"of": "the application"}
