"""A scripted upstream: answers a chat request with what the script holds for its model.

It frames an answer as a real server would: chunked or as HTTP/1.0, in the pieces it is given, cut off in the middle of
the body, or not at all. On loopback, unless it is told another address.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Self
from urllib.parse import unquote

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_FRAMING: Final = {"content-length", "transfer-encoding", "connection", "keep-alive", "date", "server"}
"""Recorded headers that belong to the recorded connection, not to this one."""


@dataclass(slots=True)
class Received:
    """A request that reached the upstream."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        """The body, parsed."""
        return json.loads(self.body)


@dataclass(slots=True)
class Answer:
    """What the upstream sends for one model.

    Attributes:
        status: The HTTP status; None: the connection is closed without a word.
        headers: As recorded; those that frame the message are left out.
        pieces: The body, one write and one HTTP chunk each.
        http10: The end of the connection is the end of the body.
        cut: The connection breaks before the body's end.
        wire: Sent as it is, head included, in place of all of the above; then the connection ends.
        then: The answer to every request after the first.
        received: The requests it answered.
    """

    status: int | None = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    pieces: Sequence[bytes] = ()
    http10: bool = False
    cut: bool = False
    wire: bytes | None = None
    then: Answer | None = None
    received: list[Received] = field(default_factory=list)

    @classmethod
    def recorded(cls, response: Mapping[str, Any], pieces: Sequence[bytes] = ()) -> Self:
        """An answer as a case or a model list describes it."""
        return cls(
            status=response["status"],
            headers=response.get("headers") or {},
            pieces=pieces,
            http10=response.get("http_version") == "HTTP/1.0",
            cut=bool(response.get("cut")),
        )


def json_answer(value: Any, status: int = 200) -> Answer:
    """An answer of one JSON body."""
    return Answer(status, {"content-type": "application/json"}, [json.dumps(value).encode()])


class ScriptedUpstream:
    """The server. *script*: the answer for each model; *models*: the answer to a GET, made from the script if None.

    ``async with ScriptedUpstream({"m": Answer(...)}) as upstream: upstream.base_url``. A proxy remembers the models
    that are listed when it first asks.
    """

    def __init__(
        self,
        script: dict[str, Answer] | None = None,
        models: Answer | None = None,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
    ) -> None:
        self._host, self._port = host, port
        self.script = script if script is not None else {}
        self.models = models
        self.otherwise: Answer | None = None
        """The answer for a model that the script does not have."""
        self.received: list[Received] = []
        """Every request, GETs included."""
        self._connections: dict[asyncio.Task[None], asyncio.StreamWriter] = {}

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, self._host, self._port)
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._server.close()
        for writer in self._connections.values():
            writer.transport.abort()  # whoever waits for its client sees that it is gone
        await asyncio.gather(*self._connections, return_exceptions=True)
        await self._server.wait_closed()

    @property
    def base_url(self) -> str:
        """As an operator writes it, with ``/v1``."""
        return f"http://{self._host}:{self._server.sockets[0].getsockname()[1]}/v1"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections[task] = writer
        try:
            while await self._exchange(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # the proxy left
        finally:
            del self._connections[task]
            writer.close()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        received = await _receive(reader)
        self.received.append(received)
        if received.method == "GET":
            return await _send(writer, self.models or self._model_list())
        answer = self.script.get(_model(received), self.otherwise)
        if answer is None:
            return await _send(writer, json_answer({"error": {"message": "the script has no such model"}}, 404))
        while answer.then is not None and answer.received:
            answer = answer.then
        answer.received.append(received)
        return await _send(writer, answer)

    def _model_list(self) -> Answer:
        data = [{"id": model, "object": "model", "created": 1, "owned_by": "script"} for model in self.script]
        return json_answer({"object": "list", "data": data})


def _model(received: Received) -> str:
    """The model asked for: in the body, or in an Azure deployment's path; "" for a body that is none."""
    try:
        body = received.json()
    except ValueError:
        return ""
    model = body.get("model") if isinstance(body, dict) else None
    if not model and "/deployments/" in received.target:
        return unquote(received.target.split("/deployments/", 1)[1].split("/", 1)[0])
    return str(model)


async def _receive(reader: asyncio.StreamReader) -> Received:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    request_line, *lines = head.rstrip("\r\n").split("\r\n")
    method, target, _ = request_line.split(" ", 2)
    headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    if headers.get("transfer-encoding", "").lower() != "chunked":
        return Received(method, target, headers, await reader.readexactly(int(headers.get("content-length", 0))))
    body = b""
    while size := int((await reader.readline()).split(b";")[0], 16):
        body += await reader.readexactly(size)
        await reader.readline()
    await reader.readline()
    return Received(method, target, headers, body)


async def _send(writer: asyncio.StreamWriter, answer: Answer) -> bool:
    """Write an answer; True when the connection can go on."""
    if answer.wire is not None:
        writer.write(answer.wire)
        await writer.drain()
    if answer.status is None or answer.wire is not None:
        return False
    lines = [f"HTTP/1.{0 if answer.http10 else 1} {answer.status} X"]
    lines += [f"{name}: {value}" for name, value in answer.headers.items() if name.lower() not in _FRAMING]
    if not answer.http10:
        lines.append("transfer-encoding: chunked")
    writer.write(("\r\n".join(lines) + "\r\n\r\n").encode("latin-1"))
    for piece in answer.pieces:
        if piece:
            writer.write(piece if answer.http10 else b"%x\r\n%b\r\n" % (len(piece), piece))
            await writer.drain()
            await asyncio.sleep(0)  # lets the proxy read this piece by itself
    if answer.http10 or answer.cut:
        return False
    writer.write(b"0\r\n\r\n")
    await writer.drain()
    return True
