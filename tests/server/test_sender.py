"""Messages in order, whatever kind of ``send`` the server has and whenever it waits."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Generator
from typing import Any

import anyio
import pytest
from starlette.types import Message

from svir_proxy.server.http import ClientGone
from svir_proxy.server.sender import Sender
from tests.server.support import NoShortWays
from tests.server.transport.raw_server import soon, until

pytestmark = pytest.mark.usefixtures("leaves_nothing")


class Server(NoShortWays):
    """The proxy's own listener, as far as it takes messages: each when its gate for it is open."""

    def __init__(self) -> None:
        self.taken: list[Any] = []
        self.gates: dict[int, asyncio.Future[None]] = {}
        self.calls: list[str] = []

    def shut(self, number: int) -> asyncio.Future[None]:
        """Let the message *number* wait."""
        gate = self.gates[number] = asyncio.get_running_loop().create_future()
        return gate

    def sender(self, send: Any = None) -> Sender:
        """A sender to it, or to another server's *send*."""
        sender = Sender(send or self.send)
        sender.source = self
        return sender

    def pause(self) -> None:
        self.calls.append("blocked")

    def resume(self) -> None:
        self.calls.append("free")

    async def send(self, message: Message) -> None:
        gate = self.gates.get(message["number"])
        if gate is not None:
            await gate
        self.taken.append(message["number"])


def message(number: int) -> Message:
    return {"type": "http.response.body", "number": number}


async def test_a_server_that_takes_everything_needs_no_task() -> None:
    server = Server()
    sender = server.sender()
    tasks = asyncio.all_tasks()
    for number in range(3):
        sender.send(message(number))
        assert server.taken[-1] == number
    assert asyncio.all_tasks() == tasks
    await sender.drained()
    assert (server.calls, sender.is_blocked) == ([], False)


async def test_what_comes_while_the_client_is_behind_waits_in_order() -> None:
    server = Server()
    sender = server.sender()
    first, second = server.shut(1), server.shut(3)
    for number in range(5):
        sender.send(message(number))
    assert (server.taken, server.calls, sender.is_blocked) == ([0], ["blocked"], True)
    first.set_result(None)
    await until(lambda: len(server.taken) == 3)
    assert server.calls == ["blocked"], "message 3 waits as well"
    sender.send(message(5))
    second.set_result(None)
    await soon(sender.drained())
    assert (server.taken, server.calls, sender.is_blocked) == ([0, 1, 2, 3, 4, 5], ["blocked", "free"], False)
    sender.send(message(6))
    assert server.taken[-1] == 6, "at once again"


async def test_the_source_may_send_when_it_hears_that_the_way_is_free() -> None:
    class Eager(Server):
        def resume(self) -> None:
            sender.send(message(9))

    server = Eager()
    sender = server.sender()
    gate = server.shut(0)
    sender.send(message(0))
    gate.set_result(None)
    await soon(sender.drained())
    assert server.taken == [0, 9]


async def test_a_send_may_wait_several_times_and_in_any_way() -> None:
    taken: list[int] = []
    failing: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    ready: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    class Hesitant(Server):
        async def send(self, message: Message) -> None:
            await asyncio.sleep(0)
            try:
                await failing
            except OSError:
                taken.append(-1)
            assert await ready == "value"
            taken.append(message["number"])

    sender = Hesitant().sender()
    sender.send(message(1))
    failing.set_exception(OSError())
    await until(lambda: taken == [-1])
    ready.set_result("value")
    await soon(sender.drained())
    assert taken == [-1, 1]


class Awaitable:
    """What a server may return in place of a coroutine."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def __await__(self) -> Generator[Any, Any, None]:
        return self._inner.__await__()  # type: ignore[no-any-return]


async def in_time(sending: Any) -> None:
    async with asyncio.timeout(5):
        await sending


async def in_a_scope(sending: Any) -> None:
    with anyio.fail_after(5):
        await anyio.lowlevel.checkpoint()
        await sending


async def one_at_a_time(sending: Any) -> None:
    async with anyio.Lock():
        await sending


async def plainly(sending: Any) -> None:
    await sending


@pytest.mark.parametrize(
    "wrap",
    [Awaitable, asyncio.ensure_future, plainly, in_time, in_a_scope, one_at_a_time],
    ids=lambda wrap: wrap.__name__,
)
async def test_another_servers_send_may_do_what_it_likes_in_a_task(wrap: Callable[[Any], Any]) -> None:
    server = Server()
    sender = server.sender(lambda message: wrap(server.send(message)))
    asyncio.get_running_loop().call_soon(sender.send, message(0))  # as what is read upstream: no task is at work
    await until(lambda: server.taken == [0])
    await soon(sender.drained())
    assert server.calls == [], "who takes one message in a turn of the loop is not behind"
    for number in range(1, 4):
        sender.send(message(number))
    await soon(sender.drained())
    assert (server.taken, server.calls) == ([0, 1, 2, 3], ["blocked", "free"])


async def test_another_server_that_is_behind_holds_the_source() -> None:
    server = Server()
    sender = server.sender(lambda message: plainly(server.send(message)))
    gate = server.shut(0)
    sender.send(message(0))
    assert (sender.is_blocked, server.calls) == (True, [])
    sender.send(message(1))
    sender.send(message(2))
    assert server.calls == ["blocked"], "once"
    gate.set_result(None)
    await soon(sender.drained())
    assert (server.taken, server.calls, sender.is_blocked) == ([0, 1, 2], ["blocked", "free"], False)


@pytest.mark.parametrize("waits", [False, True])
@pytest.mark.parametrize("own", [False, True])
async def test_a_server_that_raises_has_no_client_any_more(own: bool, waits: bool) -> None:
    class Failing(Server):
        async def send(self, message: Message) -> None:
            await super().send(message)
            if message["number"] == 1:
                raise OSError("gone")

    server = Failing()
    gate = server.shut(1) if waits else None
    sender = server.sender(None if own else lambda message: plainly(server.send(message)))
    for number in range(4):
        sender.send(message(number))
    if gate is not None:
        gate.set_result(None)
    with pytest.raises(ClientGone):
        await soon(sender.drained())
    sender.send(message(4))
    assert server.taken == [0, 1]
    held = waits or not own
    assert server.calls == (["blocked", "free"] if held else []), "the upstream is not held back for ever"
    assert not sender.is_blocked


@pytest.mark.parametrize("started", [False, True], ids=["before the task began", "while it waits"])
@pytest.mark.parametrize("own", [False, True])
async def test_a_client_that_left_gets_nothing_more(started: bool, own: bool) -> None:
    server = Server()
    gate = server.shut(0)
    sender = server.sender(None if own else lambda message: Awaitable(server.send(message)))
    sender.send(message(0))
    sender.send(message(1))
    if started:
        await until(lambda: gate._callbacks is not None and len(gate._callbacks) > 0)  # type: ignore[attr-defined]
    sender.cancel()
    sender.send(message(2))
    assert not sender.is_blocked
    with pytest.raises(ClientGone):
        await soon(sender.drained())
    gate.cancel()
    await until(lambda: asyncio.all_tasks() == {asyncio.current_task()})
    assert server.taken == []
    gc.collect()  # a coroutine that was never awaited would warn, which fails the test


@pytest.mark.parametrize("own", [False, True])
async def test_a_send_that_is_cancelled_by_somebody_else_is_the_end(own: bool) -> None:
    """A message would be missing in the middle."""
    server = Server()
    sender = server.sender(None if own else lambda message: plainly(server.send(message)))
    gate = server.shut(0)
    for number in range(3):
        sender.send(message(number))
    await until(lambda: gate._callbacks is not None and len(gate._callbacks) > 0)  # type: ignore[attr-defined]
    gate.cancel()
    with pytest.raises((ClientGone, asyncio.CancelledError)):
        await soon(sender.drained())
    sender.send(message(3))
    with pytest.raises(ClientGone):
        await soon(sender.drained())
    assert (server.taken, server.calls) == ([], ["blocked", "free"])


async def test_a_source_that_comes_while_the_client_is_behind_is_held_back_at_once() -> None:
    server, other = Server(), Server()
    sender = server.sender()
    gate = server.shut(0)
    sender.send(message(0))
    sender.source = other
    sender.send(message(1))
    gate.set_result(None)
    await soon(sender.drained())
    assert (server.calls, other.calls) == (["blocked"], ["blocked", "free"])


async def test_another_server_gets_the_last_words_before_it_ends_its_request() -> None:
    server = Server()
    sender = server.sender(lambda message: plainly(server.send(message)))
    sender.send(message(0))
    await sender.handed_over()
    assert server.taken == [0]


async def test_nobody_waits_for_a_client_that_is_behind() -> None:
    server = Server()
    sender = server.sender()
    gate = server.shut(0)
    sender.send(message(0))
    await sender.handed_over()
    assert server.taken == []
    gate.set_result(None)
    await soon(sender.drained())


async def test_without_a_source_nobody_is_told_and_all_is_sent() -> None:
    server = Server()
    sender = server.sender()
    sender.source = None
    gate = server.shut(0)
    sender.send(message(0))
    assert sender.is_blocked
    gate.set_result(None)
    await soon(sender.drained())
    assert (server.taken, server.calls) == ([0], [])


class Listener(Server):
    """The listener that also takes the head and pieces without a message, while it likes."""

    def __init__(self, likes: bool) -> None:
        super().__init__()
        self.likes = likes

    async def send(self, message: Message) -> None:
        known = message.get("number", message.get("status", message.get("body")))
        await super().send({"number": known})

    def write_start(self, status: int, headers: list[tuple[bytes, bytes]]) -> bool:
        assert not headers
        if self.likes:
            self.taken.append((status,))
        return self.likes

    def write_piece(self, body: bytes) -> bool:
        if self.likes:
            self.taken.append((body,))
        return self.likes

    def stream_head(self, status: int, headers: list[tuple[bytes, bytes]]) -> bytes:
        assert not headers
        return b"%d " % status if self.likes else b""

    def write_opening(self, head: bytes, body: bytes) -> bool:
        if self.likes:
            self.taken.append((head + body,))
        return self.likes


@pytest.mark.parametrize("likes", [True, False])
async def test_pieces_take_the_short_way_where_there_is_one_and_keep_their_order(likes: bool) -> None:
    server = Listener(likes)
    sender = server.sender()
    sender.begin(200, [])
    sender.write(b"a")
    gate = server.shut(1)
    sender.send(message(1))
    sender.write(b"b")  # the message before it is on its way
    begun: list[Any] = [(200,), (b"a",)] if likes else [200, b"a"]
    assert server.taken == begun
    gate.set_result(None)
    await soon(sender.drained())
    sender.write(b"c")
    assert server.taken == [*begun, 1, b"b", (b"c",) if likes else b"c"]


@pytest.mark.parametrize("made", [True, False])
@pytest.mark.parametrize("likes", [True, False])
async def test_what_was_prepared_is_sent_with_the_first_piece(made: bool, likes: bool) -> None:
    server = Listener(made)
    sender = server.sender()
    sender.prepare(200, [])
    assert server.taken == []
    server.likes = likes
    sender.open(b"a")
    assert server.taken == ([(b"200 a",)] if made and likes else [(200,), (b"a",)] if likes else [200, b"a"])


async def test_what_was_prepared_waits_for_what_is_on_its_way() -> None:
    server = Listener(likes=True)
    sender = server.sender()
    sender.prepare(200, [])
    gate = server.shut(1)
    sender.send(message(1))
    sender.open(b"a")
    gate.set_result(None)
    await soon(sender.drained())
    assert server.taken == [1, 200, b"a"]


async def test_a_head_waits_for_what_is_on_its_way() -> None:
    server = Listener(likes=True)
    sender = server.sender()
    gate = server.shut(1)
    sender.send(message(1))
    sender.begin(200, [])
    gate.set_result(None)
    await soon(sender.drained())
    assert server.taken == [1, 200]


@pytest.mark.parametrize("likes", [True, False])
async def test_a_head_that_the_server_refuses(likes: bool) -> None:
    class Strict(Listener):
        def write_start(self, status: int, headers: list[tuple[bytes, bytes]]) -> bool:
            if self.likes:
                raise ValueError
            return False

        async def send(self, message: Message) -> None:
            raise ValueError

    sender = Strict(likes).sender()
    sender.begin(200, [])
    sender.write(b"a")
    with pytest.raises(ClientGone):
        await soon(sender.drained())


async def test_whatever_stands_in_front_of_the_listener_gets_every_piece() -> None:
    server = Listener(likes=True)

    async def between(message: Message) -> None:
        await server.send(message)

    sender = server.sender(between)
    sender.begin(200, [])
    sender.write(b"a")
    await soon(sender.drained())
    assert server.taken == [200, b"a"]


async def test_nothing_is_written_after_a_fault_of_the_server() -> None:
    class Failing(Listener):
        async def send(self, message: Message) -> None:
            raise OSError

    server = Failing(likes=True)
    sender = server.sender()
    sender.send(message(0))
    sender.begin(200, [])
    sender.write(b"a")
    assert server.taken == []
