"""Exchanges over real sockets: requests out, responses in, and everything that cuts them short."""

from __future__ import annotations

import asyncio
import gc
import socket
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from svir_proxy.server.transport import RESPONSE, TransportLimits, UpstreamResponse, UpstreamTransport, connection
from svir_proxy.server.transport.connection import Connection
from svir_proxy.server.transport.head import outgoing
from svir_proxy.server.transport.pool import Pool
from svir_proxy.server.transport.waiting import within
from tests.server.transport.raw_server import body_of, soon, until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.server.transport.conftest import Call
    from tests.server.transport.raw_server import Peer, RawServer

OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"
LENGTH_3 = OK + b"Content-Length: 3\r\n\r\n"
BIG = bytes(range(256)) * 80_000  # 20 MB


class Collector:
    """A sink that keeps everything, and can be awaited for more."""

    def __init__(self, body: UpstreamResponse) -> None:
        self.body = body
        self.pieces: list[bytes] = []
        self.ended: asyncio.Future[Exception | None] = asyncio.get_running_loop().create_future()
        self.arrived = asyncio.Event()

    def data_received(self, data: bytes) -> None:
        self.pieces.append(data)
        self.arrived.set()

    def body_ended(self, error: Exception | None) -> None:
        self.ended.set_result(error)

    async def more(self) -> None:
        """Await the next piece."""
        await soon(self.arrived.wait())
        self.arrived.clear()


def collect(response: httpx.Response, cls: type[Collector] = Collector) -> Collector:
    body = response.extensions[RESPONSE]
    collector = cls(body)
    body.attach(collector)
    return collector


# requests


async def test_a_request_on_the_wire(server: RawServer, call: Call) -> None:
    answer = call(b'{"a":1}', headers={"Authorization": "Bearer x"})
    peer = await server.accept()
    host = f"Host: 127.0.0.1:{server.port}".encode()
    assert await peer.answer(LENGTH_3 + b"abc") == (
        b"POST /v1/chat/completions HTTP/1.1\r\n" + host + b"\r\n"
        b'Authorization: Bearer x\r\nContent-Length: 7\r\n\r\n{"a":1}'
    )
    response = await answer
    assert (response.status_code, await body_of(response)) == (200, b"abc")


async def pieces_of(data: bytes, size: int) -> AsyncIterator[bytes]:
    for start in range(0, len(data), size):
        yield data[start : start + size]


@pytest.mark.parametrize("size", [None, 1_000_000, 20_480_000], ids=["bytes", "stream", "stream of one piece"])
async def test_a_big_request(size: int | None, server: RawServer, call: Call) -> None:
    length = {"content-length": str(len(BIG))}
    answer = call(BIG if size is None else pieces_of(BIG, size), headers=length)
    peer = await server.accept()
    await peer.head()
    assert await peer.read(len(BIG)) == BIG
    await peer.send(LENGTH_3 + b"abc")
    assert await body_of(await answer) == b"abc"


async def test_a_chunked_request(server: RawServer, call: Call) -> None:
    answer = call(pieces_of(b"abcde", 3))
    peer = await server.accept()
    assert b"\r\nTransfer-Encoding: chunked\r\n" in await peer.head()
    expected = b"3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"
    assert await peer.read(len(expected)) == expected
    await peer.send(LENGTH_3 + b"abc")
    assert await body_of(await answer) == b"abc"


async def test_nothing_is_held_back_by_the_kernel(server: RawServer, transport: UpstreamTransport, call: Call) -> None:
    answer = call()
    await (await server.accept()).answer(LENGTH_3 + b"abc")
    await body_of(await answer)
    (only,) = transport._pool._connections
    sock = only._transport.get_extra_info("socket")
    assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


@pytest.mark.parametrize("pieces", [(), (b"ab",), (b"ab", b"cd")], ids=["none", "fewer", "more"])
async def test_a_stream_without_its_length_closes_the_connection(
    pieces: tuple[bytes, ...], server: RawServer, call: Call
) -> None:
    async def stream() -> AsyncIterator[bytes]:
        for piece in pieces:
            yield piece

    answer = call(stream(), headers={"content-length": "3"})
    peer = await server.accept()
    with pytest.raises(httpx.LocalProtocolError):
        await answer
    assert len((await peer.gone()).partition(b"\r\n\r\n")[2]) < 3, "a request that is not whole must not look whole"


async def waiting() -> AsyncIterator[bytes]:
    yield b"a"
    await asyncio.get_running_loop().create_future()


async def test_nothing_is_written_to_a_closed_connection(
    server: RawServer, transport: UpstreamTransport, call: Call, caplog: pytest.LogCaptureFixture
) -> None:
    async def stream() -> AsyncIterator[bytes]:
        yield b"a"
        (only,) = transport._pool._connections
        only.abort()
        for _ in range(10):
            yield b"b"

    answer = call(stream())
    await server.accept()
    with pytest.raises(httpx.ReadError, match="closed on this side"):
        await answer
    assert caplog.records == []


EARLY = b"HTTP/1.1 413 Too Large\r\nContent-Length: 5\r\n\r\nlarge"


@pytest.mark.parametrize("kind", ["bytes", "stream", "waiting stream"])
async def test_an_early_answer_is_heard(kind: str, server: RawServer, call: Call) -> None:
    content: Any = {"bytes": BIG, "stream": pieces_of(BIG, 100_000), "waiting stream": waiting()}[kind]
    answer = call(content)
    peer = await server.accept()
    await peer.head()
    await peer.send(b"HTTP/1.1 100 Continue\r\n\r\n" + EARLY[:-2])
    response = await answer
    await peer.send(EARLY[-2:])
    assert (response.status_code, await body_of(response)) == (413, b"large")
    assert len(await peer.gone()) < len(BIG), "the rest is not sent, and the connection not used again"
    follow = call()
    await (await server.accept()).answer(LENGTH_3 + b"abc")
    assert await body_of(await follow) == b"abc"


@pytest.mark.parametrize("kind", ["bytes", "stream"])
async def test_a_server_that_refuses_and_crashes_is_heard(kind: str, server: RawServer, call: Call) -> None:
    answer = call(BIG if kind == "bytes" else pieces_of(BIG, 100_000))
    peer = await server.accept()
    await peer.head()
    await peer.send(EARLY)
    peer.end()  # what it has not read makes this a reset
    response = await answer
    assert (response.status_code, await body_of(response)) == (413, b"large")


async def test_a_server_that_does_not_take_the_request(server: RawServer, call: Call) -> None:
    answer = call(BIG, timeout={"write": 0.05})
    peer = await server.accept()
    with pytest.raises(httpx.WriteTimeout, match="did not take the request in time"):
        await answer
    assert len(await peer.gone()) < len(BIG)


async def test_a_connection_lost_while_sending(server: RawServer, call: Call) -> None:
    answer = call(BIG)
    peer = await server.accept()
    await peer.head()
    peer.reset()
    with pytest.raises(httpx.ReadError, match="was lost"):
        await answer


# heads


async def test_a_server_that_does_not_answer(server: RawServer, call: Call) -> None:
    answer = call(timeout={"read": 0.01})
    peer = await server.accept()
    with pytest.raises(httpx.ReadTimeout, match="no response in time"):
        await answer
    await peer.gone()


async def test_the_time_limit_is_of_the_head_alone(
    server: RawServer, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits: list[float | None] = []
    running = 0

    async def watched(future: Any, seconds: float | None, *rest: Any) -> Any:
        nonlocal running
        limits.append(seconds)
        running += 1
        try:
            return await within(future, seconds, *rest)
        finally:
            running -= 1

    monkeypatch.setattr(connection, "within", watched)
    answer = call(timeout={"connect": 1000, "read": 2000, "write": 3000, "pool": 4000})
    peer = await server.accept()
    await peer.answer(LENGTH_3)
    response = await answer
    assert (limits, running) == ([2000], 0)
    await peer.send(b"abc")
    assert await body_of(response) == b"abc"
    assert limits == [2000]


async def test_a_cancelled_request_closes_the_connection(server: RawServer, call: Call) -> None:
    answer = call()
    peer = await server.accept()
    await peer.request()
    answer.cancel()
    with pytest.raises(asyncio.CancelledError):
        await answer
    assert await peer.gone() == b""


async def test_a_cancelled_upload_closes_the_connection(server: RawServer, call: Call) -> None:
    for content in (BIG, waiting()):
        answer = call(content)
        peer = await server.accept()
        await peer.head()
        answer.cancel()
        with pytest.raises(asyncio.CancelledError):
            await answer
        assert len(await peer.gone()) < len(BIG)


async def test_a_connection_that_ends_before_the_request(server: RawServer, transport: UpstreamTransport) -> None:
    made = await transport._pool.connect((b"http", b"127.0.0.1", server.port), None)
    (await server.accept()).end()
    await until(lambda: made.closed)
    out = outgoing(httpx.Request("POST", server.url()))
    with pytest.raises(httpx.RemoteProtocolError, match="without a response"):
        await soon(made.exchange(out, head_request=False, read=None, write=None))


async def test_a_response_that_comes_with_the_cancellation(
    server: RawServer, transport: UpstreamTransport, call: Call
) -> None:
    answer = call()
    peer = await server.accept()
    await peer.request()
    (only,) = transport._pool._connections
    answer.cancel()
    only.data_received(LENGTH_3 + b"abc")  # the cancelled task has not run yet
    with pytest.raises(asyncio.CancelledError):
        await answer


async def test_a_cancellation_that_comes_too_late_does_not_touch_the_connection(
    server: RawServer, transport: UpstreamTransport, call: Call
) -> None:
    answer = call()
    peer = await server.accept()
    await peer.request()
    (only,) = transport._pool._connections
    only.data_received(LENGTH_3 + b"abc")  # the response is whole, and the connection in the pool
    follow = transport._pool.take(only.origin).exchange(
        outgoing(httpx.Request("GET", server.url())), head_request=False, read=None, write=None
    )
    answer.cancel()
    following = asyncio.ensure_future(soon(follow))
    with pytest.raises(asyncio.CancelledError):
        await answer
    await peer.answer(LENGTH_3 + b"def")
    assert [piece async for piece in await following] == [b"def"]


async def test_a_fault_that_comes_with_the_cancellation_is_not_complained_about(
    server: RawServer, transport: UpstreamTransport, call: Call
) -> None:
    complaints: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
    answer = call(waiting())
    peer = await server.accept()
    await peer.head()
    (only,) = transport._pool._connections
    only.eof_received()
    answer.cancel()
    await soon(asyncio.wait((answer,)))  # not awaited itself: that would keep what is to be collected
    assert answer.cancelled()
    del answer
    gc.collect()
    await peer.gone()
    assert complaints == []


class Stalled(asyncio.Transport):
    """Takes a request, but cannot get rid of it."""

    def __init__(self) -> None:
        self.near, self.far = socket.socketpair()
        super().__init__({"socket": self.near})
        self.aborted = False

    def write(self, data: Any) -> None:
        assert not self.aborted

    def get_write_buffer_size(self) -> int:
        return 1

    def abort(self) -> None:
        self.aborted = True
        self.near.close()
        self.far.close()


async def test_a_response_before_the_request_has_left_ends_the_connection() -> None:
    pool, stalled = Pool(None, TransportLimits()), Stalled()
    made = Connection((b"http", b"h", 80), pool, TransportLimits())
    made.connection_made(stalled)
    answer = asyncio.ensure_future(
        made.exchange(
            outgoing(httpx.Request("POST", "http://h/", content=b"{}")), head_request=False, read=None, write=None
        )
    )
    await asyncio.sleep(0)
    made.data_received(LENGTH_3 + b"abc")
    assert (await soon(answer)).status == 200
    assert stalled.aborted
    assert pool.take(made.origin) is None


@pytest.mark.parametrize("end", [Connection.abort, Connection.eof_received])
async def test_a_closed_connection_is_left_alone(end: Any) -> None:
    stalled = Stalled()
    made = Connection((b"http", b"h", 80), Pool(None, TransportLimits()), TransportLimits())
    made.connection_made(stalled)
    end(made)
    made.hold_reading(True)  # which this transport, as any that is closed, does not have to know
    made.write(b"x")
    assert made.closed
    stalled.abort()


class Flooded(Stalled):
    """Has always more to read."""

    reading = True

    def is_closing(self) -> bool:
        return self.aborted

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        assert not self.aborted
        self.reading = True


@pytest.mark.parametrize(
    ("size", "before", "after", "reads", "reads_on"),
    [
        (64 * 1024, None, None, False, True),
        (64 * 1024 - 1, None, None, True, True),
        (64 * 1024, None, True, False, False),
        (64 * 1024, True, None, False, False),
        (64 * 1024, True, False, False, True),
    ],
)
async def test_a_large_read_is_the_last_of_its_turn(
    size: int, before: bool | None, after: bool | None, reads: bool, reads_on: bool
) -> None:
    """*before* and *after* it: what the consumer says of holding."""
    flooded = Flooded()
    made = Connection((b"http", b"h", 80), Pool(None, TransportLimits(body_buffer=1 << 20)), TransportLimits())
    made.connection_made(flooded)
    request = httpx.Request("POST", "http://h/", content=b"{}")
    answer = asyncio.ensure_future(made.exchange(outgoing(request), head_request=False, read=None, write=None))
    await asyncio.sleep(0)
    made.data_received(OK + b"\r\n")
    body = await soon(answer)
    body.attach(Collector(body))
    if before is not None:
        made.hold_reading(before)
    made.data_received(b"x" * size)
    if after is not None:
        made.hold_reading(after)
    assert flooded.reading is reads
    await asyncio.sleep(0)
    assert flooded.reading is reads_on
    body.close()


async def test_a_connection_that_closes_while_it_rests_is_left_alone() -> None:
    flooded = Flooded()
    made = Connection((b"http", b"h", 80), Pool(None, TransportLimits()), TransportLimits())
    made.connection_made(flooded)
    request = httpx.Request("POST", "http://h/", content=b"{}")
    answer = asyncio.ensure_future(made.exchange(outgoing(request), head_request=False, read=None, write=None))
    await asyncio.sleep(0)
    made.data_received(b"x" * 64 * 1024)
    assert flooded.aborted
    with pytest.raises(httpx.RemoteProtocolError):
        await soon(answer)
    assert not flooded.reading


# name: (what the server sends, how it ends, error, words of it)
HEADLESS: dict[str, tuple[bytes, str, type[Exception], str]] = {
    "nothing": (b"", "end", httpx.RemoteProtocolError, "closed the connection without a response"),
    "reset": (b"", "reset", httpx.ReadError, "was lost"),
    "half a head": (OK + b"A: ", "end", httpx.RemoteProtocolError, "in the middle of a response head"),
    "half a head, reset": (OK + b"A: ", "reset", httpx.ReadError, "was lost"),
    "no HTTP": (b"SSH-2.0\r\n", "stay", httpx.RemoteProtocolError, "not valid HTTP"),
    "101": (b"HTTP/1.1 101 S\r\n\r\n", "stay", httpx.RemoteProtocolError, "change of protocols"),
}


@pytest.mark.parametrize("name", HEADLESS)
async def test_no_response(name: str, server: RawServer, call: Call) -> None:
    data, end, error, words = HEADLESS[name]
    answer = call()
    peer = await server.accept()
    await peer.answer(data)
    if end != "stay":
        getattr(peer, end)()
    with pytest.raises(error, match=words):
        await answer
    assert server.accepted == 1, "a new connection is not tried twice"
    if end == "stay":
        await peer.gone()


# bodies

# name: (after the request, how the server ends, error or None)
ENDINGS: dict[str, tuple[bytes, str, type[Exception] | None]] = {
    "sized": (LENGTH_3 + b"abc", "stay", None),
    "chunked": (CHUNKED + b"3\r\nabc\r\n0\r\n\r\n", "stay", None),
    "chunked, with trailers": (CHUNKED + b"3\r\nabc\r\n0\r\nX-Sum: 1\r\nX-Took: 2\r\n\r\n", "stay", None),
    "after a hint": (b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" + LENGTH_3 + b"abc", "stay", None),
    "after a wait": (b"HTTP/1.1 102 Processing\r\n\r\n" * 2 + CHUNKED + b"3\r\nabc\r\n0\r\n\r\n", "stay", None),
    "until the end": (OK + b"\r\nabc", "end", None),
    "until the end, 1.0": (b"HTTP/1.0 200 OK\r\n\r\nabc", "end", None),
    "until the end, but reset": (OK + b"\r\nabc", "reset", httpx.ReadError),
    "sized, too short": (OK + b"Content-Length: 4\r\n\r\nabc", "end", httpx.RemoteProtocolError),
    "sized, reset": (OK + b"Content-Length: 4\r\n\r\nabc", "reset", httpx.ReadError),
    "no last chunk": (CHUNKED + b"3\r\nabc\r\n", "end", httpx.RemoteProtocolError),
    "no last chunk, reset": (CHUNKED + b"3\r\nabc\r\n", "reset", httpx.ReadError),
    "not a chunk": (CHUNKED + b"3\r\nabc\r\nzz\r\n", "stay", httpx.RemoteProtocolError),
}


@pytest.mark.parametrize("way", ["push", "pull"])
@pytest.mark.parametrize("name", ENDINGS)
async def test_endings(name: str, way: str, server: RawServer, call: Call) -> None:
    data, end, expected = ENDINGS[name]
    answer = call()
    peer = await server.accept()
    await peer.answer(data)
    response = await answer
    # The end is made to come after the data: a reset may overtake what the client has not read yet.
    if way == "push":
        sink = collect(response)
        while sum(map(len, sink.pieces)) < 3:
            await sink.more()
        if end != "stay":
            getattr(peer, end)()
        error = await soon(sink.ended)
        assert b"".join(sink.pieces) == b"abc"
    else:
        got, error = b"", None
        try:
            async for piece in response.stream:
                got += piece
                if got == b"abc" and end != "stay":
                    getattr(peer, end)()
        except httpx.TransportError as exc:
            error = exc
        assert got == b"abc"
    assert error is None if expected is None else type(error) is expected
    await response.aclose()


async def test_a_head_request(server: RawServer, call: Call) -> None:
    answer = call(None, method="HEAD")
    peer = await server.accept()
    await peer.answer(OK + b"Content-Length: 1000\r\n\r\n")
    response = await answer
    assert response.headers["content-length"] == "1000"
    assert await body_of(response) == b""
    await peer.gone()


@pytest.mark.parametrize("way", ["response", "body", "within the sink", "unread"])
async def test_closing_before_the_end_tells_the_server(way: str, server: RawServer, call: Call) -> None:
    answer = call()
    peer = await server.accept()
    await peer.answer(CHUNKED + b"3\r\nabc\r\n")
    response = await answer
    if way == "response":
        sink = collect(response)
        await response.aclose()
        assert not sink.ended.done()
    elif way == "body":
        async for piece in response.stream:
            assert piece == b"abc"
            response.extensions[RESPONSE].close()
            break
    elif way == "within the sink":

        class Closing(Collector):
            def data_received(self, data: bytes) -> None:
                super().data_received(data)
                self.body.close()

        await collect(response, Closing).more()
    else:
        await response.aclose()
    assert await peer.gone() == b""


async def test_closing_within_the_last_data_keeps_the_connection(server: RawServer, call: Call) -> None:
    class Closing(Collector):
        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            self.body.close()

    answer = call()
    peer = await server.accept()
    await peer.answer(LENGTH_3)
    sink = collect(await answer, Closing)
    await peer.send(b"abc")
    await sink.more()
    assert not sink.ended.done()
    first, second = call(), call()
    await peer.answer(LENGTH_3 + b"def")
    await (await server.accept()).answer(LENGTH_3 + b"ghi")  # it is free once, not twice
    assert {await body_of(await first), await body_of(await second)} == {b"def", b"ghi"}


async def test_an_old_body_cannot_touch_the_next_exchange(server: RawServer, call: Call) -> None:
    answer = call()
    peer = await server.accept()
    await peer.answer(LENGTH_3 + b"abc")
    first = await answer
    follow = call()
    await peer.answer(LENGTH_3)
    second = await follow
    old: UpstreamResponse = first.extensions[RESPONSE]
    old.pause()
    assert await body_of(first) == b"abc"
    old.close()
    await peer.send(b"def")
    assert await body_of(second) == b"def"


async def test_one_push_for_each_read(server: RawServer, call: Call) -> None:
    answer = call()
    peer = await server.accept()
    await peer.answer(CHUNKED)
    sink = collect(await answer)
    for chunks in (b"1\r\na\r\n", b"1\r\nb\r\n1\r\nc\r\n2\r\nde\r\n"):
        await peer.send(chunks)
        await sink.more()
    assert sink.pieces == [b"a", b"bcde"]


async def another(server: RawServer, call: Call) -> None:
    """A whole exchange on another connection: what was on its way elsewhere has arrived by then."""
    for _ in range(3):
        answer = call()
        await (await server.accept()).answer(OK + b"Connection: close\r\nContent-Length: 0\r\n\r\n")
        await body_of(await answer)


@pytest.mark.parametrize("way", ["push", "pull", "nobody"])
async def test_a_slow_consumer_holds_the_server_back(way: str, server: RawServer, call: Call) -> None:
    answer = call()
    peer = await server.accept()
    await peer.answer(OK + b"Content-Length: %d\r\n\r\n" % len(BIG))
    response = await answer
    body: UpstreamResponse = response.extensions[RESPONSE]
    sink = None
    if way == "push":
        sink = collect(response)
        body.pause()
    pull = aiter(body)
    sending = asyncio.create_task(peer.send(BIG))
    if way == "pull":
        first = await soon(anext(pull))
    await another(server, call)
    assert not sending.done(), "the server waits"
    assert body._buffered <= 2 * 256 * 1024
    if sink is not None:
        assert sink.pieces == []
        body.resume()
        assert await soon(sink.ended) is None
        assert b"".join(sink.pieces) == BIG
    else:
        got = [first] if way == "pull" else []
        got += [piece async for piece in pull]
        assert b"".join(got) == BIG
    await sending


async def test_pausing_within_the_sink_loses_nothing(server: RawServer, call: Call) -> None:
    class Stopping(Collector):
        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            self.body.pause()

    answer = call()
    peer = await server.accept()
    await peer.answer(OK + b"Content-Length: %d\r\n\r\n" % len(BIG))
    sink = collect(await answer, Stopping)
    sending = asyncio.create_task(peer.send(BIG))
    while not sink.ended.done():
        count = len(sink.pieces)
        await asyncio.sleep(0)
        assert len(sink.pieces) <= count + 1
        sink.body.resume()
    assert sink.ended.result() is None
    assert b"".join(sink.pieces) == BIG
    await sending


async def test_a_sink_that_raises_costs_its_connection_only(server: RawServer, call: Call) -> None:
    complaints: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))

    class Failing(Collector):
        def data_received(self, data: bytes) -> None:
            raise ZeroDivisionError

    answer = call()
    peer = await server.accept()
    await peer.answer(CHUNKED)
    sink = collect(await answer, Failing)
    await peer.send(b"1\r\na\r\n1\r\nb\r\n")
    assert isinstance(await soon(sink.ended), ZeroDivisionError)
    await peer.gone()
    await another(server, call)
    assert [type(c["exception"]) for c in complaints] == [ZeroDivisionError]


async def test_a_body_that_ended_can_be_read_when_the_connection_has_moved_on(server: RawServer, call: Call) -> None:
    responses = []
    peer: Peer | None = None
    for n in range(3):
        answer = call()
        peer = peer or await server.accept()
        await peer.answer(OK + b"X-N: %d\r\nContent-Length: 1\r\n\r\n%d" % (n, n))
        responses.append(await answer)
    assert [(r.headers["x-n"], await body_of(r)) for r in responses] == [("0", b"0"), ("1", b"1"), ("2", b"2")]
    assert server.accepted == 1
