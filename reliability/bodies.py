"""``python -m reliability.bodies``: what one large request costs all others, and how much of it is held.

Another process reads a stream through the proxy, an event every two milliseconds, while bodies pass: the largest gap
of that stream is the time for which nobody else got a word. Status 1 where a body did not get through as it was, was
not refused where it should be, or where media took more than twice their size.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import hashlib
import json
import re
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from reliability.figures import table
from reliability.proxy import ROOT, ProxyProcess
from tests.faults.wire import CHUNKED, GOOD, chunk, head

MOST: Final = 2.0
"""Times its size that a body of media may take."""
PACE: Final = 0.002
"""Seconds between two events of the stream beside."""
_LENGTH: Final = re.compile(rb"(?i)content-length: *(\d+)")
_PIECE: Final = 256 << 10
_EVENT: Final = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "pace"}

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Body:
    """A request: what it is, its bytes, the status it must have, and whether it is media, which are not read."""

    name: str
    data: bytes
    status: int = 200
    is_media: bool = False
    payload: bytes = b""
    """What must be in it as it is when it arrives."""


def bodies(megabytes: float) -> Iterator[Body]:
    """Requests of so many *megabytes*: media, what is no media, and what is made to be slow."""
    size = int(megabytes * 2**20)
    media = base64.b64encode(hashlib.shake_128(b"media").digest(size * 3 // 4))
    url = b"data:image/png;base64," + media
    image = _chat(b'[{"type":"image_url","image_url":{"url":"%b"}}]' % url)
    yield Body("image", image, is_media=True, payload=media)
    slashes = media.replace(b"/", rb"\/")
    yield Body("image, as PHP writes it", image.replace(b"/", rb"\/"), is_media=True, payload=slashes)
    sound = b'[{"type":"input_audio","input_audio":{"data":"%b","format":"wav"}}]' % media
    yield Body("sound", _chat(sound), is_media=True, payload=media)
    document = b'[{"type":"file","file":{"file_data":"data:application/pdf;base64,%b"}}]' % media
    yield Body("document", _chat(document), is_media=True, payload=media)
    yield Body("text", _chat(b'"%b"' % (b"a word " * (size // 7))))
    yield Body("text, all line ends", _chat(b'"%b"' % (rb"\n" * (size // 2))))
    yield Body("text, and half a character", _chat(rb'"%b\ud83d"' % (rb"a line\n" * (size // 8))))
    yield Body("openings of data URLs", _chat(b'"%b"' % (rb"\"data:x" * (size // 8))))
    yield Body("heads of data URLs", _chat(b'"%b"' % (rb"\"data:image/png;base64,x" * (size // 24))))
    yield Body("halves of characters", _chat(b'"%b"' % (rb"\ud83d" * (size // 6))), 400 if size > 2**20 else 200)
    yield Body("values", b'{"model":"big","messages":[%b0]}' % (b"0," * (size // 2)), 413 if size > 8 * 2**20 else 400)


def _chat(content: bytes) -> bytes:
    return b'{"model":"big","messages":[{"role":"user","content":%b}]}' % content


# ------------------------------------------------------------------- the process beside


async def beside() -> None:
    """Serve a stream and read it through the proxy, whose port comes as a line; each further line asks for the gap."""
    lines = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    async with _server(_stream) as port:
        print(port, flush=True)
        reader, writer = await asyncio.open_connection("127.0.0.1", int(await lines.readline()))
        writer.write(_request(b'{"model":"pace","stream":true,"messages":[{"role":"user","content":"go"}]}'))
        largest, last = 0.0, 0.0

        async def read() -> None:
            nonlocal largest, last
            while await reader.read(65536):
                now = time.perf_counter()
                largest, last = max(largest, now - last if last else 0.0), now

        reading = asyncio.create_task(read())
        while await lines.readline():
            await asyncio.sleep(10 * PACE)  # what is on its way
            print(largest * 1000, flush=True)
            largest = 0.0
        reading.cancel()
        writer.close()


async def _stream(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await _head(reader)
    writer.write(head(CHUNKED))
    choice = {"index": 0, "delta": {"content": "word "}, "finish_reason": None}
    event = chunk(b"data: %b\n\n" % json.dumps({**_EVENT, "choices": [choice]}).encode())
    while True:
        writer.write(event)
        await writer.drain()
        await asyncio.sleep(PACE)


# ------------------------------------------------------------------- the bodies


@dataclass(slots=True)
class Passed:
    """What was seen of one body. *gap*: milliseconds without a word for others; *mib*: memory at the most."""

    body: Body
    status: int
    gap: float
    mib: float
    is_whole: bool

    @property
    def finding(self) -> str | None:
        """What was wrong."""
        size = len(self.body.data) / 2**20
        if self.status != self.body.status:
            return f"{self.body.name}: {self.status}, not {self.body.status}"
        if not self.is_whole:
            return f"{self.body.name}: it did not arrive as it was"
        if self.body.is_media and self.mib > MOST * size + 2:
            return f"{self.body.name}: {self.mib:.1f} MiB for {size:.1f}"
        return None


async def passed(body: Body) -> Passed:
    """*body*, through a proxy that has done nothing else."""
    is_whole = False

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal is_whole
        while True:
            is_whole = body.payload in await reader.readexactly(await _head(reader))
            writer.write(GOOD[False])

    async with _server(take) as port, _beside() as other:
        ports = {"pace": int(await other.line()), "big": port}
        backends = [
            {"name": name, "base_url": f"http://127.0.0.1:{at}/v1", "profile": "openai", "models": {name: name}}
            for name, at in ports.items()
        ]
        with tempfile.TemporaryDirectory() as folder:
            async with ProxyProcess({"backends": backends}, Path(folder)) as proxy:
                other.say(f"{proxy.port}")
                await other.gap()  # of getting to know each other
                before = proxy.holds().mib
                status = await _post(proxy.port, body.data)
                gap, most = await other.gap(), _most(proxy.pid) - before
                await other.leave()  # else the proxy would wait for the end of its stream
                return Passed(body, status, gap, most, is_whole or status >= 400)


class _Beside:
    """The process that reads a stream."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    def say(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line.encode() + b"\n")

    async def line(self) -> str:
        assert self._process.stdout is not None
        return (await self._process.stdout.readline()).decode()

    async def gap(self) -> float:
        """The largest gap since it was last asked for, in milliseconds."""
        self.say("?")
        return float(await self.line())

    async def leave(self) -> None:
        """End it."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        await self._process.wait()


@asynccontextmanager
async def _beside() -> AsyncIterator[_Beside]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "reliability.bodies", "--beside",
        cwd=ROOT, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    other = _Beside(process)
    try:
        yield other
    finally:
        await other.leave()


def _most(pid: int) -> float:
    """The most memory that the process ever had, in MiB."""
    found = re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
    assert found is not None
    return int(found[1]) / 1024


async def _post(port: int, data: bytes) -> int:
    """Send a request; the status of its answer, which is read."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(_request(data, all_of_it=False))
    for start in range(0, len(data), _PIECE):
        writer.write(data[start : start + _PIECE])
        await writer.drain()
    status = int((await reader.readline()).split()[1])
    await reader.readexactly(await _head(reader))
    writer.close()
    return status


def _request(data: bytes, *, all_of_it: bool = True) -> bytes:
    lines = b"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    return b"%bcontent-length: %d\r\n\r\n%b" % (lines, len(data), data if all_of_it else b"")


async def _head(reader: asyncio.StreamReader) -> int:
    """Read a head, and say how long the body is."""
    found = _LENGTH.search(await reader.readuntil(b"\r\n\r\n"))
    return int(found[1]) if found else 0


@asynccontextmanager
async def _server(serve: Serve) -> AsyncIterator[int]:
    """A server on a free port, which it gives."""

    async def served(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            await serve(reader, writer)
        writer.transport.abort()

    server = await asyncio.start_server(served, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


async def _passed(megabytes: float) -> list[Passed]:
    return [await passed(body) for body in bodies(megabytes)]


def main(argv: Sequence[str] | None = None) -> int:
    """The process's status."""
    parser = argparse.ArgumentParser(prog="python -m reliability.bodies", description=__doc__)
    parser.add_argument("--megabytes", type=float, default=20.0, metavar="N", help="how large each is (20)")
    parser.add_argument("--beside", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    if args.beside:
        asyncio.run(beside())
        return 0
    seen = asyncio.run(_passed(args.megabytes))
    rows = [(one.body.name, len(one.body.data) / 2**20, one.status, one.gap, one.mib) for one in seen]
    print(table(("body", "MiB", "status", "largest gap of others, ms", "MiB more, at the most"), rows))
    findings = [one.finding for one in seen if one.finding]
    print(f"\n{len(findings)} findings")
    for text in findings:
        print(text, file=sys.stderr)
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
