"""What a client may draw out, and how much of it: time, connections, memory."""

from __future__ import annotations

import asyncio
import os
import re
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.cli.processes import serve
from tests.faults.client_table import NAMES
from tests.faults.clients import CHAT, CHUNKED, JSON, Act, Ends, Hear, Say, Scene, Speaker, chat, question, request
from tests.faults.rig import SHORT, Rig, rig
from tests.faults.upstream import Exchange, Peer, Send, Upstream
from tests.faults.wire import CHUNKED as IN_CHUNKS
from tests.faults.wire import DONE, GOOD, LAST_CHUNK, chunk, dumps, head
from tests.server.transport.raw_server import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

_MIB: Final = 2**20
_GET: Final = request()
_HALF: Final = request("POST", CHAT, JSON, "Content-Length: 100") + b"{"


async def play(ground: Rig, acts: Sequence[Act], *exchanges: Exchange, window: int | None = None) -> None:
    """Have a client act, and see that all is given back."""
    ground.open_books()
    ground.upstream.exchanges |= dict(zip(NAMES, exchanges, strict=False))
    try:
        async with Speaker(ground.port, window) as speaker:
            scene = Scene(speaker, exchanges)
            for act in acts:
                await act.play(scene)
                assert scene.problems == [], str(act)[:200]
        await until(lambda: not any(exchange.playing for exchange in exchanges))
        assert [exchange.problems for exchange in exchanges] == [[] for _ in exchanges]
    finally:
        left = await ground.left()
    assert left == []


# ---------------------------------------------------------------------------------------------------------------- time


@dataclass(frozen=True, slots=True)
class _Trickle:
    """Send *data* over and over, each time when the proxy has read it, until it says something."""

    data: bytes

    async def play(self, scene: Scene) -> None:
        while not scene.speaker.heard:
            await scene.speaker.say(self.data)
            await scene.speaker.taken()
            await asyncio.sleep(0)  # who ended its side has taken everything, at once


def _late(setting: str) -> Hear:
    return Hear("request_timeout", says=rf"server\.{setting} ", headers=(("connection", "close"),))


LATE: Final[dict[str, tuple[str, tuple[Act, ...]]]] = {
    "nothing": ("idle_seconds", (Ends(),)),
    "nothing more": ("idle_seconds", (Say(_GET), Hear(), Ends())),
    "an empty line": ("head_seconds", (Say(b"\r\n"), _late("head_seconds"), Ends())),
    "half a head": ("head_seconds", (Say(_GET[:-2]), _late("head_seconds"), Ends())),
    "half of another head": ("head_seconds", (Say(_GET + _GET[:-2]), Hear(), _late("head_seconds"), Ends())),
    "a head that trickles": (
        "head_seconds",
        (Say(_GET[:-2] + b"X-A: "), _Trickle(b"a"), _late("head_seconds"), Ends()),
    ),
    "no body": ("body_seconds", (Say(_HALF[:-1]), _late("body_seconds"), Ends())),
    "half a body": ("body_seconds", (Say(_HALF), _late("body_seconds"), Ends())),
    "half of another body": ("body_seconds", (Say(_GET + _HALF), Hear(), _late("body_seconds"), Ends())),
    "half a chunk": (
        "body_seconds",
        (Say(request("POST", CHAT, JSON, CHUNKED) + b"64\r\n{"), _late("body_seconds"), Ends()),
    ),
    "no trailer": (
        "body_seconds",
        (Say(request("POST", CHAT, JSON, CHUNKED) + b"1\r\n{\r\n0\r\n"), _late("body_seconds"), Ends()),
    ),
    "a body that was expected": (
        "body_seconds",
        (
            Say(request("POST", CHAT, JSON, "Expect: 100-continue", "Content-Length: 9")),
            Hear("request_timeout", continues=1),
            Ends(),
        ),
    ),
    "a body that nobody wants": (
        "body_seconds",
        (Say(request("POST", "/nowhere", "Content-Length: 100") + b"{"), Hear("unknown_url"), Ends()),
    ),
    "the end, after a refusal": ("body_seconds", (Say(b"\0"), Hear("invalid_request"), Ends())),
}


@pytest.mark.parametrize("name", LATE)
async def test_time(name: str) -> None:
    setting, acts = LATE[name]
    async with rig(server={setting: SHORT}) as ground:
        await play(ground, acts)


# --------------------------------------------------------------------------------------------------------- connections


async def test_connections() -> None:
    well = Hear()
    full = Hear("overloaded", says="3 connections", headers=(("connection", "close"), ("retry-after", "1")))
    async with rig(server={"max_connections": 3}) as ground, AsyncExitStack() as stack:

        async def come() -> Scene:
            return Scene(await stack.enter_async_context(Speaker(ground.port)), ())

        async def do(scene: Scene, *acts: Act) -> None:
            for act in acts:
                await act.play(scene)
            assert scene.problems == []

        async def go(scene: Scene) -> None:
            scene.speaker.leave("half-close")
            assert await scene.speaker.ended() == b"", "whose end is seen by now has been forgotten"

        first, second, third = [await come() for _ in range(3)]
        for scene in (first, second, third):
            await do(scene, Say(_GET), well)
        silent = await come()
        for said in (_GET, _GET * 1000, chat(NAMES[0]), request("POST", CHAT, JSON, body=b"x" * _MIB)):
            async with Speaker(ground.port) as speaker:
                scene = Scene(speaker, ())
                await do(scene, Say(said), full, Ends())
                await go(scene)
        for scene in (first, second, third):
            await do(scene, Say(_GET), well)
        await go(first)
        await do(silent, Say(_GET), well)
        await go(second)
        await do(await come(), Say(_GET), well)
        assert ground.upstream.strays == []


# -------------------------------------------------------------------------------------------------------- slow readers

_PIECE: Final = "x" * 4000


def _event(number: int) -> bytes:
    choice = {"index": 0, "delta": {"content": f"<{number:08}>{_PIECE}"}, "finish_reason": None}
    common = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    return chunk(b"data: " + dumps({**common, "choices": [choice]}) + b"\n\n")


@dataclass(slots=True, eq=False)
class Pour:
    """Send up to *most* events, as fast as they are taken."""

    most: int
    poured: int = 0

    async def play(self, peer: Peer, exchange: Exchange) -> None:
        while self.poured < self.most and not peer.is_left():
            self.poured += 1
            try:
                # However long the proxy holds it back.
                await peer.pour(_event(self.poured - 1))
            except ConnectionError:
                return


async def still(count: Any) -> None:
    """Wait until nothing has been counted in many turns of the loop."""
    last, turns = count(), 0
    while turns < 2000:
        await asyncio.sleep(0)
        turns = turns + 1 if count() == last else 0
        last = count()


def _resident() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / _MIB


FINISH: Final = (
    chunk(b'data: {"id":"c","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n' + DONE) + LAST_CHUNK
)
_WINDOW: Final = 4096
_MOST: Final = 16_384
"""Events: 64 MiB."""
_UNDER_WAY: Final = 24 * _MIB // len(_PIECE)
"""Events that the buffers of two connections may hold, the kernel's for the most part."""


async def _begin(speaker: Speaker, pour: Pour, ground: Rig) -> float:
    """Ask and do not read; the memory this takes once the upstream is held back."""
    before = _resident()
    await speaker.say(chat(NAMES[0], streamed=True))
    await until(lambda: pour.poured > 0)
    await still(lambda: pour.poured)
    assert pour.poured < _UNDER_WAY, "the upstream was not held back"
    return _resident() - before


@dataclass(slots=True)
class Slow:
    """A reader that asks for more than it reads."""

    pour: Pour = field(default_factory=lambda: Pour(_MOST))

    def exchange(self) -> Exchange:
        return Exchange([[Send(head(IN_CHUNKS)), self.pour, Send(FINISH)]], streamed=True)


async def test_a_slow_reader_holds_the_upstream_back_and_gets_everything_in_the_end() -> None:
    async with rig() as ground:
        ground.open_books()
        slow = Slow()
        exchange = ground.upstream.exchanges[NAMES[0]] = slow.exchange()
        async with Speaker(ground.port, _WINDOW) as speaker:
            grown = await _begin(speaker, slow.pour, ground)
            assert grown < 32, f"{grown} MiB for one reader"
            said = await speaker.read_all(b"data: [DONE]\n\n")
        assert slow.pour.poured == _MOST
        assert [int(number) for number in re.findall(rb"<(\d{8})>", said)] == list(range(_MOST))
        assert exchange.problems == []


@pytest.mark.parametrize("way", ["close", "reset", "half-close"])
async def test_a_slow_reader_that_leaves_stops_the_upstream(way: str) -> None:
    async with rig() as ground:
        ground.open_books()
        slow = Slow()
        exchange = ground.upstream.exchanges[NAMES[0]] = slow.exchange()
        async with Speaker(ground.port, _WINDOW) as speaker:
            await _begin(speaker, slow.pour, ground)
            speaker.leave(way)
            await until(lambda: exchange.playing == 0)
        assert slow.pour.poured < _UNDER_WAY
        assert await ground.left() == []


async def test_a_slow_reader_that_stops_reading_is_cut() -> None:
    async with rig(server={"write_seconds": SHORT}) as ground:
        slow = Slow()
        exchange = ground.upstream.exchanges[NAMES[0]] = slow.exchange()
        async with Speaker(ground.port, _WINDOW) as speaker:
            await speaker.say(chat(NAMES[0], streamed=True))
            await until(lambda: slow.pour.poured > 0 and exchange.playing == 0)
            assert slow.pour.poured < _UNDER_WAY
        assert await ground.left() == []


@pytest.mark.parametrize("way", ["close", "half-close", "stays"])
async def test_a_whole_answer_that_is_not_taken_is_given_up(way: str) -> None:
    """The model's work is done, and nobody takes what it said: its memory is given back all the same."""
    limits = {"write_seconds": SHORT} if way != "close" else {}
    async with rig(server=limits) as ground:
        events = b"".join(map(_event, range(8192)))
        exchange = Exchange([[Send(head(IN_CHUNKS) + events + FINISH)]], streamed=False)
        ground.upstream.exchanges[NAMES[0]] = exchange
        async with Speaker(ground.port, _WINDOW) as speaker:
            await speaker.say(chat(NAMES[0]))
            assert (await speaker.read(9)) == b"HTTP/1.1 "
            held = ground.descriptors()
            if way != "stays":
                speaker.leave(way)
            await until(lambda: ground.descriptors() <= held - (2 if way == "close" else 1))
        assert await ground.left() == []


# -------------------------------------------------------------------------------------------------------- large bodies


def _peak(process: int) -> int:
    """Bytes that the process held at most."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{process}/status").read_text())
    assert found is not None
    return int(found[1]) * 1024


@pytest.fixture
async def upstream() -> AsyncIterator[Upstream]:
    async with Upstream() as made:
        yield made


async def test_100_megabytes(upstream: Upstream, tmp_path: Path) -> None:
    """In a process of its own, so that what it holds can be told."""
    config = tmp_path / "svir.yaml"
    config.write_text(
        f"backends: [{{name: a, base_url: 'http://127.0.0.1:{upstream.port}', profile: openai, models: {{patient: m}}}}]"
    )
    limit = 100 * _MIB
    image = [{"type": "image_url", "image_url": {"url": "data:image/png;base64,@"}}]
    begin, _, end = question(NAMES[0], streamed=False, more=image).partition(b"@")
    fits = begin + b"A" * (limit - len(begin) - len(end)) + end
    exchange = upstream.exchanges[NAMES[0]] = Exchange([[Send(GOOD[False])]], streamed=False)
    too_large = Hear("request_too_large")
    async with serve(config) as serving:
        port = int(serving.base_url.rpartition(":")[2])
        before = _peak(serving.process.pid)
        for body in (
            request("POST", CHAT, JSON, body=fits + b" "),
            request("POST", CHAT, JSON, CHUNKED, body=_chunks(fits) + chunk(b" ") + LAST_CHUNK),
        ):
            async with Speaker(port) as speaker:
                scene = Scene(speaker, ())
                for act in (Say(body), too_large, Say(_GET), Hear()):
                    await act.play(scene)
                assert scene.problems == []
        refused = _peak(serving.process.pid) - before
        async with Speaker(port) as speaker:
            scene = Scene(speaker, ())
            for act in (Say(request("POST", CHAT, JSON, body=fits)), Hear(chat="whole"), Say(_GET), Hear()):
                await act.play(scene)
            assert scene.problems == []
        assert exchange.problems == []
        assert _peak(serving.process.pid) - before < 2.2 * limit
        assert refused < 1.6 * limit, "what is refused is not kept"


def _chunks(data: bytes) -> bytes:
    return b"".join(chunk(data[at : at + 65536]) for at in range(0, len(data), 65536))
