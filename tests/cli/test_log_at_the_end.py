"""The log of a real process: a stderr that nobody reads stops no stream, and however it ends no line is lost."""

from __future__ import annotations

import asyncio
import fcntl
import os
import re
import signal
import sys
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

import pytest

from tests.cli.test_life_cycle import EACH, begun, configure, model_server
from tests.server.support import DONE, FINISH, LAST_PIECE, Client, deltas, piece, text
from tests.server.transport.raw_server import soon

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

MANY: Final = 100
"""Requests whose lines a pipe of one page does not take."""


class Unread:
    """A proxy whose stderr is a pipe of one page, which is read when the test wants."""

    def __init__(self, process: asyncio.subprocess.Process, out: int) -> None:
        self.process = process
        self.base_url = ""
        self._out = out
        self._said = b""

    async def until(self, pattern: str) -> re.Match[str]:
        """Read until it has said so."""
        while (found := re.search(pattern, self._said.decode())) is None:
            self._said += (data := await soon(asyncio.to_thread(os.read, self._out, 65536)))
            assert data, self._said.decode()
        return found

    async def rest(self) -> str:
        """All that it says until it has ended, with what it had said before."""
        while data := await soon(asyncio.to_thread(os.read, self._out, 65536)):
            self._said += data
        return self._said.decode()


@asynccontextmanager
async def unread(config: Path, workers: int) -> AsyncIterator[Unread]:
    out, into = os.pipe()
    fcntl.fcntl(into, fcntl.F_SETPIPE_SZ, 4096)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "svir_proxy", "serve", "--config", str(config), "--port", "0"),
        *("--workers", str(workers)),
        stderr=into,
        start_new_session=True,
    )
    os.close(into)
    made = Unread(process, out)
    try:
        made.base_url = (await made.until(r"listening on (http://\S+)"))[1]
        yield made
    finally:
        if process.returncode is None:
            os.killpg(process.pid, signal.SIGKILL)  # the session that was started above, workers included
            await soon(process.wait())
        os.close(out)


async def asked(base_url: str, numbers: range) -> None:
    """Requests one after the other, on one connection, each with an id of its own."""
    client = await Client.connect(base_url)
    for number in numbers:
        await client.ask(b"", path="/nothing", method="GET", x_request_id=f"number-{number}")
        assert await client.status() == 404
        await client.body()
    await client.close()


@pytest.mark.skipif(not hasattr(fcntl, "F_SETPIPE_SZ"), reason="the size of a pipe can be set on Linux alone")
@EACH
async def test_a_stderr_that_nobody_reads_stops_no_stream(tmp_path: Path, workers: int) -> None:
    config = tmp_path / "svir.json"
    async with model_server() as server:
        configure(config, server)
        async with unread(config, workers) as proxy:
            client = await Client.connect(proxy.base_url)
            peer = await begun(client, server)
            await asked(proxy.base_url, range(MANY))
            await peer.send(piece(text("b")))
            assert deltas(await client.piece()) == [{"content": "b"}]
            await peer.send(piece(FINISH) + piece(DONE) + LAST_PIECE)
            assert deltas(await client.rest())[-1] == "[DONE]"
            await client.close()
            await asked(proxy.base_url, range(MANY, 2 * MANY))
            proxy.process.send_signal(signal.SIGTERM)
            said = await proxy.rest()
            assert await soon(proxy.process.wait()) == 0
    lines = re.findall(r"(?m)^\S+ INFO +GET /nothing 404 request_id=number-(\d+) .*error=unknown_url .*$", said)
    assert sorted(map(int, lines)) == list(range(2 * MANY)), "none is lost, none torn"
    if workers == 1:
        assert lines == [str(number) for number in range(2 * MANY)], "nor out of order"


@pytest.mark.skipif(not hasattr(fcntl, "F_SETPIPE_SZ"), reason="the size of a pipe can be set on Linux alone")
@EACH
async def test_nor_does_it_keep_the_process_from_its_end(tmp_path: Path, workers: int) -> None:
    config = tmp_path / "svir.json"
    async with model_server() as server:
        configure(config, server)
        async with unread(config, workers) as proxy:
            await asked(proxy.base_url, range(MANY))
            proxy.process.send_signal(signal.SIGTERM)
            assert await soon(proxy.process.wait()) == 0


_ENDS: Final = {
    "sys.exit": "sys.exit(3)",
    "an exception": "raise RuntimeError('the reason')",
    "its end": "",
    "an interrupt": "raise KeyboardInterrupt",
}


@pytest.mark.parametrize("way", _ENDS)
async def test_however_a_process_ends_its_lines_are_written(way: str) -> None:
    code = (
        "import logging, sys\n"
        "from svir_proxy.server.logs import set_up_logging\n"
        "from svir_proxy.settings import LoggingSettings\n"
        "set_up_logging(LoggingSettings())\n"
        "for number in range(1000):\n"
        "    logging.getLogger('svir_proxy.requests').info(f'number {number} ')\n"
        f"{_ENDS[way]}\n"
    )
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", code, stderr=asyncio.subprocess.PIPE)
    _, said = await soon(process.communicate())
    assert re.findall(r"number (\d+)\n", said.decode()) == [str(number) for number in range(1000)]
    assert ("the reason" in said.decode()) == (way == "an exception")
    assert (process.returncode == 0) == (way == "its end")
