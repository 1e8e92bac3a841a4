"""What the tests of the server side share: answers as bytes, and clients that speak bytes or ASGI."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final, Self

import httpx
from starlette.types import ASGIApp, Message, Scope

from svir_proxy.client_request import ClientRequest
from svir_proxy.conform.judge import UPSTREAM_KEY
from svir_proxy.server.app import create_app
from svir_proxy.settings import Settings
from tests.server.transport.raw_server import RawServer, soon
from tests.support.proxy import running_proxy

CHAT: Final = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
STREAM: Final = CHAT | {"stream": True}

# ---------------------------------------------------------------- what a server sends

DONE: Final = b"data: [DONE]\n\n"
PING: Final = b": ping\n\n"


def event(value: Any) -> bytes:
    """One server-sent event."""
    return b"data: " + json.dumps(value).encode() + b"\n\n"


def chunk(delta: Mapping[str, Any], reason: str | None = None, model: str = "m") -> bytes:
    """An event with one chunk."""
    choice = {"index": 0, "delta": delta, "finish_reason": reason}
    return event({"id": "c", "object": "chat.completion.chunk", "created": 1, "model": model, "choices": [choice]})


def text(content: str) -> bytes:
    """An event with a piece of text."""
    return chunk({"content": content})


FINISH: Final = chunk({}, "stop")
ANSWER: Final = text("one") + text(" two") + FINISH + DONE
COMPLETION: Final = {
    "id": "c",
    "object": "chat.completion",
    "created": 1,
    "model": "m",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "one two"}, "finish_reason": "stop"}],
}
MODELS: Final = {"object": "list", "data": [{"id": "m", "object": "model", "created": 1, "owned_by": "o"}]}


def listing(*names: str) -> dict[str, Any]:
    """A server's model list."""
    return {"object": "list", "data": [{"id": name, "object": "model", "created": 1} for name in names]}


STREAM_HEAD: Final = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
LAST_PIECE: Final = b"0\r\n\r\n"


def piece(data: bytes) -> bytes:
    """One piece of a chunked body."""
    return b"%x\r\n%b\r\n" % (len(data), data)


def whole(body: Any, status: int = 200, *headers: str) -> bytes:
    """A response with a length; what is no bytes is sent as JSON."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    lines = [f"HTTP/1.1 {status} X", f"content-length: {len(data)}", *headers]
    if not isinstance(body, bytes):
        lines.append("content-type: application/json")
    return "\r\n".join((*lines, "", "")).encode("latin-1") + data


# ---------------------------------------------------------------- the proxy


def client_request(**body: Any) -> ClientRequest:
    """The request of a client, read."""
    return ClientRequest.from_body({**CHAT, **body}, id="r", received=7)


def settings(
    *base_urls: str, backend: Mapping[str, Any] | None = None, profile: str = "generic", **sections: Any
) -> Settings:
    """A proxy without keys of its own; its backends are ``b0``, ``b1``, ... *backend* holds for each of them."""
    backends = [
        {"name": f"b{number}", "base_url": url, "api_key": UPSTREAM_KEY, "profile": profile, **(backend or {})}
        for number, url in enumerate(base_urls or ("http://127.0.0.1:1/v1",))
    ]
    return Settings.model_validate({"backends": backends, **sections})


@asynccontextmanager
async def living(app: ASGIApp) -> AsyncIterator[None]:
    """The lifespan of *app*."""
    to_app: asyncio.Queue[Message] = asyncio.Queue()
    from_app: asyncio.Queue[Message] = asyncio.Queue()
    task = asyncio.create_task(app({"type": "lifespan"}, to_app.get, from_app.put))  # type: ignore[arg-type]
    to_app.put_nowait({"type": "lifespan.startup"})
    assert (await soon(from_app.get()))["type"] == "lifespan.startup.complete"
    try:
        yield
    finally:
        to_app.put_nowait({"type": "lifespan.shutdown"})
        assert (await soon(from_app.get()))["type"] == "lifespan.shutdown.complete"
        await task


@asynccontextmanager
async def serving(
    configured: Settings, answer: Callable[[httpx.Request], Any] | None = None
) -> AsyncIterator[httpx.AsyncClient]:
    """A client of the application, in one process with it; *answer* stands for every model server."""
    app = create_app(configured, httpx.MockTransport(answer or (lambda _: httpx.Response(500))))
    async with (
        living(app),
        httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1:8484") as client,
    ):
        yield client


@dataclass
class Proxied:
    """A proxy in front of a server that does what the test says."""

    server: RawServer
    base_url: str

    @asynccontextmanager
    async def client(self, *, receive_buffer: int | None = None) -> AsyncIterator[Client]:
        """A connection to the proxy."""
        client = await Client.connect(self.base_url, receive_buffer)
        try:
            yield client
        finally:
            await client.close()


@asynccontextmanager
async def proxied(backend: Mapping[str, Any] | None = None, **sections: Any) -> AsyncIterator[Proxied]:
    """Server and proxy, both on loopback sockets."""
    server = RawServer()
    await server.start()
    try:
        configured = settings(f"http://127.0.0.1:{server.port}/v1", backend=backend, **sections)
        async with running_proxy(configured) as base_url:
            yield Proxied(server, base_url)
    finally:
        await server.stop()


class Client:
    """One HTTP/1.1 connection to the proxy; reads only when it is told to."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self.headers: dict[str, str] = {}
        """Of the latest response."""

    @classmethod
    async def connect(cls, base_url: str, receive_buffer: int | None = None) -> Self:
        url = httpx.URL(base_url)
        sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        if receive_buffer is not None:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        sock.setblocking(False)
        try:
            await asyncio.get_running_loop().sock_connect(sock, (url.host, url.port))
        except BaseException:
            sock.close()
            raise
        return cls(*await asyncio.open_connection(sock=sock, limit=receive_buffer or 2**16))

    async def ask(self, body: Any, path: str = "/v1/chat/completions", method: str = "POST", **headers: str) -> None:
        """Send a request."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        head = {"host": "localhost", "content-type": "application/json", "content-length": str(len(data))}
        head |= {name.replace("_", "-"): value for name, value in headers.items()}
        lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in head.items()), "", ""]
        self._writer.write("\r\n".join(lines).encode("latin-1") + data)
        await soon(self._writer.drain())

    async def status(self) -> int:
        """The status of the next response, whose headers are kept."""
        lines = (await soon(self._reader.readuntil(b"\r\n\r\n"))).decode("latin-1").split("\r\n")
        pairs = (line.partition(": ") for line in lines[1:] if line)
        self.headers = {name.lower(): value for name, _, value in pairs}
        return int(lines[0].split(" ")[1])

    async def piece(self) -> bytes:
        """The next piece of a chunked body, ``b""`` at its proper end."""
        size = int(await soon(self._reader.readline()), 16)
        data = await soon(self._reader.readexactly(size))
        await soon(self._reader.readexactly(2))
        return data

    async def rest(self) -> bytes:
        """A chunked body to its proper end."""
        parts = []
        while part := await self.piece():
            parts.append(part)
        return b"".join(parts)

    async def body(self) -> Any:
        """A body with a length, as JSON."""
        return json.loads(await soon(self._reader.readexactly(int(self.headers["content-length"]))))

    async def answer(self, body: Any, **more: Any) -> tuple[int, Any]:
        """Ask, and read a body with a length."""
        await self.ask(body, **more)
        return await self.status(), await self.body()

    def write(self, data: bytes) -> None:
        """Send bytes as they are."""
        self._writer.write(data)

    async def pour(self, data: bytes, at_once: int) -> None:
        """Send a lot of bytes, no more *at_once* than are taken."""
        for start in range(0, len(data), at_once):
            self._writer.write(data[start : start + at_once])
            await soon(self._writer.drain())

    async def end(self) -> bytes:
        """What comes until the proxy closes the connection."""
        return await soon(self._reader.read())

    def leave(self) -> None:
        """Close the connection at once."""
        self._writer.transport.abort()

    async def close(self) -> None:
        self._writer.close()
        with contextlib.suppress(OSError):
            await soon(self._writer.wait_closed())


def deltas(body: bytes) -> list[Any]:
    """What the events of a stream say, in short: deltas, finish reasons, errors, ``[DONE]`` and comments."""
    said: list[Any] = []
    for line in body.decode().split("\n"):
        if line.startswith(":"):
            said.append(line)
        elif line == "data: [DONE]":
            said.append("[DONE]")
        elif line.startswith("data: "):
            value = json.loads(line[6:])
            if "error" in value:
                said.append(value["error"]["code"])
            else:
                choice = value["choices"][0]
                said.append(choice["finish_reason"] or choice["delta"])
    return said


ROLE: Final = {"role": "assistant", "content": ""}

# ---------------------------------------------------------------- plain ASGI


class NoShortWays:
    """Makes a listener like the proxy's own, which needs no task, of one that gets ASGI's messages and nothing else."""

    def whole_body(self) -> bytes | None:
        return None

    def write_whole(self, *_: object) -> bool:
        return False

    write_start = write_piece = write_opening = write_whole

    def stream_head(self, *_: object) -> bytes:
        return b""


@dataclass
class Wire(NoShortWays):
    """The listener's side of one ASGI request: what the application sent, and what it may receive."""

    sent: list[Message] = field(default_factory=list)
    gone: asyncio.Event = field(default_factory=asyncio.Event)
    writable: asyncio.Event = field(default_factory=asyncio.Event)
    body: bytes = b""
    _given: bool = False

    def __post_init__(self) -> None:
        self.writable.set()

    async def send(self, message: Message) -> None:
        if not self.writable.is_set():
            await self.writable.wait()
        self.sent.append(message)

    async def receive(self) -> Message:
        if not self._given:
            self._given = True
            return {"type": "http.request", "body": self.body, "more_body": False}
        await self.gone.wait()
        return {"type": "http.disconnect"}

    @property
    def data(self) -> bytes:
        """The body so far."""
        return b"".join(message.get("body", b"") for message in self.sent)


def http_scope(path: str = "/", method: str = "GET", **headers: str) -> Scope:
    """The scope of a request to localhost."""
    pairs = {"host": "localhost", **headers}
    raw = [(name.replace("_", "-").encode(), value.encode("latin-1")) for name, value in pairs.items()]
    return {"type": "http", "method": method, "path": path, "query_string": b"", "headers": raw}
