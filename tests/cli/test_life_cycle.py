"""How the proxy ends, changes and survives: real processes, real sockets, with one worker and with two."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import re
import signal
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from svir_proxy.conform.dialect import check_error
from tests.cli.processes import Serving, serve, stop
from tests.server.support import (
    CHAT,
    COMPLETION,
    DONE,
    FINISH,
    LAST_PIECE,
    ROLE,
    STREAM,
    STREAM_HEAD,
    Client,
    deltas,
    piece,
    text,
    whole,
)
from tests.server.transport.raw_server import Peer, RawServer, soon

MANY: Final = 50
"""Streams that are open when something happens to the process that has them."""
EACH: Final = pytest.mark.parametrize("workers", [1, 2])


@asynccontextmanager
async def model_server() -> AsyncIterator[RawServer]:
    """A server that says what the test does."""
    server = RawServer()
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


def configure(path: Path, model_server: RawServer, name: str = "a", **sections: Any) -> None:
    """Write a configuration with one backend."""
    backend = {"name": name, "base_url": f"http://127.0.0.1:{model_server.port}"}
    other = path.with_suffix(".new")
    other.write_text(json.dumps({"backends": [backend], **sections}))
    other.replace(path)


async def asked(client: Client, server: RawServer, body: Any) -> Peer:
    """The server's end of a request that has come there."""
    await client.ask(body)
    peer = await server.accept()
    await peer.request()
    return peer


async def begun(client: Client, server: RawServer) -> Peer:
    """The server's end of a stream whose first piece the client has."""
    peer = await asked(client, server, STREAM)
    await peer.send(STREAM_HEAD + piece(text("a")))
    assert await client.status() == 200
    assert deltas(await client.piece()) == [ROLE, {"content": "a"}]
    return peer


async def many(serving: Serving, server: RawServer, stack: AsyncExitStack) -> list[tuple[Client, Peer]]:
    """Streams that have begun, each on a connection of its own."""
    streams = []
    for _ in range(MANY):
        client = await stack.enter_async_context(serving.client())
        streams.append((client, await begun(client, server)))
    return streams


async def goes_on(client: Client, peer: Peer) -> None:
    """The stream of `begun` goes on, to its proper end."""
    await peer.send(piece(text("b") + FINISH + DONE) + LAST_PIECE)
    assert deltas(await client.rest()) == [{"content": "b"}, "stop", "[DONE]"]


async def answered_by(serving: Serving, server: RawServer) -> str:
    """The backend that answers a request on a new connection; *server* has to be it."""
    async with serving.client() as client:
        peer = await asked(client, server, CHAT)
        await peer.send(whole(COMPLETION, 200, "connection: close"))
        assert await client.status() == 200
        await client.body()
        return client.headers["x-svir-backend"]


# ----------------------------------------------------------------- SIGTERM


@EACH
async def test_what_runs_may_end_and_nothing_new_comes_in(tmp_path: Path, workers: int) -> None:
    path = tmp_path / "c.yaml"
    async with model_server() as server:
        configure(path, server)
        async with (
            serve(path, workers) as serving,
            serving.client() as idle,
            serving.client() as waiting,
            serving.client() as slow,
            AsyncExitStack() as stack,
        ):
            await idle.ask(b"", "/healthz", "GET")
            assert await idle.status() == 200
            await idle.body()
            streams = await many(serving, server, stack)
            answer = await asked(waiting, server, CHAT)
            body = json.dumps(CHAT).encode()
            slow.write(b"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n")
            slow.write(b"expect: 100-continue\r\ncontent-length: %d\r\n\r\n" % len(body))
            assert await slow.status() == 100, "its body is waited for"
            slow.write(body[:10])

            serving.signal(signal.SIGTERM)
            assert await idle.end() == b"", "closed at once"
            await serving.refuses()

            slow.write(body[10:])
            await (await server.accept()).answer(whole(COMPLETION))
            assert await slow.status() == 200
            for streamed, stream in streams:
                await goes_on(streamed, stream)
                assert await streamed.end() == b""
            await answer.send(whole(COMPLETION))
            assert (await waiting.status(), waiting.headers["connection"]) == (200, "close")
            assert (await waiting.body())["choices"][0]["message"]["content"] == "one two"
            status, log = await serving.ended()
            assert status == 0
            assert not re.search("WARNING|ERROR", log), "nobody was cut off"


@EACH
async def test_what_runs_for_too_long_ends_with_an_error(tmp_path: Path, workers: int) -> None:
    path = tmp_path / "c.yaml"
    async with model_server() as server:
        configure(path, server, server={"drain_seconds": 0})
        async with (
            serve(path, workers) as serving,
            serving.client() as silent,
            serving.client() as waiting,
            AsyncExitStack() as stack,
        ):
            streams = await many(serving, server, stack)
            peers = [await asked(silent, server, STREAM), await asked(waiting, server, CHAT)]
            serving.signal(signal.SIGTERM)
            for streamed, stream in streams:
                assert deltas(await streamed.rest()) == ["upstream_unavailable"]
                await stream.gone()
            for client in (silent, waiting):
                assert await client.status() == 503
                assert client.headers["retry-after"] == "1"
                assert check_error(json.dumps(await client.body()).encode()) == []
            for peer in peers:
                await peer.gone()
            status, log = await serving.ended()
            assert status == 0
            assert log.count("upstream_unavailable") == MANY + 2
            assert "Traceback" not in log


# ----------------------------------------------------------------- reload


@EACH
@pytest.mark.parametrize("how", ["SIGHUP", "file"])
async def test_the_new_configuration_counts_for_what_comes_and_the_old_for_what_runs(
    tmp_path: Path, workers: int, how: str
) -> None:
    path = tmp_path / "c.yaml"
    async with model_server() as old, model_server() as new:
        configure(path, old, server={"reload": how == "file"})
        async with serve(path, workers) as serving, serving.client() as waiting, AsyncExitStack() as stack:
            streams = await many(serving, old, stack)
            answer = await asked(waiting, old, CHAT)
            configure(path, new, "b", logging={"format": "json"}, server={"reload": how == "file"})
            if how == "SIGHUP":
                serving.signal(signal.SIGHUP)
            assert json.loads((await serving.said("the configuration was reloaded")).string)["level"] == "info"
            for _ in range(8):  # more than there are workers, each on a connection of its own
                assert await answered_by(serving, new) == "b"

            for streamed, stream in streams:
                await goes_on(streamed, stream)
            await answer.send(whole(COMPLETION))
            assert (await waiting.status(), waiting.headers["x-svir-backend"]) == (200, "a")
            await waiting.body()
            for peer in (answer, *(stream for _, stream in streams)):
                await peer.gone()
            peer = await asked(waiting, new, CHAT)  # on the connection that was there before
            await peer.send(whole(COMPLETION))
            assert (await waiting.status(), waiting.headers["x-svir-backend"]) == (200, "b")
            assert old.accepted == MANY + 1
            serving.signal(signal.SIGTERM)
            status, log = await serving.ended()
            assert status == 0
            assert all(json.loads(line) for line in log.splitlines())


@EACH
async def test_a_bad_file_changes_nothing(tmp_path: Path, workers: int) -> None:
    path = tmp_path / "c.yaml"
    async with model_server() as server:
        configure(path, server)
        async with serve(path, workers) as serving, serving.client() as streamed:
            stream = await begun(streamed, server)
            configure(path, server, "b", server={"prot": 1})
            await serving.said(r"the one before stays: server\.prot: is unknown; did you mean port\?")
            assert await answered_by(serving, server) == "a"
            configure(path, server, "b")
            await serving.said("the configuration was reloaded")
            assert await answered_by(serving, server) == "b"
            await goes_on(streamed, stream)


@EACH
async def test_how_long_the_end_may_take_can_be_changed(tmp_path: Path, workers: int) -> None:
    path = tmp_path / "c.yaml"
    async with model_server() as server:
        configure(path, server, server={"drain_seconds": 600})
        async with serve(path, workers) as serving, serving.client() as streamed:
            await begun(streamed, server)
            configure(path, server, server={"drain_seconds": 0})
            serving.signal(signal.SIGHUP)
            await serving.said("the configuration was reloaded")
            serving.signal(signal.SIGTERM)
            assert deltas(await streamed.rest()) == ["upstream_unavailable"]
            assert (await serving.ended())[0] == 0


# ----------------------------------------------------------------- crashes


async def test_the_crash_of_a_worker_loses_its_own_streams_only(tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    async with model_server() as server:
        configure(path, server)
        async with serve(path, workers=2) as serving, AsyncExitStack() as stack:
            configure(path, server, "b")
            serving.signal(signal.SIGHUP)
            await serving.said("the configuration was reloaded")
            doomed, other = serving.workers
            # Whoever stands still accepts nothing.
            await stop(other)
            lost = await many(serving, server, stack)
            os.kill(other, signal.SIGCONT)
            await stop(doomed)
            kept = await many(serving, server, stack)
            os.kill(doomed, signal.SIGCONT)
            path.write_text("backends: [")
            await serving.said("the configuration was not reloaded")

            os.kill(doomed, signal.SIGKILL)
            for streamed, stream in lost:
                assert await streamed.end() == b"", "cut off, without the end of its body"
                await stream.gone()
            ended = await serving.said(r"worker (\d+) ended \((\w+)\); (\d+) takes its place")
            assert (int(ended[1]), ended[2]) == (doomed, "SIGKILL")
            await serving.said(rf"worker {ended[3]} serves")

            await stop(other)
            assert await answered_by(serving, server) == "b", "the last configuration that was right"
            os.kill(other, signal.SIGCONT)
            for streamed, stream in kept:
                await goes_on(streamed, stream)
            serving.signal(signal.SIGTERM)
            assert (await serving.ended())[0] == 0


async def test_workers_end_when_nobody_is_over_them(tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    async with model_server() as server:
        configure(path, server)
        async with serve(path, workers=2) as serving, serving.client() as streamed:
            stream = await begun(streamed, server)
            serving.signal(signal.SIGKILL)
            await serving.refuses()
            await goes_on(streamed, stream)
            status, log = await serving.ended()  # its log is theirs: they have ended, too
            assert status == -signal.SIGKILL
            assert not re.search("WARNING|ERROR|Traceback", log)


@EACH
async def test_a_terminal_that_is_closed_ends_it(tmp_path: Path, workers: int) -> None:
    path = tmp_path / "c.yaml"
    async with model_server() as server:
        configure(path, server)
        terminal, end = pty.openpty()
        async with serve(path, workers, terminal=end) as serving:
            said = b""
            while b"listening on" not in said:
                said += await soon(asyncio.to_thread(os.read, terminal, 1000))
            os.close(end)
            os.close(terminal)
            serving.signal(signal.SIGHUP)  # as the system does for the session of a terminal
            assert await soon(serving.process.wait()) == 0
