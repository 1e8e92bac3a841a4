"""The body of a request within its limit, and answers of one piece."""

from __future__ import annotations

import json

import pytest
from starlette.types import Message

from svir_proxy.errors import ProxyError
from svir_proxy.server.http import (
    ClientGone,
    header,
    internal_error,
    read_body,
    send_error,
    send_json,
    stopped,
    without_body,
)
from tests.server.support import Wire, http_scope


class Received:
    """What a server hands to the application."""

    def __init__(self, *parts: bytes | None) -> None:
        last = len(parts) - 1
        self._messages: list[Message] = [
            {"type": "http.disconnect"}
            if part is None
            else {"type": "http.request", "body": part, "more_body": n < last}
            for n, part in enumerate(parts)
        ]

    async def receive(self) -> Message:
        return self._messages.pop(0)

    @property
    def left(self) -> int:
        return len(self._messages)


@pytest.mark.parametrize(
    "parts", [[b""], [b"ab"], [b"a", b"b"], [b"", b"a", b"", b"b", b""], [b"x" * 10], [b"x" * 9, b"x"]]
)
async def test_a_body_up_to_the_limit(parts: list[bytes]) -> None:
    assert await read_body(http_scope(), Received(*parts).receive, 10) == b"".join(parts)


async def test_a_message_may_leave_out_what_is_empty() -> None:
    async def receive() -> Message:
        return {"type": "http.request"}

    assert await read_body(http_scope(), receive, 10) == b""


@pytest.mark.parametrize(
    ("length", "parts", "left"),
    [
        ("11", [b"x" * 11], 1),
        ("99999999999999999999999999", [b"x"], 1),
        ("", [b"x" * 11], 0),
        ("", [b"x" * 6, b"x" * 6, b"never read"], 1),
        ("00000000000000000000011", [b"x" * 11], 0),
        ("-1", [b"x" * 11], 0),
        ("\xb2", [b"x" * 11], 0),
    ],
)
async def test_a_body_past_it(length: str, parts: list[bytes], left: int) -> None:
    received = Received(*parts)
    scope = http_scope(content_length=length) if length else http_scope()
    with pytest.raises(ProxyError) as caught:
        await read_body(scope, received.receive, 10)
    assert (caught.value.kind, caught.value.status) == ("request_too_large", 413)
    assert "10 bytes (server.max_request_bytes" in caught.value.message
    assert received.left == left, "a length that is declared is believed, and nothing is read"


@pytest.mark.parametrize("parts", [[None], [b"a", None]])
async def test_a_client_that_leaves_before_its_request_is_whole(parts: list[bytes | None]) -> None:
    with pytest.raises(ClientGone):
        await read_body(http_scope(), Received(*parts).receive, 10)


class Listener(Received):
    """A server that also has ways without messages, while it *likes*."""

    def __init__(self, body: bytes, *, likes: bool) -> None:
        super().__init__(body)
        self.likes = likes
        self.wire = Wire()
        self.written: list[tuple[object, ...]] = []

    def whole_body(self) -> bytes | None:
        return self._messages.pop(0)["body"] if self.likes else None

    def write_whole(self, *answer: object) -> bool:
        if self.likes:
            self.written.append(answer)
        return self.likes

    def write_piece(self, body: bytes) -> bool:
        raise AssertionError(body)

    async def send(self, message: Message) -> None:
        await self.wire.send(message)


@pytest.mark.parametrize("likes", [True, False])
async def test_a_body_that_is_all_there(likes: bool) -> None:
    listener = Listener(b"x" * 10, likes=likes)
    assert await read_body(http_scope(), listener.receive, 10) == b"x" * 10
    assert listener.left == 0
    with pytest.raises(ProxyError, match="larger than 10 bytes"):
        await read_body(http_scope(), Listener(b"x" * 11, likes=likes).receive, 10)


@pytest.mark.parametrize("likes", [True, False])
async def test_an_answer_takes_one_step_where_there_is_a_way(likes: bool) -> None:
    listener = Listener(b"", likes=likes)
    await send_json(listener.send, 200, 1, [(b"x", b"y")])
    headers = [(b"content-type", b"application/json"), (b"content-length", b"1"), (b"x", b"y")]
    assert listener.written == ([(200, headers, b"1")] if likes else [])
    assert [message.get("headers", message.get("body")) for message in listener.wire.sent] == (
        [] if likes else [headers, b"1"]
    )


async def test_whatever_stands_in_front_of_the_listener_gets_every_message() -> None:
    listener = Listener(b"ab", likes=True)
    seen: list[str] = []

    async def receive() -> Message:
        message = await listener.receive()
        seen.append(message["type"])
        return message

    async def send(message: Message) -> None:
        seen.append(message["type"])
        await listener.send(message)

    assert await read_body(http_scope(), receive, 10) == b"ab"
    await send_json(send, 200, 1, [])
    assert seen == ["http.request", "http.response.start", "http.response.body"]


def test_the_first_header_of_a_name_counts() -> None:
    scope = {"headers": [(b"a", b"\xff"), (b"b", b"2"), (b"a", b"3")]}
    assert [header(scope, name) for name in (b"a", b"b", b"c")] == ["\xff", "2", ""]


@pytest.mark.parametrize("head_only", [False, True])
async def test_json(head_only) -> None:
    wire = Wire()
    await send_json(without_body(wire.send) if head_only else wire.send, 201, {"a": "é"}, [(b"x", b"y")])
    start, body = wire.sent
    whole = '{"a":"é"}'.encode()
    assert start["status"] == 201
    assert dict(start["headers"]) == {b"content-type": b"application/json", b"content-length": b"10", b"x": b"y"}
    assert body == {"type": "http.response.body", "body": b"" if head_only else whole, "more_body": False}


@pytest.mark.parametrize(
    ("error", "status", "headers"),
    [
        (ProxyError("invalid_json", "no"), 400, {b"x-should-retry": b"false"}),
        (ProxyError("overloaded", "busy", retry_after=2), 503, {b"retry-after": b"2"}),
        (internal_error("the-id"), 500, {}),
        (stopped(), 503, {b"retry-after": b"1"}),
    ],
)
async def test_errors(error: ProxyError, status: int, headers: dict[bytes, bytes]) -> None:
    wire = Wire()
    await send_error(wire.send, error, [(b"x-request-id", b"r")])
    sent = dict(wire.sent[0]["headers"])
    assert wire.sent[0]["status"] == status
    assert {name: value for name, value in sent.items() if name not in (b"content-type", b"content-length")} == {
        b"x-request-id": b"r",
        **headers,
    }
    assert set(json.loads(wire.data)["error"]) == {"message", "type", "param", "code"}


def test_an_internal_error_says_where_to_look_and_nothing_else() -> None:
    assert "the-id" in internal_error("the-id").message
