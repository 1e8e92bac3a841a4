"""Which connection is used again, which is closed, and when none can be made."""

from __future__ import annotations

import asyncio
import socket
from contextlib import closing
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from svir_proxy.server.transport import TransportLimits, UpstreamTransport
from tests.server.transport.raw_server import Peer, RawServer, body_of, soon, until

if TYPE_CHECKING:
    from tests.server.transport.conftest import Call

OK = b"HTTP/1.1 200 OK\r\n"
EMPTY = OK + b"Content-Length: 0\r\n\r\n"


async def idle_peers(count: int, server: RawServer, call: Call) -> list[Peer]:
    """Connections that became idle in this order."""
    answers = [call() for _ in range(count)]
    peers = [await server.accept() for _ in range(count)]
    for peer in peers:
        await peer.request()
    for peer in peers:
        await peer.send(EMPTY)
        await soon(asyncio.wait(answers, return_when=asyncio.FIRST_COMPLETED))
        done = next(a for a in answers if a.done())
        answers.remove(done)
        await body_of(done.result())
    return peers


async def test_the_connection_used_last_is_used_next(server: RawServer, call: Call) -> None:
    peers = await idle_peers(3, server, call)
    for expected in (peers[2], peers[2]):
        answer = call()
        await expected.answer(EMPTY)
        await body_of(await answer)
    first, second = call(), call()
    for peer in (peers[2], peers[1]):
        await peer.answer(EMPTY)
    await body_of(await first)
    await body_of(await second)
    assert server.accepted == 3


# name: (response, whether the connection is used again)
REUSED: dict[str, tuple[bytes, bool]] = {
    "sized": (EMPTY, True),
    "chunked": (OK + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", True),
    "an error": (b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n", True),
    "204": (b"HTTP/1.1 204 No\r\n\r\n", True),
    "1.0, kept alive": (b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 0\r\n\r\n", True),
    "1.0": (b"HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n", False),
    "close": (OK + b"Connection: close\r\nContent-Length: 0\r\n\r\n", False),
    "two responses": (EMPTY + EMPTY, False),
    "bytes after the body": (EMPTY + b"0", False),
}


@pytest.mark.parametrize("name", REUSED)
async def test_used_again_or_closed(name: str, server: RawServer, call: Call) -> None:
    response, reused = REUSED[name]
    answer = call()
    peer = await server.accept()
    await peer.answer(response)
    await body_of(await answer)
    if not reused:
        await peer.gone()
    follow = call()
    await (peer if reused else await server.accept()).answer(EMPTY)
    assert (await follow).status_code == 200
    assert server.accepted == (1 if reused else 2)


async def test_a_request_that_says_close_is_the_last(server: RawServer, call: Call) -> None:
    answer = call(headers={"connection": "x, Close"})
    peer = await server.accept()
    await peer.answer(EMPTY)
    await body_of(await answer)
    await peer.gone()


async def test_a_connection_is_free_when_the_body_has_arrived(server: RawServer, call: Call) -> None:
    answer = call()
    peer = await server.accept()
    await peer.answer(OK + b"Content-Length: 1\r\n\r\na")
    unread = await answer
    follow = call()
    await peer.answer(EMPTY)
    await body_of(await follow)
    assert await body_of(unread) == b"a"


async def test_a_connection_that_was_held_back_is_read_again(server: RawServer) -> None:
    transport = UpstreamTransport(limits=TransportLimits(body_buffer=1, idle_seconds=1000))
    answer = asyncio.ensure_future(soon(transport.handle_async_request(httpx.Request("POST", server.url()))))
    peer = await server.accept()
    await peer.answer(OK + b"Content-Length: 3\r\n\r\nabc")
    response = await answer  # not read: the body was still above its limit when it ended
    peer.end()
    await until(lambda: not transport._pool._connections)
    assert await body_of(response) == b"abc"


@pytest.mark.parametrize("what", ["end", "reset", "bytes"])
async def test_what_happens_to_an_idle_connection_ends_it(
    what: str, server: RawServer, transport: UpstreamTransport, call: Call
) -> None:
    (peer,) = await idle_peers(1, server, call)
    if what == "bytes":
        await peer.send(b"HTTP/1.1 408 Timeout\r\nContent-Length: 0\r\n\r\n")
        await peer.gone()
    else:
        getattr(peer, what)()
    await until(lambda: not transport._pool._connections)
    answer = call()
    await (await server.accept()).answer(EMPTY)
    assert (await answer).status_code == 200, "and the unexpected response is nobody's"


@pytest.mark.parametrize("what", ["end", "bytes"])
async def test_what_the_loop_has_not_seen_yet_ends_it_too(
    what: str, server: RawServer, transport: UpstreamTransport, call: Call
) -> None:
    """Else an old response would be the next request's, and requests would be written to the dead."""
    (peer,) = await idle_peers(1, server, call)
    (connection,) = transport._pool._connections
    peer.now(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nold" if what == "bytes" else None)
    assert transport._pool.take(connection.origin) is None
    assert connection.closed
    await peer.gone()


@pytest.mark.parametrize("heard", [False, True], ids=["on its way", "heard"])
async def test_what_comes_before_the_request_has_left_is_no_answer_to_it(
    heard: bool, server: RawServer, transport: UpstreamTransport, call: Call
) -> None:
    """A server's second answer to one client would be another client's first."""
    (peer,) = await idle_peers(1, server, call)
    (connection,) = transport._pool._connections
    transport._pool.outbox._is_lonely = False  # as where there are others
    answer = asyncio.ensure_future(transport.handle_async_request(httpx.Request("POST", server.url(), content=b"{}")))
    await asyncio.sleep(0)
    assert connection._outgoing
    old = OK + b"Content-Length: 3\r\n\r\nold"
    if heard:
        connection.data_received(old)
    else:
        peer.now(old)
    await (await server.accept()).answer(OK + b"Content-Length: 3\r\n\r\nnew")
    assert await body_of(await soon(answer)) == b"new"
    await peer.gone()


async def test_the_longest_idle_gives_way(server: RawServer) -> None:
    transport = UpstreamTransport(limits=TransportLimits(idle_seconds=1000, idle_connections=2))

    def call() -> Any:
        return asyncio.ensure_future(soon(transport.handle_async_request(httpx.Request("POST", server.url()))))

    peers = await idle_peers(3, server, call)
    await peers[0].gone()
    first, second = call(), call()
    for peer in (peers[2], peers[1]):
        await peer.answer(EMPTY)
    await body_of(await first)
    await body_of(await second)
    await soon(transport.aclose())


async def test_idle_connections_expire(server: RawServer) -> None:
    transport = UpstreamTransport(limits=TransportLimits(idle_seconds=0.01))

    def call() -> Any:
        return asyncio.ensure_future(soon(transport.handle_async_request(httpx.Request("POST", server.url()))))

    for _ in range(2):  # the timer starts anew
        for peer in await idle_peers(3, server, call):
            await peer.gone()
    assert transport._pool._timer is None, "with nothing idle nothing ticks"
    await soon(transport.aclose())


async def test_one_timer_serves_all(server: RawServer, transport: UpstreamTransport, call: Call) -> None:
    *_, last = await idle_peers(3, server, call)
    timer = transport._pool._timer
    for _ in range(3):
        answer = call()
        await last.answer(EMPTY)
        await body_of(await answer)
    assert transport._pool._timer is timer is not None


async def test_the_timer_goes_on_with_the_next(server: RawServer, transport: UpstreamTransport, call: Call) -> None:
    older, newer = await idle_peers(2, server, call)
    pool = transport._pool
    (stack,) = pool._idle.values()
    stack[0].idle_since -= 1001
    pool._timer.cancel()
    pool._expire()
    await older.gone()
    assert [connection.closed for connection in stack] == [False]
    assert pool._timer.when() == pytest.approx(stack[0].idle_since + 1000, abs=0.1)
    answer = call()
    await newer.answer(EMPTY)
    await body_of(await answer)


async def test_an_expired_connection_is_not_used_even_before_the_timer(
    server: RawServer, transport: UpstreamTransport, call: Call
) -> None:
    (peer,) = await idle_peers(1, server, call)
    (connection,) = transport._pool._connections
    connection.idle_since -= 1001
    answer = call()
    await (await server.accept()).answer(EMPTY)
    await body_of(await answer)
    await peer.gone()


async def test_origins_do_not_mix(server: RawServer, transport: UpstreamTransport, call: Call) -> None:
    await idle_peers(1, server, call)
    other = RawServer()
    await other.start()
    answer = asyncio.ensure_future(soon(transport.handle_async_request(httpx.Request("GET", other.url()))))
    await (await other.accept()).answer(EMPTY)
    await body_of(await answer)
    await other.stop()
    assert (server.accepted, other.accepted) == (1, 1)


async def test_aclose_closes_everything(server: RawServer, transport: UpstreamTransport, call: Call) -> None:
    (idle,) = await idle_peers(1, server, call)
    answer, waiting = call(), call()
    await idle.answer(OK + b"Content-Length: 9\r\n\r\n")
    response = await answer
    active = await server.accept()
    await active.request()
    await soon(asyncio.gather(transport.aclose(), transport.aclose()))
    await soon(transport.aclose())
    with pytest.raises(httpx.ReadError, match="closed on this side"):
        await body_of(response)
    with pytest.raises(httpx.ReadError, match="closed on this side"):
        await waiting
    await idle.gone()
    await active.gone()
    with pytest.raises(RuntimeError):
        await call()


async def test_a_connection_made_while_closing_is_closed(
    server: RawServer, transport: UpstreamTransport, call: Call
) -> None:
    answer = call()
    await asyncio.sleep(0)
    await soon(transport.aclose())
    with pytest.raises(httpx.ConnectError, match="the transport was closed"):
        await answer
    await (await server.accept()).gone()


def free_port() -> int:
    with closing(socket.socket()) as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


@pytest.mark.parametrize(
    ("host", "words"),
    [("127.0.0.1", "cannot connect to 127.0.0.1:"), ("no-such-host.invalid", "cannot connect to no-such-host"),
     ("x" * 64 + ".invalid", "cannot connect")],
    ids=["refused", "unknown", "no host name"],
)  # fmt: skip
async def test_nobody_there(host: str, words: str, transport: UpstreamTransport) -> None:
    request = httpx.Request("GET", f"http://{host}:{free_port()}/", headers={"authorization": "Bearer secret"})
    with pytest.raises(httpx.ConnectError, match=words) as caught:
        await soon(transport.handle_async_request(request))
    assert caught.value.request is request
    assert "secret" not in str(caught.value)


async def test_a_handshake_that_does_not_come(server: RawServer, transport: UpstreamTransport) -> None:
    request = httpx.Request("GET", server.url("https"), extensions={"timeout": {"connect": 0.05}})
    with pytest.raises(httpx.ConnectTimeout, match=r"no connection to 127\.0\.0\.1:\d+ within 0\.05 s"):
        await soon(transport.handle_async_request(request))
    await (await server.accept()).gone()


async def test_a_cancelled_connect_leaves_nothing(server: RawServer, transport: UpstreamTransport) -> None:
    request = httpx.Request("GET", server.url("https"))
    answer = asyncio.ensure_future(soon(transport.handle_async_request(request)))
    peer = await server.accept()
    answer.cancel()
    with pytest.raises(asyncio.CancelledError):
        await answer
    await peer.gone()
    assert not transport._pool._connections


async def test_a_request_can_be_cancelled_at_any_time(
    server: RawServer, transport: UpstreamTransport, call: Call
) -> None:
    for turns in range(1, 30):
        answer = call()
        for _ in range(turns):
            await asyncio.sleep(0)
        answer.cancel()
        with pytest.raises(asyncio.CancelledError):
            await answer
    await until(lambda: not transport._pool._connections)


async def test_a_thousand_connections(server: RawServer, call: Call) -> None:
    async def serve() -> None:
        while True:
            peer = await server.accept()
            serving.append(asyncio.create_task(peer.answer(EMPTY)))

    serving = [asyncio.create_task(serve())]
    answers = [call() for _ in range(1000)]
    for answer in answers:
        assert await body_of(await answer) == b""
    serving[0].cancel()
    await asyncio.wait(serving)
