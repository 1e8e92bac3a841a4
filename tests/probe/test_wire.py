"""Whatever happens on the way, an answer comes back."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import httpx
import pytest

from svir_proxy.probe import wire as wire_module
from svir_proxy.probe.answer import Answer, Ask
from svir_proxy.probe.wire import HTTPWire, key_headers
from svir_proxy.profiles.schema import Endpoint

ASK: Final = Ask({"model": "a/b", "messages": []})
USUAL: Final = Endpoint()
HEAD: Final = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


@asynccontextmanager
async def _answering(sent: bytes, *, close: bool = True) -> AsyncIterator[tuple[str, list[bytes]]]:
    """A server that sends *sent* to whoever asks, and then closes or waits; with the heads it got."""
    heads: list[bytes] = []
    exchanges: list[asyncio.Task[None] | None] = []

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        exchanges.append(asyncio.current_task())
        heads.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(sent)
        with contextlib.suppress(ConnectionError):
            while not close and await reader.read(1 << 16):
                pass  # until the client leaves
            writer.close()
            await writer.wait_closed()

    listener = await asyncio.start_server(handle, "127.0.0.1", 0)
    async with listener:
        yield f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}", heads
        await asyncio.gather(*(task for task in exchanges if task is not None))


async def _asked(
    url: str, ask: Ask = ASK, *, seconds: float = 60, key: str | None = None, endpoint: Endpoint = USUAL
) -> Answer:
    async with httpx.AsyncClient(timeout=None, trust_env=False) as client:
        return await HTTPWire(client, url, endpoint, key).ask(ask, seconds)


async def test_a_whole_answer() -> None:
    async with _answering(HEAD + _chunk(b"data: 1\n\n") + b"0\r\n\r\n") as (url, heads):
        answer = await _asked(url, key="k")
    assert (answer.status, answer.body, answer.whole, answer.trouble) == (200, b"data: 1\n\n", True, "")
    assert answer.headers["content-type"] == "text/event-stream"
    assert 0 <= answer.first_seconds <= answer.seconds
    assert heads[0].startswith(b"POST /v1/chat/completions HTTP/1.1\r\n")
    assert b"authorization: Bearer k\r\n" in heads[0]


@pytest.mark.parametrize(
    ("sent", "status"),
    [(HEAD + _chunk(b"data: 1\n\n"), 200), (b"", None), (b"SSH-2.0-OpenSSH\r\n", None)],
)
async def test_a_connection_that_breaks(sent: bytes, status: int | None) -> None:
    async with _answering(sent) as (url, _):
        answer = await _asked(url)
    assert (answer.status, answer.whole, answer.late) == (status, False, False)
    assert answer.trouble.startswith("the connection broke: ")


@pytest.mark.parametrize("sent", [b"", HEAD + _chunk(b"data: 1\n\n")])
async def test_an_answer_that_does_not_end_in_time(sent: bytes) -> None:
    async with _answering(sent, close=False) as (url, _):
        answer = await _asked(url, seconds=0.3)
    assert (answer.whole, answer.late) == (False, True)
    # On a machine that is busy not even the head of an answer that began may have come.
    assert answer.trouble == f"no {'answer' if answer.status is None else 'end'} within 0.3 s"


async def test_nobody_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    answer = await _asked(f"http://127.0.0.1:{port}")
    assert answer.status is None
    assert answer.trouble.startswith("no connection: ")


@pytest.mark.parametrize(
    "output",
    [
        b'data: {"choices":[{"delta":{"content":"Hi"}}]}\n\n',
        b'data: {"choices": [{"delta": {"content": "Hi"}}]}\n\n',
        b'data: {"choices":[{"delta":{"reasoning_content":"hm"}}]}\n\n',
        b'data: {"error":{"message":"no"}}\n\n',
    ],
)
async def test_it_leaves_at_the_first_output(output: bytes) -> None:
    sent = HEAD + _chunk(b'data: {"choices":[{"delta":{"role":"assistant","content":""}}]}\n\n') + _chunk(output)
    async with _answering(sent, close=False) as (url, _):
        answer = await _asked(url, Ask(ASK.body, leave_after_output=True))
    assert (answer.left, answer.whole, answer.trouble) == (True, False, "")
    assert answer.body.endswith(output)


async def test_an_endless_answer_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire_module, "MAX_BODY_BYTES", 1000)
    async with _answering(HEAD + _chunk(b"x" * 5000), close=False) as (url, _):
        answer = await _asked(url)
    assert answer.trouble == "the answer is longer than 1000 bytes"


@pytest.mark.parametrize(
    ("auth", "key", "headers"),
    [
        ("bearer", "k", {"authorization": "Bearer k"}),
        ("api-key", "k", {"api-key": "k"}),
        ("none", "k", {}),
        ("bearer", None, {}),
    ],
)
def test_how_a_key_is_shown(auth: str, key: str | None, headers: dict[str, str]) -> None:
    assert key_headers(auth, key) == headers


async def test_paths_and_query_of_the_profile() -> None:
    endpoint = Endpoint(chat_path="/deployments/x/chat", query={"api-version": "1"}, auth="api-key")
    async with _answering(b"HTTP/1.1 204 No\r\n\r\n") as (url, heads):
        await _asked(f"{url}/openai", key="k", endpoint=endpoint)
    assert heads[0].startswith(b"POST /openai/deployments/x/chat?api-version=1 HTTP/1.1\r\n")
    assert b"api-key: k\r\n" in heads[0]


async def test_a_model_in_the_path_is_quoted() -> None:
    async with _answering(b"HTTP/1.1 204 No\r\n\r\n") as (url, heads):
        await _asked(url, endpoint=Endpoint(chat_path="/deployments/{model}/chat"))
    assert heads[0].startswith(b"POST /deployments/a%2Fb/chat HTTP/1.1\r\n")
