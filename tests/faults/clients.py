"""Clients that are hostile or unlucky: what they say, byte by byte as it is written, what they must hear, how they leave.

A script is made of acts. No act waits for time to pass: it waits for the proxy to have read what was said, for the
upstream to have been asked, or for an answer.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import socket
import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol, Self

from svir_proxy.conform import dialect
from tests.faults.client import Client
from tests.faults.judge import Sees, judge
from tests.faults.kernel import has_read
from tests.faults.wire import dumps
from tests.server.transport.raw_server import soon, until

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from svir_proxy.conform.judge import Seen
    from tests.faults.upstream import Exchange

_ERRORS: Final[dict[str, tuple[int, str, str | None]]] = {
    "invalid_request": (400, "invalid_request_error", None),
    "invalid_json": (400, "invalid_request_error", "invalid_json"),
    "forbidden_host": (403, "permission_error", "forbidden_host"),
    "model_not_found": (404, "invalid_request_error", "model_not_found"),
    "unknown_url": (404, "invalid_request_error", "unknown_url"),
    "method_not_allowed": (405, "invalid_request_error", "method_not_allowed"),
    "request_timeout": (408, "invalid_request_error", "request_timeout"),
    "request_too_large": (413, "invalid_request_error", "request_too_large"),
    "unsupported_media_type": (415, "invalid_request_error", None),
    "overloaded": (503, "upstream_error", "overloaded"),
}
"""Status, type and code of the errors that a client can bring upon itself: the dialect's table."""


class Speaker(Client):
    """A client that says what it is told to. *window*: bytes its socket takes before it is read; None: the system's."""

    def __init__(self, port: int, window: int | None = None) -> None:
        super().__init__(port)
        self._window = window

    async def __aenter__(self) -> Self:
        sock = socket.socket()
        if self._window is not None:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self._window)
        sock.setblocking(False)
        await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", self._port))
        limit = 2**16 if self._window is None else self._window
        self._reader, self._writer = await asyncio.open_connection(sock=sock, limit=limit)
        # Whatever is said is out before anything is read: as most clients are made.
        self._writer.transport.set_write_buffer_limits(0)
        self._said = 0
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._writer.transport.abort()
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()

    async def say(self, data: bytes) -> None:
        self._writer.write(data)
        self._said += len(data)
        await soon(self._writer.drain())

    async def taken(self) -> None:
        """Wait until the proxy has read all that was said, or has closed its end."""
        sock = self._writer.get_extra_info("socket")
        await until(lambda: has_read(sock, self._said))

    async def ended(self) -> bytes:
        """What still comes until the proxy ends the connection."""
        return await soon(self._reader.read())

    @property
    def heard(self) -> bool:
        """Whether there is something to read, or the end."""
        return bool(self._reader._buffer) or self._reader.at_eof() or self._reader.exception() is not None  # type: ignore[attr-defined]

    async def read_all(self, last: bytes) -> bytes:
        """What comes up to *last*."""
        read = bytearray()
        while last not in read[-len(last) - 65536 :]:
            piece = await self.read(65536)
            if not piece:
                raise AssertionError(f"the connection ended after {bytes(read[-200:])!r}")
            read += piece
        return bytes(read)

    async def read(self, count: int) -> bytes:
        """The next bytes, *count* at most."""
        return await soon(self._reader.read(count))

    def leave(self, way: str) -> None:
        """*way*: ``close``, ``reset`` or ``half-close``."""
        if way == "half-close":
            self._writer.write_eof()
        elif way == "close":
            self._writer.close()
        else:
            sock = self._writer.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self._writer.transport.abort()


@dataclass(slots=True)
class Scene:
    """What the acts of one script share.

    Attributes:
        speaker: The client.
        exchanges: What the upstream is to do with its chat requests, in their order.
        problems: What was not as it must be.
        pieces: Whether every byte goes out by itself.
    """

    speaker: Speaker
    exchanges: Sequence[Exchange]
    problems: list[str] = field(default_factory=list)
    pieces: bool = False


class Act(Protocol):
    """One thing that a client does."""

    async def play(self, scene: Scene) -> None:
        """Do it."""


@dataclass(frozen=True, slots=True)
class Say:
    """Send *data*, all of it."""

    data: bytes

    async def play(self, scene: Scene) -> None:
        if not scene.pieces:
            await scene.speaker.say(self.data)
            return
        for at in range(len(self.data)):
            await scene.speaker.say(self.data[at : at + 1])
            await scene.speaker.taken()


@dataclass(frozen=True, slots=True)
class Taken:
    """Wait until the proxy has read all that was said."""

    async def play(self, scene: Scene) -> None:
        await scene.speaker.taken()


@dataclass(frozen=True, slots=True)
class Hear:
    """Read one answer.

    Attributes:
        error: What it says is wrong, a key of the dialect's table; None: nothing.
        chat: It is the chat answer, as ``stream`` or ``whole``.
        says: What an error's message holds.
        head: It answers a HEAD, and has no body.
        headers: What its fields hold, as patterns.
        continues: How often it says 100 (Continue) first.
        to_end: Its body ends with the connection.
        times: How many such answers.
    """

    error: str | None = None
    chat: str = ""
    says: str = ""
    head: bool = False
    headers: tuple[tuple[str, str], ...] = ()
    continues: int = 0
    to_end: bool = False
    times: int = 1

    async def play(self, scene: Scene) -> None:
        for _ in range(self.times):
            continues = 0
            while (seen := await scene.speaker.hear(bytearray(), head=self.head, to_end=self.to_end)).status == 100:
                continues += 1
            if continues != self.continues:
                scene.problems.append(f"100 (Continue) came {continues} times")
            scene.problems += self.judge(seen)

    def judge(self, seen: Seen) -> Iterator[str]:
        """What is wrong with an answer."""
        for name, pattern in self.headers:
            if not re.fullmatch(pattern, seen.headers.get(name, "")):
                yield f"{name} is {seen.headers.get(name)!r}"
        if self.head:
            status = _ERRORS[self.error][0] if self.error else 200
            if (seen.status, seen.body) != (status, b""):
                yield f"{seen.status} {seen.body[:80]!r} in answer to HEAD"
        elif self.chat:
            yield from judge(Sees(), seen, streamed=self.chat == "stream")
        elif self.error is None:
            if seen.status != 200:
                yield f"status {seen.status}: {seen.body[:300]!r}"
        else:
            yield from error_problems(seen, self.error, self.says)


def error_problems(seen: Seen, kind: str, says: str = "") -> Iterator[str]:
    """What is wrong with an answer that must be the error *kind*."""
    status, *told = _ERRORS[kind]
    if seen.status != status or (wrong := dialect.check_error(seen.body)):
        yield (
            f"status {seen.status}, not {status}: {seen.body[:300]!r}"
            if seen.status != status
            else f"{wrong}: {seen.body[:300]!r}"
        )
        return
    if not seen.headers.get("x-request-id"):
        yield "no x-request-id"
    if status == 503 and not seen.headers.get("retry-after", "").isdigit():
        yield "no retry-after"
    error = json.loads(seen.body)["error"]
    if [error["type"], error["code"]] != told:
        yield f"the error {error}, not {kind}"
    if not re.search(says, error["message"]):
        yield f"the message {error['message']!r} lacks {says!r}"


@dataclass(frozen=True, slots=True)
class Ends:
    """The proxy ends the connection, and says nothing more; *cut*: except for a part of an answer."""

    cut: bool = False

    async def play(self, scene: Scene) -> None:
        try:
            rest = await scene.speaker.ended()
        except ConnectionResetError:
            if not self.cut:
                scene.problems.append("the connection was reset")
            return
        if rest and not self.cut:
            scene.problems.append(f"it said more: {rest[:200]!r}")


@dataclass(frozen=True, slots=True)
class Played:
    """Wait until the upstream has done so many *steps*, in all."""

    steps: int

    async def play(self, scene: Scene) -> None:
        await until(lambda: sum(exchange.played for exchange in scene.exchanges) == self.steps)


@dataclass(frozen=True, slots=True)
class Arrived:
    """Wait until the upstream has been asked, *times* times in all."""

    times: int = 1

    async def play(self, scene: Scene) -> None:
        await until(lambda: sum(len(exchange.reused) for exchange in scene.exchanges) == self.times)


@dataclass(frozen=True, slots=True)
class Leave:
    """Go, and wait until nothing is done any more for this client."""

    way: str

    async def play(self, scene: Scene) -> None:
        scene.speaker.leave(self.way)
        await until(lambda: not any(exchange.playing for exchange in scene.exchanges))


# ------------------------------------------------------------------------------------------------- what clients say


def request(
    method: str = "GET",
    target: str = "/healthz",
    *fields: str,
    body: bytes = b"",
    version: str = "1.1",
    host: str | None = "localhost",
) -> bytes:
    """A request as it is written; a body has its length unless *fields* say how it is framed."""
    lines = [f"{method} {target} HTTP/{version}", *([] if host is None else [f"Host: {host}"]), *fields]
    if body and not re.search(r"(?im)^(content-length|transfer-encoding)", "\n".join(fields)):
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


def question(name: str, *, streamed: bool, **more: Any) -> bytes:
    """The body of a chat request. *name*: its exchange."""
    options = {"stream_options": {"include_usage": True}} if streamed else {}
    messages = [{"role": "user", "content": name}]
    return dumps({"model": "patient", "messages": messages, "stream": streamed, **options, **more})


CHAT: Final = "/v1/chat/completions"
JSON: Final = "Content-Type: application/json"
CHUNKED: Final = "Transfer-Encoding: chunked"


def chat(name: str, *fields: str, streamed: bool = False, version: str = "1.1", **more: Any) -> bytes:
    """A chat request."""
    return request("POST", CHAT, JSON, *fields, body=question(name, streamed=streamed, **more), version=version)
