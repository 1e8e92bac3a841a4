"""The transport as httpx and the proxy use it: retries, TLS, clients."""

from __future__ import annotations

import asyncio
import ssl
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from svir_proxy.server.transport import RESPONSE, TransportLimits, UpstreamResponse, UpstreamTransport, post_head
from svir_proxy.server.transport.head import ONE_WRITE
from tests.server.transport.conftest import EITHER_WAY
from tests.server.transport.raw_server import Certificate, Peer, RawServer, body_of, soon, until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.server.transport.conftest import Call

OK = b"HTTP/1.1 200 OK\r\n"
LENGTH_3 = OK + b"Content-Length: 3\r\n\r\n"


async def kept(server: RawServer, call: Call) -> Peer:
    """The server's end of a connection that is idle."""
    answer = call()
    peer = await server.accept()
    await peer.answer(LENGTH_3 + b"abc")
    await body_of(await answer)
    return peer


@EITHER_WAY
@pytest.mark.parametrize("end", ["end", "reset"])
async def test_a_kept_connection_that_ends_costs_nothing(end: str, server: RawServer, call: Call) -> None:
    old = await kept(server, call)
    answer = call(b'{"again":1}')
    await old.request()
    getattr(old, end)()
    fresh = await server.accept()
    assert (await fresh.answer(LENGTH_3 + b"abc")).endswith(b'{"again":1}')
    assert await body_of(await answer) == b"abc"


@EITHER_WAY
async def test_the_second_attempt_is_on_a_new_connection_and_the_last(server: RawServer, call: Call) -> None:
    first, second = call(), call()
    peers = [await server.accept(), await server.accept()]
    for peer in peers:
        await peer.answer(LENGTH_3 + b"abc")
    for answer in (first, second):
        await body_of(await answer)
    answer = call()
    await soon(asyncio.wait([asyncio.ensure_future(peer.request()) for peer in peers], return_when="FIRST_COMPLETED"))
    for peer in peers:
        peer.end()
    fresh = await server.accept()
    await fresh.request()
    fresh.end()
    with pytest.raises(httpx.RemoteProtocolError, match="without a response"):
        await answer
    assert server.accepted == 3


@EITHER_WAY
@pytest.mark.parametrize("beginning", [b"H", b"\r", OK, b"HTTP/1.1 100 Continue\r\n\r\n"])
async def test_one_byte_of_a_response_forbids_another_attempt(
    beginning: bytes, server: RawServer, transport: UpstreamTransport, call: Call
) -> None:
    old = await kept(server, call)
    answer = call()
    await old.answer(beginning)
    (connection,) = transport._pool._connections
    await until(lambda: connection.heard)
    old.end()
    with pytest.raises(httpx.RemoteProtocolError):
        await answer
    assert server.accepted == 1


@EITHER_WAY
async def test_a_request_that_is_given_up_closes_its_kept_connection(server: RawServer, call: Call) -> None:
    old = await kept(server, call)
    answer = call()
    await old.request()
    answer.cancel()
    with pytest.raises(asyncio.CancelledError):
        await answer
    assert await old.gone() == b""
    assert server.accepted == 1


@EITHER_WAY
@pytest.mark.parametrize("whole", [False, True])
async def test_a_cancellation_that_comes_with_the_response(
    whole: bool, server: RawServer, transport: UpstreamTransport, call: Call
) -> None:
    old = await kept(server, call)
    answer = call()
    await old.request()
    (connection,) = transport._pool._connections
    answer.cancel()
    connection.data_received(LENGTH_3 + (b"abc" if whole else b"ab"))  # the cancelled task has not run yet
    with pytest.raises(asyncio.CancelledError):
        await answer
    assert connection.closed is not whole, "a connection whose response is whole is free"
    follow = call()
    await (old if whole else await server.accept()).answer(LENGTH_3 + b"def")
    assert await body_of(await follow) == b"def"


@EITHER_WAY
async def test_a_cancellation_that_comes_too_late_leaves_the_connection_to_the_next(
    server: RawServer, transport: UpstreamTransport, call: Call
) -> None:
    old = await kept(server, call)
    answer = call()
    await old.request()
    (connection,) = transport._pool._connections
    connection.data_received(LENGTH_3 + b"abc")
    taken = transport._pool.take(connection.origin)
    assert taken is connection
    response, answered = connection.ask(b"GET / HTTP/1.1\r\nhost: h\r\n\r\n")
    answer.cancel()
    with pytest.raises(asyncio.CancelledError):
        await answer
    await old.answer(LENGTH_3 + b"def")
    await soon(answered)
    assert (response.status, [piece async for piece in response]) == (200, [b"def"])


class Counted:
    """Counts how often a connection is asked whether it can be read."""

    def __init__(self, poll: Any) -> None:
        self.asked = 0
        self._poll = poll

    def poll(self, milliseconds: int) -> Any:
        self.asked += 1
        return self._poll.poll(milliseconds)


@EITHER_WAY
@pytest.mark.parametrize(("lonely", "asked"), [(True, 1), (False, 2)])
async def test_who_sends_in_the_turn_it_was_taken_asks_the_connection_once(
    lonely: bool, asked: int, server: RawServer, transport: UpstreamTransport, call: Call
) -> None:
    old = await kept(server, call)
    (connection,) = transport._pool._connections
    counted = connection.readable = Counted(connection.readable)
    transport._pool.outbox._is_lonely = lonely
    answer = call()
    await old.answer(LENGTH_3 + b"abc")
    assert await body_of(await answer) == b"abc"
    assert counted.asked == asked


@EITHER_WAY
async def test_a_request_that_cannot_be_written_is_given_up(
    server: RawServer, transport: UpstreamTransport, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Broken:
        def write(self, data: bytes) -> None:
            raise OSError("broken")

        def abort(self) -> None:
            self.aborted = True

    await kept(server, call)
    (connection,) = transport._pool._connections
    with monkeypatch.context() as patch:
        patch.setattr(connection, "_transport", Broken())
        with pytest.raises(OSError, match="broken"):
            await call()
        assert connection._transport.aborted
    assert transport._pool.take(connection.origin) is None


@EITHER_WAY
@pytest.mark.parametrize("content", [b"", b"x" * ONE_WRITE, b"x" * (ONE_WRITE + 1)], ids=len)
async def test_both_ways_send_the_same(content: bytes, server: RawServer, call: Call) -> None:
    old = await kept(server, call)
    answer = call(content)
    head = await old.head()
    assert b"content-length: %d\r\n" % len(content) in head.lower()
    assert await old.read(len(content)) == content
    await old.send(LENGTH_3 + b"abc")
    assert await body_of(await answer) == b"abc"
    assert server.accepted == 1


@pytest.mark.parametrize("close", [False, True])
async def test_a_head_that_says_close_is_the_last(close: bool, server: RawServer, transport: UpstreamTransport) -> None:
    url = httpx.URL(server.url())
    heads = [post_head(url, httpx.Headers(more)) for more in ({}, {"connection": "close"} if close else {})]
    peer = None
    for head in heads:
        answer = asyncio.create_task(soon(transport.post(head, b"{}", None)))
        peer = peer or await server.accept()
        await peer.answer(LENGTH_3 + b"abc")
        assert (await answer).at_hand(3) == b"abc"
    assert (transport._pool.take(heads[0].origin) is None) is close


async def test_over_a_kept_connection_a_request_is_sent_before_it_is_awaited(
    server: RawServer, transport: UpstreamTransport
) -> None:
    head = post_head(httpx.URL(server.url()), httpx.Headers())
    first = asyncio.create_task(transport.post(head, b"{}", None))
    peer = await server.accept()
    await peer.answer(LENGTH_3 + b"abc")
    assert (await soon(first)).at_hand(3) == b"abc"
    asked = transport.post(head, b"[]", None)
    assert (await peer.request()).endswith(b"[]")
    await peer.send(LENGTH_3 + b"def")
    assert (await soon(asked)).at_hand(3) == b"def"


@pytest.mark.parametrize("read", [None, 60.0], ids=["post", "exchange"])
async def test_a_server_that_worked_at_it_and_died_is_not_asked_again(read: float | None, server: RawServer) -> None:
    transport = UpstreamTransport(limits=TransportLimits(retry_seconds=0))
    head = post_head(httpx.URL(server.url()), httpx.Headers())
    asked = asyncio.create_task(soon(transport.post(head, b"{}", None)))
    peer = await server.accept()
    await peer.answer(LENGTH_3 + b"abc")
    await asked
    asked = asyncio.create_task(soon(transport.post(head, b"{}", None, read=read)))
    await peer.request()
    peer.reset()
    with pytest.raises(httpx.ReadError):
        await asked
    assert server.accepted == 1
    await soon(transport.aclose())


async def test_a_time_limit_forbids_another_attempt(server: RawServer, call: Call) -> None:
    old = await kept(server, call)
    answer = call(timeout={"read": 0.01})
    with pytest.raises(httpx.ReadTimeout):
        await answer
    await old.gone()
    assert server.accepted == 1


async def test_a_stream_cannot_be_sent_again_so_it_gets_a_new_connection(server: RawServer, call: Call) -> None:
    async def stream() -> AsyncIterator[bytes]:
        yield b"abc"

    await kept(server, call)
    answer = call(stream(), headers={"content-length": "3"})
    fresh = await server.accept()
    assert (await fresh.answer(LENGTH_3 + b"def")).endswith(b"abc")
    assert await body_of(await answer) == b"def"


async def test_a_response_is_httpx_s(server: RawServer, call: Call) -> None:
    answer = call(headers={"x-a": "1"})
    await (await server.accept()).answer(
        b"HTTP/1.1 429 Slow Down\r\nRetry-After: 3\r\nSet-Cookie: a\r\nset-cookie: b\r\nContent-Length: 3\r\n\r\nabc"
    )
    response = await answer
    assert response.status_code == 429
    assert response.headers["retry-after"] == "3"
    assert response.headers.get_list("set-cookie") == ["a", "b"]
    assert response.request.headers["x-a"] == "1"
    assert isinstance(response.extensions[RESPONSE], UpstreamResponse)
    assert await response.aread() == b"abc"
    assert response.is_closed
    with pytest.raises(httpx.HTTPStatusError):
        response.raise_for_status()


async def test_the_body_is_as_sent(server: RawServer, call: Call) -> None:
    answer = call()
    await (await server.accept()).answer(OK + b"Content-Encoding: gzip\r\nContent-Length: 3\r\n\r\nabc")
    response = await answer
    assert [piece async for piece in response.aiter_raw()] == [b"abc"]


async def test_a_client_of_httpx(server: RawServer, transport: UpstreamTransport) -> None:
    async with httpx.AsyncClient(transport=transport, timeout=20) as client:
        answer = asyncio.ensure_future(client.post(server.url(), json={"a": 1}))
        peer = await server.accept()
        assert (await peer.answer(OK + b'Content-Length: 8\r\n\r\n{"b": 2}')).endswith(b'{"a":1}')
        assert (await answer).json() == {"b": 2}
        failing = asyncio.ensure_future(client.get(server.url()))
        await peer.request()
        peer.end()
        fresh = await server.accept()
        await fresh.answer(OK + b"Content-Length: 9\r\n\r\nabc")
        fresh.end()
        with pytest.raises(httpx.RemoteProtocolError, match="in the middle of a response body"):
            await failing


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"url": "ftp://127.0.0.1/"}, httpx.UnsupportedProtocol),
        ({"headers": [(b"a", b"1\r\nX: y")]}, httpx.LocalProtocolError),
        ({"method": "GET\r\n"}, httpx.LocalProtocolError),
    ],
)
async def test_refused_before_a_connection_is_made(
    change: dict[str, Any], error: type[Exception], server: RawServer, transport: UpstreamTransport
) -> None:
    request = httpx.Request(**{"method": "GET", "url": server.url(), **change})
    with pytest.raises(error) as caught:
        await soon(transport.handle_async_request(request))
    assert caught.value.request is request  # type: ignore[attr-defined]
    assert server.accepted == 0


# TLS


async def start_tls(certificate: Certificate) -> RawServer:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate.pem, certificate.key)
    raw = RawServer()
    context.sni_callback = lambda _, name, __: raw.names.append(name)
    await raw.start(context)
    return raw


@pytest.fixture
async def secure(certificate: Certificate) -> AsyncIterator[RawServer]:
    raw = await start_tls(certificate)
    yield raw
    await raw.stop()


@pytest.fixture
async def trusting(certificate: Certificate) -> AsyncIterator[UpstreamTransport]:
    made = UpstreamTransport(ssl_context=ssl.create_default_context(cafile=certificate.pem))
    yield made
    await soon(made.aclose())


def ask(transport: UpstreamTransport, url: str, **more: Any) -> asyncio.Task[httpx.Response]:
    return asyncio.ensure_future(soon(transport.handle_async_request(httpx.Request("POST", url, **more))))


@pytest.mark.parametrize(("host", "name"), [("localhost", "localhost"), ("127.0.0.1", None)])
async def test_tls(host: str, name: str | None, secure: RawServer, trusting: UpstreamTransport) -> None:
    big = bytes(range(256)) * 10_000
    for _ in range(2):
        answer = ask(trusting, secure.url("https", host), content=big)
        if not secure.accepted:
            peer = await secure.accept()
        assert (await peer.answer(OK + b"Content-Length: %d\r\n\r\n" % len(big) + big)).endswith(big)
        assert await body_of(await answer) == big
    assert secure.accepted == 1
    assert secure.names == [name]


async def test_tls_stops_at_once(secure: RawServer, trusting: UpstreamTransport) -> None:
    answer = ask(trusting, secure.url("https"), content=b"{}")
    peer = await secure.accept()
    await peer.answer(OK + b"Content-Length: 9\r\n\r\nabc")
    await (await answer).aclose()
    assert await peer.gone() == b""


async def test_tls_body_until_the_end(secure: RawServer, trusting: UpstreamTransport) -> None:
    answer = ask(trusting, secure.url("https"), content=b"{}")
    peer = await secure.accept()
    await peer.answer(OK + b"\r\nabc")
    peer.end()
    assert await body_of(await answer) == b"abc"


# name: (what the server sends before the connection is cut, error on asyncio, error on uvloop)
CUT: dict[str, tuple[bytes, type[Exception] | None, type[Exception]]] = {
    "nothing": (b"", httpx.RemoteProtocolError, httpx.RemoteProtocolError),
    "half a body": (OK + b"Content-Length: 9\r\n\r\nabc", httpx.RemoteProtocolError, httpx.ReadError),
    # asyncio takes a cut for an end, and nothing above it can tell
    "a body until the end": (OK + b"\r\nabc", None, httpx.ReadError),
}


@pytest.mark.parametrize("name", CUT)
async def test_tls_cut_on_the_way(name: str, secure: RawServer, trusting: UpstreamTransport) -> None:
    data, *errors = CUT[name]
    expected = errors["uvloop" in type(asyncio.get_running_loop()).__module__]
    answer = ask(trusting, secure.url("https"), content=b"{}")
    peer = await secure.accept()
    await peer.answer(data)
    got, error = b"", None
    if not data:
        peer.cut()
    try:
        async for piece in (await answer).stream:
            got += piece
            peer.cut()
    except httpx.TransportError as exc:
        error = exc
    assert got == data.partition(b"\r\n\r\n")[2]
    assert type(error) is (expected or type(None))


async def test_tls_closed_within_the_sink(secure: RawServer, trusting: UpstreamTransport) -> None:
    class Closing:
        def data_received(self, data: bytes) -> None:
            body.close()

        def body_ended(self, error: Exception | None) -> None:
            raise AssertionError

    answer = ask(trusting, secure.url("https"), content=b"{}")
    peer = await secure.accept()
    await peer.answer(OK + b"Content-Length: 9\r\n\r\n")
    body: UpstreamResponse = (await answer).extensions[RESPONSE]
    body.attach(Closing())
    await peer.send(b"abc")
    await peer.send(b"def")
    await peer.gone()


async def test_tls_kept_connection_that_ends(secure: RawServer, trusting: UpstreamTransport) -> None:
    answer = ask(trusting, secure.url("https"), content=b"{}")
    peer = await secure.accept()
    await peer.answer(LENGTH_3 + b"abc")
    await body_of(await answer)
    answer = ask(trusting, secure.url("https"), content=b"{}")
    await peer.request()
    peer.end()
    await (await secure.accept()).answer(LENGTH_3 + b"def")
    assert await body_of(await answer) == b"def"


async def test_certificates_are_verified_by_default(secure: RawServer, transport: UpstreamTransport) -> None:
    with pytest.raises(httpx.ConnectError, match="certificate verify failed"):
        await ask(transport, secure.url("https", "localhost"))


async def test_names_are_verified(tmp_path: Path) -> None:
    certificate = Certificate(tmp_path, "DNS:elsewhere.invalid")
    raw = await start_tls(certificate)
    transport = UpstreamTransport(ssl_context=ssl.create_default_context(cafile=certificate.pem))
    with pytest.raises(httpx.ConnectError, match="certificate verify failed"):
        await ask(transport, raw.url("https", "localhost"))
    await soon(transport.aclose())
    await raw.stop()


async def test_tls_asked_of_a_plain_server(server: RawServer, transport: UpstreamTransport) -> None:
    answer = ask(transport, server.url("https"))
    await (await server.accept()).send(b"HTTP/1.1 400 Bad Request\r\n\r\n")
    with pytest.raises(httpx.ConnectError, match="cannot connect to"):
        await answer


async def test_limits_are_the_caller_s(server: RawServer) -> None:
    transport = UpstreamTransport(limits=TransportLimits(headers=2))
    answer = ask(transport, server.url())
    await (await server.accept()).answer(OK + b"A: 1\r\nB: 2\r\nContent-Length: 0\r\n\r\n")
    with pytest.raises(httpx.RemoteProtocolError, match="too long"):
        await answer
    await soon(transport.aclose())


def test_the_limits_suit_servers_as_they_are() -> None:
    limits = TransportLimits()
    assert limits.idle_seconds < 5, "uvicorn and llama.cpp close then"
    assert 8 << 10 <= limits.head_bytes <= 1 << 20
    assert 100 <= limits.headers <= 1000
    assert 16 <= limits.idle_connections <= 1024
    assert limits.body_buffer <= 1 << 20
