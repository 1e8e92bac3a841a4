"""What clients send, and what stands on the wire in answer: bytes in, bytes out."""

from __future__ import annotations

import asyncio
import re
from itertools import chain, permutations, repeat
from typing import Any, Final

import pytest
from uvicorn.server import ServerState

from svir_proxy.conform import dialect
from svir_proxy.listener import ClientConnection, ClientLimits
from tests.listener.support import CHUNKED, GET, KIB, LIMITS, POST, Client, leave_out, read_and_answer, refuse, stream

# name: (what it begins with, what comes over and over)
REFUSED: Final[dict[str, tuple[bytes, bytes]]] = {
    "TLS": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b""),
    "an unknown method": (b"FOO / HTTP/1.1\r\n\r\n", b""),
    "another version": (b"GET / HTTP/2.0\r\n\r\n", b""),
    "the version of 1991": (b"GET /\r\n\r\n", b""),
    "a tunnel": (b"CONNECT localhost:80 HTTP/1.1\r\nhost: localhost\r\n\r\n", b""),
    "bytes in the path": (b"GET /\xff HTTP/1.1\r\nhost: localhost\r\n\r\n", b""),
    "a port for a target": (b"GET http://a:b/ HTTP/1.1\r\nhost: localhost\r\n\r\n", b""),
    "no Host": (b"GET / HTTP/1.1\r\n\r\n", b""),
    "two Hosts": (POST + b"Host: localhost\r\ncontent-length: 0\r\n\r\n", b""),
    "a target with a host, and no Host": (b"GET http://localhost/ HTTP/1.1\r\n\r\n", b""),
    "a path without end": (b"GET /", KIB),
    "a path too long, in one piece": (b"GET /%b HTTP/1.1\r\nhost: a\r\n\r\n" % (KIB * 64), b""),
    "too many fields, in one piece": (POST + b"x: 1\r\n" * 12_000 + b"\r\n", b""),
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
    "chunks of something packed": (POST + b"transfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n", b""),
    "chunked twice": (POST + b"transfer-encoding: chunked, chunked\r\n\r\n0\r\n\r\n", b""),
    "chunked twice, in two fields": (POST + b"transfer-encoding: chunked\r\n" * 2 + b"\r\n0\r\n\r\n", b""),
    "chunks of HTTP/1.0": (b"POST / HTTP/1.0\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n", b""),
    "an offer of h2c, and two Hosts": (POST + b"host: b\r\nconnection: upgrade\r\nupgrade: h2c\r\n\r\n", b""),
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
        if client.told:
            break
        client.connection.data_received(piece)
        sent += len(piece)
    assert sent < LIMITS.head_bytes + 2 * len(more) + len(begin)
    await check_refusal(client)


async def check_refusal(client: Client, status: int = 400) -> None:
    head, _, body = client.said.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 %d " % status)
    assert b"\r\nx-request-id: " in head
    assert b"\r\nconnection: close" in head
    assert dialect.check_error(body) == []
    assert client.wire.half_closed, "a socket that is closed while the client sends is reset, and the answer lost"
    assert not client.wire.closed
    assert not client.wire.resting
    said = client.said
    await client.send(KIB, GET, b"\x00")
    client.clock.pass_seconds(LIMITS.body + 1)
    assert client.wire.closed
    client.lose()
    await client.settle()
    assert client.said == said, "whoever read the body says nothing more"
    assert not client.state.tasks
    assert client.connection not in client.state.connections


H2C: Final = POST + b"Connection: Upgrade, HTTP2-Settings\r\nHTTP2-Settings: AAE\r\n"
JAVA: Final = H2C + b"Upgrade: h2c\r\ncontent-length: 1024\r\n\r\n"

# name: (pieces, bytes of the body)
ANSWERED: Final[dict[str, tuple[list[bytes], int]]] = {
    "a long head": ([POST, *[b"x-a: %b\r\n" % KIB] * 60, b"\r\n"], 0),
    "a body": ([POST, b"content-length: 204800\r\n\r\n", *[KIB] * 200], 204800),
    "an offer of h2c": ([JAVA + KIB], 1024),
    "an offer of h2c, and the body later": ([JAVA, KIB], 1024),
    "an offer of h2c in the last field": ([H2C + b"transfer-encoding: chunked\r\nUPGRADE: h2c\r\n\r\n0\r\n\r\n"], 0),
    "an offer of h2c, byte by byte": ([bytes([byte]) for byte in JAVA + KIB], 1024),
    "an offer of h2c after another request": ([GET + JAVA + KIB], 1024),
    "two offers of h2c in one piece": ([JAVA + KIB + JAVA + KIB], 1024),
    "an offer of h2c without a body": ([H2C + b"Upgrade: h2c\r\n\r\n"], 0),
    "words of an offer in the body": ([H2C + b"content-length: 16\r\n\r\n", b"\r\nUpgrade: h2c\r\n"], 16),
    "the same in one piece": ([H2C + b"content-length: 16\r\n\r\n\r\nUpgrade: h2c\r\n"], 16),
    "a chunked body": ([CHUNKED, *[b"400\r\n", KIB, b"\r\n"] * 200, b"0\r\n\r\n"], 204801),
    "a trailer": ([CHUNKED, b"0\r\nx-a: 1\r\nhost: b\r\n\r\n"], 1),
    "byte by byte": ([bytes([byte]) for byte in POST + b"content-length: 3\r\n\r\nabc"], 3),
    "a target with a host": ([POST.replace(b"/", b"http://a/", 1) + b"content-length: 3\r\n\r\nabc"], 3),
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
        GET.replace(b"host", b"connection: close\r\nhost", 1),
        b"content-length: 1\r\nconnection: close\r\n\r\n0",
        True,
    ),
    "HEAD with a length": (read_and_answer, GET.replace(b"GET", b"HEAD"), b"content-length: 1\r\n\r\n", False),
    "HEAD with a length and no body": (leave_out, GET.replace(b"GET", b"HEAD"), b"content-length: 9\r\n\r\n", False),
    "HEAD": (stream, GET.replace(b"GET", b"HEAD"), b"content-type: text/plain\r\n\r\n", False),
    "two at once": (read_and_answer, GET + GET, b"content-length: 1\r\n\r\n0" * 2, False),
    "two at once, the second the last": (
        read_and_answer,
        GET + GET.replace(b"host", b"connection: close\r\nhost", 1),
        b"content-length: 1\r\n\r\n0content-length: 1\r\nconnection: close\r\n\r\n0",
        True,
    ),
    "HTTP/1.0 reads to the end, whatever it asked for behind it": (
        stream,
        b"GET / HTTP/1.0\r\nconnection: keep-alive\r\n\r\n" * 2,
        b"connection: close\r\n\r\nonetwo",
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
    "an answer in place of 100 to one that does not wait": (
        refuse,
        POST + b"expect: 100-continue\r\ncontent-length: 1\r\n\r\nx",
        b"content-length: 2\r\n\r\nno",
        False,
    ),
    "100 for a body that is there": (
        read_and_answer,
        POST + b"Expect: 100-Continue\r\ncontent-length: 1\r\n\r\nx",
        b"content-length: 1\r\n\r\n1",
        False,
    ),
    "100 for no body": (
        read_and_answer,
        POST + b"expect: 100-continue\r\n\r\n",
        b"content-length: 1\r\n\r\n0",
        False,
    ),
    "another expectation": (
        read_and_answer,
        POST + b"expect: 200-ok\r\ncontent-length: 1\r\n\r\n",
        b"",
        False,
    ),
    "100 for HTTP/1.0": (
        read_and_answer,
        b"POST / HTTP/1.0\r\nexpect: 100-continue\r\ncontent-length: 1\r\n\r\n",
        b"",
        False,
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
    assert client.wire.half_closed is closed
    assert not client.wire.closed
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
    assert client.wire.half_closed


async def test_a_head_that_is_too_long_is_refused_wherever_it_begins() -> None:
    client = Client(read_and_answer)
    long = GET[:-2] + b"x: " + KIB * 65
    await client.send(GET + long, b"\r\n\r\n")
    assert re.findall(rb"HTTP/1.1 (\d+)", client.said) == [b"200", b"400"]
    client = Client(read_and_answer)
    await client.send(GET + GET[:-2] + b"x: " + KIB, b"\r\n\r\n")
    assert re.findall(rb"HTTP/1.1 (\d+)", client.said) == [b"200", b"200"]


async def test_what_follows_a_head_request_is_told_why_it_is_none() -> None:
    client = Client(read_and_answer)
    await client.send(GET.replace(b"GET", b"HEAD") + b"\x00")
    _, _, refusal = client.said.partition(b"\r\n\r\n")
    assert dialect.check_error(refusal.partition(b"\r\n\r\n")[2]) == []


@pytest.mark.parametrize("broken", [CHUNKED + b"zz\r\n", b"\x00\r\n\r\n", CHUNKED], ids=["chunk", "no HTTP", "late"])
async def test_a_request_that_breaks_off_leaves_those_before_it_alone(broken: bytes) -> None:
    go = asyncio.Event()
    seen: list[str] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        assert (await receive())["type"] == "http.request"
        await go.wait()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body", "body": b""})
        seen.append((await receive())["type"])

    client = Client(app)
    await client.send(GET + broken)
    client.clock.pass_seconds(10 * LIMITS.body)
    assert not client.told
    go.set()
    await client.settle()
    statuses = re.findall(rb"HTTP/1.1 (\d+)", client.said)
    assert statuses == [b"200", b"408" if broken == CHUNKED else b"400"]
    assert client.wire.half_closed
    client.lose()


async def test_what_comes_after_the_last_request_does_not_cost_its_answer() -> None:
    client = Client(read_and_answer)
    await client.send(GET.replace(b"host", b"connection: close\r\nhost", 1) + GET * 1000, GET * 1000, b"\x00")
    assert client.said.count(b"HTTP/1.1 ") == 1
    assert client.said.endswith(b"\r\nconnection: close\r\n\r\n0")
    assert (client.wire.half_closed, client.wire.closed) == (True, False)


@pytest.mark.parametrize("more", [b"", GET * 100, POST], ids=["alone", "others behind it", "half of one behind it"])
async def test_whoever_says_no_more_has_left(more: bytes) -> None:
    seen: list[str] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        seen.append((await receive())["type"])
        seen.append((await receive())["type"])

    client = Client(app)
    await client.send(GET + more)
    assert not client.wire.resting, "whoever leaves is not noticed while reading rests"
    client.connection.eof_received()
    assert client.wire.aborted
    client.lose()
    await client.settle()
    assert seen == ["http.request", "http.disconnect"]
    assert not client.state.tasks


async def test_an_answer_that_is_out_is_not_taken_back_by_the_end_of_what_the_client_says() -> None:
    client = Client(read_and_answer)
    await client.send(GET)
    client.connection.eof_received()
    assert not client.wire.aborted


async def test_so_much_may_wait_behind_a_request_and_no_more() -> None:
    go = asyncio.Event()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await go.wait()
        await read_and_answer(scope, receive, send)

    client = Client(app)
    sent = 0
    while not client.wire.resting:
        await client.send(GET * 10)
        sent += 10
        assert sent * len(GET) < LIMITS.body_buffer + 20 * len(GET)
    assert sent * len(GET) > LIMITS.body_buffer
    go.set()
    while client.state.tasks:
        await client.settle()
    await client.settle()
    assert client.said.count(b"HTTP/1.1 200 ") == sent
    assert not client.wire.resting


async def test_no_more_comes_to_wait_while_those_that_wait_are_answered() -> None:
    go = asyncio.Semaphore(0)

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        scope["extensions"]["svir.on_disconnect"](lambda: None)
        await go.acquire()
        await refuse(scope, receive, send)

    client = Client(app)
    sent = 0
    for answered in range(20):
        while not client.wire.resting:
            client.connection.data_received(GET * 100)
            sent += 100
        assert client.said.count(b"HTTP/1.1 413 ") == answered
        go.release()
        await client.settle()
    assert sent * len(GET) < LIMITS.body_buffer + 200 * len(GET)
    for _ in range(sent):
        go.release()
    while client.state.tasks:
        await client.settle()
    await client.settle()
    assert client.said.count(b"HTTP/1.1 413 ") == sent
    assert not client.wire.resting


async def test_a_body_nobody_wants_that_breaks_off_does_not_cost_the_answer() -> None:
    client = Client(refuse)
    await client.send(CHUNKED, b"no chunk\r\n")
    assert client.said.endswith(b"content-length: 2\r\n\r\nno")
    assert (client.wire.half_closed, client.wire.closed) == (True, False)


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


async def test_one_connection_too_many() -> None:
    state = ServerState()
    first, second, third = (Client(read_and_answer, ClientLimits(connections=2), state) for _ in range(3))
    await third.send(GET * 1000)
    assert third.said.count(b"HTTP/1.1 503 ") == 1
    assert b"\r\nretry-after: 1" in third.said
    await check_refusal(third, 503)
    fourth, fifth = (Client(read_and_answer, ClientLimits(connections=2), state) for _ in range(2))
    await fifth.send(GET.replace(b"GET", b"HEAD"))
    assert fifth.said.startswith(b"HTTP/1.1 503 ")
    assert fifth.said.endswith(b"\r\n\r\n")
    fifth.lose()
    for client in (first, second):
        await client.send(GET)
        assert client.said.startswith(b"HTTP/1.1 200 "), "those that were there first are served"
    first.lose()
    await fourth.send(GET)
    assert fourth.said.startswith(b"HTTP/1.1 200 "), "there is room for it by now"


async def test_too_many_to_be_heard() -> None:
    state, limits = ServerState(), ClientLimits(connections=2, heard=4)
    waiting = [Client(read_and_answer, limits, state) for _ in range(4)]
    fifth = Client(read_and_answer, limits, state)
    assert fifth.wire.closed
    assert fifth.said == b""
    fifth.lose()
    await waiting[3].send(GET)
    assert waiting[3].said.startswith(b"HTTP/1.1 503 ")
    await waiting[0].send(GET)
    assert waiting[0].said.startswith(b"HTTP/1.1 200 ")


# name: (what was sent, seconds until then nothing happens, what the client sees)
LATE: Final[dict[str, tuple[bytes, float, int]]] = {
    "nothing": (b"", LIMITS.idle, 0),
    "half a head": (b"GET / HTTP/1.1\r\nhost", LIMITS.head, 408),
    "half a body": (POST + b"content-length: 2\r\n\r\nx", LIMITS.body, 408),
    "between requests": (GET, LIMITS.idle, 200),
    "half a head behind a request": (GET + GET[:-1], LIMITS.head, 200),
    "an empty line": (b"\r\n", LIMITS.head, 408),
}


@pytest.mark.parametrize("name", LATE)
async def test_clients_that_say_no_more(name: str) -> None:
    sent, seconds, status = LATE[name]
    client = Client(read_and_answer)
    await client.send(sent)
    client.clock.pass_seconds(seconds - 0.01)
    assert not client.wire.closed
    client.clock.pass_seconds(0.02)
    assert client.told
    if status == 408:
        await check_refusal(client, 408)
    elif sent not in (b"", GET):
        assert client.said.startswith(b"HTTP/1.1 200 ")
        assert b"HTTP/1.1 408 " in client.said
    else:
        assert client.said.startswith(b"HTTP/1.1 200 " if status else b"")


async def test_a_head_that_trickles_ends() -> None:
    client = Client(read_and_answer)
    seconds = 0
    for byte in chain(b"GET / HTTP/1.1\r\nhost: ", repeat(b"a"[0], 100)):
        if client.told:
            break
        await client.send(bytes([byte]))
        client.clock.pass_seconds(1)
        seconds += 1
    assert client.said.startswith(b"HTTP/1.1 408 ")
    assert seconds == LIMITS.head


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


async def test_a_client_that_takes_nothing_of_the_last_bytes_is_cut_too() -> None:
    client = Client(read_and_answer)
    client.wire.unsent = 1000
    await client.send(GET)
    for _ in range(5):
        client.clock.pass_seconds(LIMITS.write - LIMITS.head)
        client.wire.unsent -= 1
    assert not client.wire.closed
    client.clock.pass_seconds(2 * LIMITS.write)
    assert client.wire.aborted


async def test_one_that_takes_an_answer_as_it_is_made_is_not() -> None:
    """What waits may have the same size, or a greater one, whenever it is looked at."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await asyncio.Event().wait()

    client = Client(app)
    await client.send(GET)
    for size in range(1000, 1100):
        client.wire.unsent = size
        client.clock.pass_seconds(LIMITS.write / 2)
    assert not client.wire.closed
    client.lose()


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
    b"http://u:p@evil?b": ("/", b"/", b"b"),
    b"/%ff": ("/\ufffd", b"/%ff", b""),
}


@pytest.mark.parametrize("target", SCOPES)
async def test_scope(target: bytes) -> None:
    seen: list[dict[str, Any]] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        seen.append(scope)
        await read_and_answer(scope, receive, send)

    client = Client(app)
    await client.send(b"GET %b HTTP/1.1\r\nHost: a \t\r\nX-A:\t B\r\nX-C: \r\n\r\n" % target)
    (scope,) = seen
    assert (scope["path"], scope["raw_path"], scope["query_string"]) == SCOPES[target]
    host = {b"http://localhost:1/a?b": b"localhost:1", b"http://u:p@evil?b": b"evil"}.get(target, b"a")
    assert sorted(scope["headers"]) == [(b"host", host), (b"x-a", b"B"), (b"x-c", b"")]
    assert scope["method"] == "GET"
    assert scope["http_version"] == "1.1"
    assert scope["state"] == {"of": "the application"}


async def test_the_targets_of_one_connection_are_told_apart() -> None:
    seen: list[tuple[str, bytes, bytes]] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        seen.append((scope["path"], scope["raw_path"], scope["query_string"]))
        await read_and_answer(scope, receive, send)

    client = Client(app)
    targets = [target for first, second in permutations(SCOPES, 2) for target in (first, first, second)]
    for target in targets:
        await client.send(b"GET %b HTTP/1.1\r\nHost: a\r\n\r\n" % target)
    assert seen == [SCOPES[target] for target in targets]


async def test_an_answer_that_waits_for_the_end_of_the_turn_is_not_lost_when_the_proxy_shuts_down_in_it() -> None:
    clients: list[Client] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await read_and_answer(scope, receive, send)
        assert clients[0].said == b""
        clients[0].connection.shutdown()

    clients.append(Client(app))
    clients[0].connection._outbox._is_lonely = False  # as where there are others
    await clients[0].send(GET)
    assert clients[0].said.endswith(b"\r\n\r\n0")
    assert clients[0].wire.closed


def test_a_connection_has_all_that_a_loop_calls() -> None:
    called = {name for name in dir(asyncio.Protocol) if not name.startswith("_")}
    assert called <= set(dir(ClientConnection))
