"""Who is cancelled when a client leaves, what it sees, and when it is left alone."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from svir_proxy.errors import ProxyError
from svir_proxy.server.client_watch import ClientWatch
from svir_proxy.server.http import ClientGone
from tests.server.support import Wire
from tests.server.transport.raw_server import soon, until

pytestmark = pytest.mark.usefixtures("leaves_nothing")


def started(work: Callable[[ClientWatch], Awaitable[str]]) -> tuple[Wire, asyncio.Task[str]]:
    """*work* under watch, which has begun to wait."""
    wire = Wire()

    async def run() -> str:
        with ClientWatch({}, wire.receive) as client:
            return await work(client)

    return wire, asyncio.create_task(run())


async def forever(client: ClientWatch) -> str:
    del client
    await asyncio.Event().wait()
    return "never"


async def test_a_client_that_leaves_ends_the_work() -> None:
    wire, task = started(forever)
    await asyncio.sleep(0)
    wire.gone.set()
    with pytest.raises(ClientGone):
        await soon(task)
    assert task.cancelling() == 0, "the task may go on"


async def test_a_client_that_had_left_before() -> None:
    wire, task = started(forever)
    wire.gone.set()
    with pytest.raises(ClientGone):
        await soon(task)


async def test_work_that_is_done_is_left_alone() -> None:
    async def work(client: ClientWatch) -> str:
        assert not client.gone
        return "done"

    wire, task = started(work)
    assert await soon(task) == "done"
    wire.gone.set()
    await until(lambda: asyncio.all_tasks() == {asyncio.current_task()})


async def test_after_the_release_a_client_may_leave() -> None:
    go_on = asyncio.Event()
    released = asyncio.Event()

    async def work(client: ClientWatch) -> str:
        client.release()
        released.set()
        await go_on.wait()
        assert not client.gone
        return "done"

    wire, task = started(work)
    await soon(released.wait())
    wire.gone.set()
    for _ in range(5):
        await asyncio.sleep(0)
    go_on.set()
    assert await soon(task) == "done"


async def test_the_work_knows_why_it_is_cancelled_and_may_end_otherwise() -> None:
    async def work(client: ClientWatch) -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            assert client.gone
            raise ProxyError("upstream_failed", "while it cleaned up") from None
        return "never"

    wire, task = started(work)
    wire.gone.set()
    with pytest.raises(ProxyError):
        await soon(task)
    assert task.cancelling() == 0


@pytest.mark.parametrize("leaves", [False, True], ids=["it alone", "as the client leaves"])
async def test_somebody_else_cancels(leaves) -> None:
    seen: list[bool] = []

    async def work(client: ClientWatch) -> str:
        try:
            await asyncio.Event().wait()
        finally:
            seen.append(client.gone)
        return "never"

    wire, task = started(work)
    await asyncio.sleep(0)
    if leaves:
        wire.gone.set()
        await until(lambda: task.cancelling() == 1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await soon(task)
    assert seen == [leaves]


async def test_a_time_limit_within_is_one() -> None:
    async def work(client: ClientWatch) -> str:
        del client
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0):
                await asyncio.Event().wait()
        return "in time"

    _, task = started(work)
    assert await soon(task) == "in time"


@pytest.mark.parametrize("first", ["client", "limit"])
async def test_a_time_limit_that_is_over_as_the_client_leaves(first: str) -> None:
    timers: list[asyncio.Timeout] = []

    async def work(client: ClientWatch) -> str:
        del client
        async with asyncio.timeout(None) as timer:
            timers.append(timer)
            await asyncio.Event().wait()
        return "never"

    wire, task = started(work)
    await until(lambda: bool(timers))
    if first == "limit":
        timers[0].reschedule(asyncio.get_running_loop().time())
    wire.gone.set()
    await until(lambda: task.cancelling() > 0)
    if first == "client" and not task.done():
        timers[0].reschedule(asyncio.get_running_loop().time())
    with pytest.raises((ClientGone, TimeoutError)):
        await soon(task)
    assert task.cancelling() == 0


class Later:
    """An awaitable that is no coroutine, as a server may have them."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    def __await__(self):
        while not self._wire.gone.is_set():
            yield  # the next turn of the loop
        return {"type": "http.disconnect"}


async def test_a_server_whose_receive_is_no_coroutine_and_waits_for_nothing() -> None:
    wire = Wire()

    async def run() -> None:
        with ClientWatch({}, lambda: Later(wire)):  # type: ignore[arg-type,return-value]
            await asyncio.Event().wait()

    task = asyncio.create_task(run())
    for _ in range(5):
        await asyncio.sleep(0)
    assert not task.done()
    wire.gone.set()
    with pytest.raises(ClientGone):
        await soon(task)


@pytest.mark.parametrize("how", ["fails", "is cancelled"])
async def test_a_server_that_cannot_tell(how: str) -> None:
    waiting = asyncio.get_running_loop().create_future()

    async def receive():
        return await waiting

    with ClientWatch({}, receive) as client:
        if how == "fails":
            waiting.set_exception(OSError())
        else:
            waiting.cancel()
        for _ in range(5):
            await asyncio.sleep(0)
        assert not client.gone


async def test_a_server_that_calls_back() -> None:
    callbacks: list[Any] = []

    async def receive() -> dict[str, Any]:
        raise AssertionError

    async def run() -> None:
        with ClientWatch({"extensions": {"svir.on_disconnect": callbacks.append}}, receive):  # type: ignore[arg-type]
            await asyncio.Event().wait()

    task = asyncio.create_task(run())
    await asyncio.sleep(0)
    (leave,) = callbacks
    leave()
    with pytest.raises(ClientGone):
        await soon(task)
    assert callbacks[1:] == [None], "and is told when nobody listens any more"
