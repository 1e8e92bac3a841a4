"""An upstream that plays scripts, byte by byte as they are written, and knows what the proxy has taken of them.

A script is made of steps. No step waits for time to pass: a step waits for the proxy to have read what was sent, for
the client to have seen it, or for the proxy to close the connection, which is how every stall ends. What the proxy has
read the kernel says; Linux only.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol, Self

from tests.faults.kernel import has_left, has_read
from tests.faults.wire import WORDS
from tests.server.transport import raw_server
from tests.server.transport.raw_server import until

if TYPE_CHECKING:
    import ssl
    from collections.abc import Sequence

_NAME: Final = re.compile(rb"exchange \d+")


class Peer(raw_server.Peer):
    """The upstream's end of one connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        super().__init__(reader, writer)
        self.served = 0
        """Requests that arrived on this connection before the present one."""
        self.ended = False
        """Whether this end has said its last: what arrives afterwards is not read, as with any server."""
        self.spoilt = False
        """Whether a request that arrives is a fault of the proxy: the connection cannot be trusted any more."""
        self._sent = 0

    async def send(self, data: bytes) -> None:
        self._sent += len(data)
        await super().send(data)

    async def pour(self, data: bytes) -> None:
        """Send *data* once all before it is on its way, however long that takes."""
        self._sent += len(data)
        self._writer.transport.set_write_buffer_limits(0)
        self._writer.write(data)
        await self._writer.drain()

    def end(self) -> None:
        self.ended = True
        super().end()

    def cut(self) -> None:
        self.ended = True
        super().cut()

    def reset(self) -> None:
        self.ended = True
        super().reset()

    def half_close(self) -> None:
        """Say that nothing more comes, and go on listening."""
        self.ended = True
        self._writer.write_eof()

    def is_left(self) -> bool:
        """Whether the proxy has closed its end."""
        return has_left(self._writer.get_extra_info("socket"))

    def taken(self) -> bool:
        """Whether the proxy has read all that was sent, or has closed its end."""
        return has_read(self._writer.get_extra_info("socket"), self._sent)


@dataclass(slots=True, eq=False)
class Exchange:
    """One request of the client, and what its scripts know of it.

    Attributes:
        turns: A script for each time the request reaches the upstream.
        streamed: Whether the client asks for a stream.
        reused: For each arrival, whether the connection had carried a request before.
        status: What the client has seen of the answer; None: nothing.
        body: The bytes of the body that the client has seen.
        problems: What did not go as written.
        playing: Scripts that are being played.
        played: Steps that are over.
    """

    turns: Sequence[Sequence[Step]]
    streamed: bool
    reused: list[bool] = field(default_factory=list)
    status: int | None = None
    body: bytearray = field(default_factory=bytearray)
    problems: list[str] = field(default_factory=list)
    playing: int = 0
    played: int = 0


class Step(Protocol):
    """One thing that the upstream does."""

    async def play(self, peer: Peer, exchange: Exchange) -> None:
        """Do it."""


@dataclass(frozen=True, slots=True)
class Send:
    """Send *data* at once."""

    data: bytes

    async def play(self, peer: Peer, exchange: Exchange) -> None:
        await peer.send(self.data)


@dataclass(frozen=True, slots=True)
class Trickle:
    """Send *data* byte by byte, each when the proxy has read the one before."""

    data: bytes

    async def play(self, peer: Peer, exchange: Exchange) -> None:
        for at in range(len(self.data)):
            await peer.send(self.data[at : at + 1])
            await until(peer.taken)


@dataclass(frozen=True, slots=True)
class Flood:
    """Send *data* over and over until the proxy closes the connection."""

    data: bytes

    async def play(self, peer: Peer, exchange: Exchange) -> None:
        with contextlib.suppress(ConnectionError):
            async with asyncio.timeout(raw_server.HANG):
                while not peer.is_left():
                    await peer.send(self.data)
                    await asyncio.sleep(0)


@dataclass(frozen=True, slots=True)
class Taken:
    """Wait until the proxy has read all that was sent."""

    async def play(self, peer: Peer, exchange: Exchange) -> None:
        await until(peer.taken)


@dataclass(frozen=True, slots=True)
class Shown:
    """Wait until the client has seen so many *words*; of a whole answer it sees none before the end, so `Taken`."""

    words: int

    async def play(self, peer: Peer, exchange: Exchange) -> None:
        word = WORDS[self.words - 1].encode() if self.words else b""
        await until(lambda: peer.is_left() or (peer.taken() and (not exchange.streamed or word in exchange.body)))


@dataclass(frozen=True, slots=True)
class Begun:
    """Wait until the client has the head of its answer."""

    async def play(self, peer: Peer, exchange: Exchange) -> None:
        await until(lambda: exchange.status is not None or peer.is_left())


@dataclass(frozen=True, slots=True)
class Reset:
    """End the connection as a crash does."""

    async def play(self, peer: Peer, exchange: Exchange) -> None:
        peer.reset()


@dataclass(frozen=True, slots=True)
class End:
    """End the connection in an orderly way."""

    async def play(self, peer: Peer, exchange: Exchange) -> None:
        peer.end()


@dataclass(frozen=True, slots=True)
class HalfClose:
    """End the upstream's side of the connection, and wait for the proxy to end its own."""

    async def play(self, peer: Peer, exchange: Exchange) -> None:
        peer.half_close()
        await peer.gone()


@dataclass(frozen=True, slots=True)
class Gone:
    """Do nothing until the proxy closes the connection."""

    async def play(self, peer: Peer, exchange: Exchange) -> None:
        await peer.gone()


@dataclass(frozen=True, slots=True)
class Spoilt:
    """Wait as `Taken`; from now on no request may come.

    `Gone` would not do after a whole answer: the proxy closes what it keeps unused, sooner or later.
    """

    async def play(self, peer: Peer, exchange: Exchange) -> None:
        await until(peer.taken)
        peer.spoilt = True


@dataclass(frozen=True, slots=True)
class Head:
    """Read the head of a request, and none of its body that need not come with it."""

    async def play(self, peer: Peer, exchange: Exchange) -> None:
        await peer.head()


@dataclass(frozen=True, slots=True)
class Deaf:
    """Read nothing until the proxy closes the connection."""

    async def play(self, peer: Peer, exchange: Exchange) -> None:
        await until(peer.is_left)


class Upstream:
    """The server. *greeting*: what it does with a connection before it reads a request.

    A request names its exchange in its text; `exchanges` has them by that name.
    """

    def __init__(self, greeting: Sequence[Step] = (), context: ssl.SSLContext | None = None) -> None:
        self.accepted = 0
        self.exchanges: dict[str, Exchange] = {}
        self.strays: list[bytes] = []
        """Requests that belong to no exchange: nobody should have sent them."""
        self.tasks: set[asyncio.Task[None]] = set()
        self._greeting = greeting
        self._context = context
        self._peers: set[Peer] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self._context, backlog=1024)
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._server.close()
        await self.hang_up()
        await self._server.wait_closed()

    @property
    def port(self) -> int:
        return int(self._server.sockets[0].getsockname()[1])

    async def hang_up(self) -> None:
        """End every connection and every script."""
        for peer in tuple(self._peers):
            peer.cut()
        if self.tasks:
            await asyncio.wait(tuple(self.tasks), timeout=raw_server.HANG)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.accepted += 1
        peer = Peer(reader, writer)
        self.tasks.add(task)
        self._peers.add(peer)
        try:
            for step in self._greeting:
                await step.play(peer, Exchange((), streamed=False))
            with contextlib.suppress(asyncio.IncompleteReadError):
                while not peer.ended:
                    request = await peer.request()
                    await self._answer(peer, request)
                    peer.served += 1
        except ConnectionError:
            pass  # between two requests
        finally:
            self.tasks.discard(task)
            self._peers.discard(peer)
            await peer.wait_closed()

    def _exchange(self, request: bytes) -> Exchange | None:
        line, _, rest = request.partition(b"\r\n")
        if line != b"POST /v1/chat/completions HTTP/1.1":
            return None
        named = _NAME.search(rest)
        return self.exchanges.get(named[0].decode()) if named else None

    async def _answer(self, peer: Peer, request: bytes) -> None:
        exchange = self._exchange(request)
        if exchange is None:
            self.strays.append(request)
            peer.reset()
            return
        number = len(exchange.reused)
        exchange.reused.append(peer.served > 0)
        if peer.spoilt:
            exchange.problems.append("the request came on a connection that is spoilt")
        if number >= len(exchange.turns):
            exchange.problems.append(f"the request arrived {number + 1} times")
            peer.reset()
            return
        exchange.playing += 1
        step: Step | None = None
        try:
            for step in exchange.turns[number]:
                await step.play(peer, exchange)
                exchange.played += 1
        except (ConnectionError, TimeoutError) as exc:
            exchange.problems.append(f"{step!r:.80}: {exc!r}")
            peer.cut()
        finally:
            exchange.playing -= 1
