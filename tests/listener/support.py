"""A connection whose wire and clock are in the test's hands."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

import uvicorn
from uvicorn.server import ServerState

from svir_proxy.listener import ClientConnection, ClientLimits

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
        assert not self.half_closed
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

    def __init__(self, app: Any, limits: ClientLimits = LIMITS, state: ServerState | None = None) -> None:
        config = uvicorn.Config(app, lifespan="off", log_config=None, log_level="critical")
        config.load()
        self.clock = Clock()
        self.state = state or ServerState()
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

    @property
    def told(self) -> bool:
        """Whether it has heard the last."""
        return self.wire.closed or self.wire.half_closed

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


async def leave_out(scope: Any, receive: Any, send: Any) -> None:
    """The answer to a HEAD: a body's length without the body."""
    del scope, receive
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"9")]})
    await send({"type": "http.response.body", "body": b""})


async def refuse(scope: Any, receive: Any, send: Any) -> None:
    """An answer before the body is read."""
    del scope, receive
    await send({"type": "http.response.start", "status": 413, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"no"})


GET: Final = b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n"
POST: Final = b"POST / HTTP/1.1\r\nhost: localhost\r\n"
CHUNKED: Final = POST + b"transfer-encoding: chunked\r\n\r\n1\r\nx\r\n"
KIB: Final = b"b" * 1024
