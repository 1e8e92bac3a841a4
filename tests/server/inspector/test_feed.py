"""A viewer is told what it can take, and the rest is dropped in one piece."""

from __future__ import annotations

import asyncio

from svir_proxy.server.inspector.feed import HEARTBEAT, Feed, message
from tests.server.transport.raw_server import soon


async def test_messages_come_in_order_and_together() -> None:
    feed = Feed()
    taking = asyncio.create_task(feed.take(60))
    await asyncio.sleep(0)
    feed.put(b"a")
    feed.put(b"b")
    assert await soon(taking) == b"ab"
    feed.put(b"c")
    assert await soon(feed.take(60)) == b"c"


async def test_silence_is_broken_by_a_heartbeat() -> None:
    assert await soon(Feed().take(0.01)) == HEARTBEAT


async def test_who_is_too_far_behind_begins_anew() -> None:
    feed = Feed()
    for _ in range(5):
        feed.put(b"x" * 2**19)
    assert feed.is_behind
    feed.put(b"y")
    assert await soon(feed.take(60)) is None
    feed.catch_up()
    feed.put(b"z")
    assert await soon(feed.take(60)) == b"z"


async def test_the_end_is_told_at_once() -> None:
    feed = Feed()
    taking = asyncio.create_task(feed.take(60))
    await asyncio.sleep(0)
    feed.end()
    assert await soon(taking) is None
    feed.put(b"late")
    assert await soon(feed.take(60)) is None


def test_a_message_is_a_server_sent_event() -> None:
    assert message("state", b'{"a":1}') == b'event: state\ndata: {"a":1}\n\n'
