"""What an application may do with a request, and what becomes of its messages."""

from __future__ import annotations

import asyncio
from typing import Any, Final

import pytest

from tests.listener.support import GET, Client


async def test_a_writer_waits_for_a_slow_client_and_is_let_go_when_it_leaves() -> None:
    sent: list[int] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for number in range(4):
            await send({"type": "http.response.body", "body": b"x", "more_body": True})
            sent.append(number)

    client = Client(app)
    client.connection.pause_writing()
    await client.send(GET)
    assert sent == []
    client.connection.resume_writing()
    client.connection.pause_writing()
    await client.settle()
    client.lose()
    await client.settle()
    assert sent == [0, 1, 2, 3], "messages to nobody are dropped"
    assert not client.state.tasks


BAD_ANSWERS: Final[dict[str, list[dict[str, Any]]]] = {
    "none": [],
    "no body": [{"type": "http.response.start", "status": 200, "headers": []}],
    "a line break": [{"type": "http.response.start", "status": 200, "headers": [(b"x-a", b"1\r\nx-b: 2")]}],
    "a bare line feed": [{"type": "http.response.start", "status": 200, "headers": [(b"x-a", b"1\nx-b: 2")]}],
    "framing of its own": [
        {"type": "http.response.start", "status": 200, "headers": [(b"transfer-encoding", b"gzip")]}
    ],
    "too long": [
        {"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"1")]},
        {"type": "http.response.body", "body": b"12"},
    ],
    "too short": [
        {"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"3")]},
        {"type": "http.response.body", "body": b"12"},
    ],
    "a body first": [{"type": "http.response.body", "body": b"12"}],
    "something else": [{"type": "http.response.trailers"}],
}


@pytest.mark.parametrize("name", BAD_ANSWERS)
async def test_an_application_at_fault_cannot_spoil_the_framing(name: str) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        for message in BAD_ANSWERS[name]:
            await send(message)

    client = Client(app)
    await client.send(GET)
    assert client.wire.aborted
    assert client.said == b""
    assert not client.state.tasks


@pytest.mark.parametrize("leaves", ["meanwhile", "before it asks", "after it was told not to call"])
async def test_a_client_that_leaves_is_called_for(leaves: str) -> None:
    called: list[str] = []
    go = asyncio.Event()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        on_disconnect = scope["extensions"]["svir.on_disconnect"]
        await receive()
        if leaves == "before it asks":
            await go.wait()
        on_disconnect(lambda: called.append("gone"))
        if leaves == "after it was told not to call":
            on_disconnect(None)
        await go.wait()

    client = Client(app)
    await client.send(GET)
    client.lose()
    assert called == (["gone"] if leaves == "meanwhile" else [])
    go.set()
    await client.settle()
    assert called == ([] if leaves == "after it was told not to call" else ["gone"])


async def test_a_client_is_looked_after_though_its_body_filled_the_buffer() -> None:
    go = asyncio.Event()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await go.wait()
        while (await receive())["more_body"]:
            pass
        scope["extensions"]["svir.on_disconnect"](lambda: None)
        await asyncio.Event().wait()

    client = Client(app)
    await client.send(b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 70000\r\n\r\n" + b"x" * 70_000)
    assert client.wire.resting
    go.set()
    await client.settle()
    assert not client.wire.resting
    client.lose()
    for task in client.state.tasks:
        task.cancel()
    await client.settle()
