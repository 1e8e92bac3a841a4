"""Requests that are alike are read without a parser, and nobody can tell."""

from __future__ import annotations

import re
from typing import Any, Final

import pytest

from svir_proxy.known_head import HeadMemory
from tests.listener.support import GET, POST, Client, read_and_answer
from tests.listener.test_connection import ANSWERED, FRAMED, REFUSED

USUAL: Final = POST + b"X-A: b\r\nContent-Length: %d\r\n\r\n%b"
ODD: Final = [
    *(b"".join(pieces) for pieces, _ in ANSWERED.values()),
    *(sent for _, sent, _, _ in FRAMED.values()),
    *(begin + more * 3 for begin, more in REFUSED.values()),
    USUAL % (2, b"abc"),
    USUAL % (2, b"a"),
    USUAL % (1, b"a") + GET,
    (USUAL % (1, b"a")).replace(b"X-A", b"connection: close\r\nX-A"),
    b"\r\n" + USUAL % (1, b"a"),
    (USUAL % (1, b"a")).replace(b": 1", b": 001"),
]
STATES: Final = ["", "pipelined", "behind", "shutting down", "gone"]


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("odd", range(len(ODD)))
async def test_what_came_before_changes_nothing(odd: int, state: str, monkeypatch: pytest.MonkeyPatch) -> None:
    usual = [USUAL % (size, b"x" * size) for size in (1, 1, 30_000, 2)]
    heard = []
    for knows in (True, False):
        seen: list[Any] = []

        async def app(scope: Any, receive: Any, send: Any, seen: list[Any] = seen) -> None:
            told = {name: value for name, value in scope.items() if name != "extensions"}
            seen.append({**told, "headers": list(scope["headers"])})
            scope["headers"].clear()  # they are the application's
            scope["path"] = scope["state"]["of"] = ""
            await read_and_answer(scope, receive, send)

        if not knows:
            monkeypatch.setattr(HeadMemory, "learn", lambda *_: None)
        client = Client(app)
        await client.send(*usual)
        fall_into(state, client)
        for request in (*usual[:2], ODD[odd], *usual, ODD[odd]):
            if state == "pipelined":
                if not client.wire.closed:
                    client.connection.data_received(request)
            else:
                await client.send(request)
        await client.settle()
        client.wire.said = re.sub(rb"x-request-id: \S+", b"", client.said)
        heard.append((seen, vars(client.wire)))
        client.lose()
    assert heard[0] == heard[1]
    assert len(heard[0][0]) >= len(usual)


def fall_into(state: str, client: Client) -> None:
    if state == "behind":
        client.connection.pause_writing()
    elif state == "shutting down":
        client.connection.shutdown()
    elif state == "gone":
        client.wire.abort()


async def test_requests_that_are_alike_need_no_parser(monkeypatch: pytest.MonkeyPatch) -> None:
    client = Client(read_and_answer)
    await client.send(USUAL % (3, b"abc"))
    monkeypatch.setattr(client.connection, "_parser", object())  # which cannot be fed
    await client.send(USUAL % (5, b"abcde"))
    assert client.said.endswith(b"\r\n\r\n5")


async def test_requests_without_a_body_do_not_count_as_heads_that_never_come_again() -> None:
    client = Client(read_and_answer)
    await client.send(*[GET] * 9, USUAL % (1, b"a"))
    assert client.connection._heads.read(USUAL % (2, b"ab"))
