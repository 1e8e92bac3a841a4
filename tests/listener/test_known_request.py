"""Requests that are alike are read without a parser, and nobody can tell."""

from __future__ import annotations

import re
from typing import Any, Final

import pytest

from svir_proxy.listener.known_request import KnownRequest
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
]


@pytest.mark.parametrize("odd", range(len(ODD)))
async def test_what_came_before_changes_nothing(odd: int, monkeypatch: pytest.MonkeyPatch) -> None:
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
            monkeypatch.setattr(KnownRequest, "of", lambda *_: None)
        client = Client(app)
        for request in (*usual, ODD[odd], *usual, ODD[odd]):
            await client.send(request)
        client.wire.said = re.sub(rb"x-request-id: \S+", b"", client.said)
        heard.append((seen, vars(client.wire)))
        client.lose()
    assert heard[0] == heard[1]
    assert len(heard[0][0]) >= len(usual)


async def test_requests_that_are_alike_need_no_parser(monkeypatch: pytest.MonkeyPatch) -> None:
    client = Client(read_and_answer)
    await client.send(USUAL % (3, b"abc"))
    monkeypatch.setattr(client.connection, "_parser", object())  # which cannot be fed
    await client.send(USUAL % (5, b"abcde"))
    assert client.said.endswith(b"\r\n\r\n5")


async def test_heads_that_never_come_again_are_soon_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    learned: list[bytes] = []
    of = KnownRequest.of
    monkeypatch.setattr(KnownRequest, "of", lambda data, body, scope: learned.append(data) or of(data, body, scope))
    client = Client(read_and_answer)
    for number in range(9):
        await client.send(GET, (USUAL % (1, b"a")).replace(b"X-A", b"X-%d" % number))
    assert len([data for data in learned if data != GET]) == 4
