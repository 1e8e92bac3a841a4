"""What an application may do with a request, and what becomes of its messages."""

from __future__ import annotations

import asyncio
from typing import Any, Final

import pytest

from tests.listener.support import CHUNKED, GET, POST, Client


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


# What was sent before a piece, and whether the piece can be written without a message.
PIECES: Final[dict[str, tuple[list[dict[str, Any]], bytes, bool]]] = {
    "nothing": ([], b"x", False),
    "the head alone": ([{"type": "http.response.start", "status": 200, "headers": []}], b"x", True),
    "a piece": (
        [
            {"type": "http.response.start", "status": 200, "headers": []},
            {"type": "http.response.body", "body": b"first", "more_body": True},
        ],
        b"x",
        True,
    ),
    "a piece, and now nothing": (
        [
            {"type": "http.response.start", "status": 200, "headers": []},
            {"type": "http.response.body", "body": b"first", "more_body": True},
        ],
        b"",  # as a chunk it would be the last
        False,
    ),
    "of a known length": (
        [
            {"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"9")]},
            {"type": "http.response.body", "body": b"first", "more_body": True},
        ],
        b"x",
        False,
    ),
    "all": (
        [
            {"type": "http.response.start", "status": 200, "headers": []},
            {"type": "http.response.body", "body": b"first", "more_body": False},
        ],
        b"x",
        False,
    ),
}


@pytest.mark.parametrize("sent", PIECES)
@pytest.mark.parametrize("state", ["", "behind", "gone"])
async def test_pieces_can_be_written_without_messages_where_nothing_else_is_to_be_done(sent: str, state: str) -> None:
    messages, piece, expected = PIECES[sent]
    written: list[bool] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        for message in messages:
            await send(message)
        if state == "behind":
            client.connection.pause_writing()
        elif state == "gone":
            client.lose()
        written.append(send.__self__.write_piece(piece))
        leave_out.set()
        await asyncio.sleep(0)

    leave_out = asyncio.Event()
    client = Client(app)
    await client.send(GET)
    await leave_out.wait()
    assert written == [expected and not state]
    assert client.said.endswith(b"\r\n1\r\nx\r\n") is (expected and not state)


@pytest.mark.parametrize("size", [1, 255, 1023, 1024, 70000])
@pytest.mark.parametrize("opens", [True, False])
async def test_a_piece_of_any_size_is_a_chunk(size: int, opens: bool) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        cycle = send.__self__
        written = cycle.write_opening(cycle.stream_head(200, []), b"a" * size) if opens else cycle.write_start(200, [])
        assert written
        assert cycle.write_piece(b"b" * size)
        await send({"type": "http.response.body", "body": b""})

    client = Client(app)
    await client.send(GET)
    chunks = [b"%x\r\n%b\r\n" % (size, letter * size) for letter in ([b"a", b"b"] if opens else [b"b"])]
    assert client.said.partition(b"\r\n\r\n")[2] == b"".join(chunks) + b"0\r\n\r\n"


# What comes of a request before it is answered, whole answers to it, and what becomes of the client meanwhile.
REQUESTS: Final[dict[str, bytes]] = {
    "GET": GET,
    "HEAD": b"HEAD / HTTP/1.1\r\nhost: a\r\n\r\n",
    "the last of HTTP/1.0": b"GET / HTTP/1.0\r\n\r\n",
    "the last": b"GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n",
    "a body": POST + b"content-length: 1\r\n\r\nx",
    "half a body": CHUNKED,
    "a body that waits for 100": POST + b"content-length: 1\r\nexpect: 100-continue\r\n\r\n",
    "two": GET + GET,
    "two, and the end": GET + b"GET / HTTP/1.0\r\n\r\n",
    "nonsense behind": GET + b"nonsense\r\n\r\n",
}
LENGTH: Final = (b"content-length", b"2")
ANSWERS: Final[dict[str, tuple[int, list[tuple[bytes, bytes]], bytes]]] = {
    "of a length": (200, [(b"x", b"y"), LENGTH], b"ab"),
    "empty": (200, [(b"content-length", b"0")], b""),
    "of no length": (200, [], b"ab"),
    "without a body": (204, [], b""),
    "the last": (400, [LENGTH, (b"connection", b"close")], b"ab"),
    "too short": (200, [LENGTH], b"a"),
    "too long": (200, [LENGTH], b"abc"),
    "a line break": (200, [(b"x", b"y\r\nz: 1"), LENGTH], b"ab"),
    "framing of its own": (200, [(b"transfer-encoding", b"gzip")], b"ab"),
}


def fall_into(state: str, client: Client) -> None:
    """What may happen to a connection before it is answered."""
    if state == "behind":
        client.connection.pause_writing()
        asyncio.get_running_loop().call_soon(client.connection.resume_writing)
    elif state == "gone":
        client.lose()
    elif state == "draining":
        client.connection.shutdown()


def what_became_of(client: Client) -> list[Any]:
    wire = client.wire
    return [client.said, wire.closed, wire.aborted, wire.half_closed, client.state.total_requests]


@pytest.mark.parametrize("state", ["", "behind", "gone", "draining"])
@pytest.mark.parametrize("answer", ANSWERS)
@pytest.mark.parametrize("request_", REQUESTS)
async def test_a_whole_answer_is_the_same_in_one_step_and_in_two(
    request_: str, answer: str, state: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.urandom", bytes)
    status, headers, body = ANSWERS[answer]

    async def became(*, at_once: bool) -> list[Any]:
        faults: list[str] = []

        async def app(scope: Any, receive: Any, send: Any) -> None:
            fall_into(state, client)
            try:
                if not at_once or not send.__self__.write_whole(status, headers, body):
                    await send({"type": "http.response.start", "status": status, "headers": headers})
                    await send({"type": "http.response.body", "body": body})
            except (RuntimeError, ValueError) as exc:
                faults.append(str(exc))
                raise

        client = Client(app)
        await client.send(REQUESTS[request_])
        return [faults, *what_became_of(client)]

    assert await became(at_once=True) == await became(at_once=False)


@pytest.mark.parametrize("state", ["", "behind", "gone", "draining"])
@pytest.mark.parametrize(
    "headers", [[], [LENGTH], [(b"x", b"y\n")]], ids=["of no length", "of a length", "a line break"]
)
@pytest.mark.parametrize("request_", REQUESTS)
async def test_a_stream_is_the_same_with_messages_and_without(
    request_: str, headers: list[tuple[bytes, bytes]], state: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.urandom", bytes)

    async def became(way: str) -> list[Any]:
        faults: list[str] = []

        async def app(scope: Any, receive: Any, send: Any) -> None:
            cycle = send.__self__
            head = cycle.stream_head(200, headers)
            fall_into(state, client)
            try:
                pieces = [b"", b"a", b"b"]
                if way == "opening" and head and cycle.write_opening(head, b"a"):
                    pieces = [b"b"]
                elif way == "messages" or not cycle.write_start(200, headers):
                    await send({"type": "http.response.start", "status": 200, "headers": headers})
                for piece in pieces:
                    if way == "messages" or not cycle.write_piece(piece):
                        await send({"type": "http.response.body", "body": piece, "more_body": True})
                await send({"type": "http.response.body", "body": b""})
            except (RuntimeError, ValueError) as exc:
                faults.append(str(exc))
                raise

        client = Client(app)
        await client.send(REQUESTS[request_])
        return [faults, *what_became_of(client)]

    assert await became("messages") == await became("pieces") == await became("opening")


BODIES: Final[dict[str, tuple[list[bytes], bytes | None]]] = {
    "none": ([GET], b""),
    "with its head": ([POST + b"content-length: 2\r\n\r\nab"], b"ab"),
    "in pieces": ([POST + b"content-length: 2\r\n\r\na", b"b"], b"ab"),
    "in chunks": ([CHUNKED, b"0\r\n\r\n"], b"x"),
    "of which more is to come": ([CHUNKED], None),
    "that waits for 100": ([POST + b"content-length: 2\r\nexpect: 100-continue\r\n\r\n"], None),
}


@pytest.mark.parametrize("name", BODIES)
@pytest.mark.parametrize("state", ["", "gone", "received", "answered"])
async def test_a_body_that_is_all_there_is_had_without_messages(name: str, state: str) -> None:
    pieces, expected = BODIES[name]
    go = asyncio.Event()
    had: list[bytes | None] = []
    left: list[str] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await go.wait()
        if state == "gone":
            client.lose()
        elif state == "received" and expected is not None:
            await receive()
        elif state == "answered":
            send.__self__.write_whole(204, [], b"")
        had.append(receive.__self__.whole_body())
        if had[0] is not None:
            left.append((await receive())["type"])

    client = Client(app)
    await client.send(*pieces)
    go.set()
    await client.settle()
    client.lose()
    await client.settle()
    assert had == [None if state else expected]
    assert left == ([] if had[0] is None else ["http.disconnect"])
