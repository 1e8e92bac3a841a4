"""What the soak asks of the proxy: kinds of exchanges, each drawn by its number, made, and judged.

The upstream and the clients are those of tests/faults; here is what a long run needs beside faults: answers with calls,
bodies of megabytes, clients who leave or read slowly, requests that are wrong.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import itertools
import random
import re
import socket
import struct
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from reliability.proxy import wait_for
from svir_proxy.conform import dialect
from svir_proxy.conform.judge import UPSTREAM_KEY, Seen, form
from tests.faults.batch import examine, plan
from tests.faults.client import Client, HttpError
from tests.faults.judge import Sees, judge
from tests.faults.upstream import Exchange, Gone, Peer, Send, Step, Taken, Upstream
from tests.faults.wire import CHUNKED, DONE, GOOD, JSON, LAST_CHUNK, ROLE, TEXT, chunk, chunked, dumps, head, sized
from tests.server.transport.raw_server import soon

KEY: Final = b"soak-key"
SHORT: Final = 0.5
"""Seconds of a time limit that a stall is to run into."""
NOTICED: Final = 1.0
"""Seconds within which it is noticed that the machine stood still."""
_HANG: Final = 30.0
"""Seconds after which no client waits any more, however long the machine stood still."""
_LONG: Final = 600
_MODELS: Final = 100
"""Models of a backend: what is learned is learned of one model."""
_MEGABYTE: Final = 2**20
_FIELDS: Final = b"Authorization: Bearer %b\r\n"
_DATA: Final = re.compile(rb"data:image/png;base64,([^\"]+)")
_COMMON: Final = {"id": "chatcmpl-1", "created": 1700000000, "model": "m"}
_LIST: Final = sized(dumps({"object": "list", "data": [{"id": "m", "object": "model"}]}), media=JSON)
_TOOLS: Final = [
    {"type": "function", "function": {"name": "look_up", "parameters": {"type": "object", "properties": {}}}}
]


def settings(port: int, *, other: bool = False) -> dict[str, Any]:
    """The proxy's, in front of the upstream at *port*. *other*: what a reload changes them to."""
    timeouts = {
        "patient": {"first_output": _LONG, "idle": _LONG},
        "first": {"first_output": SHORT, "idle": _LONG},
        "idle": {"first_output": _LONG, "idle": SHORT},
    }
    backends = [
        {
            "name": name,
            "base_url": f"http://127.0.0.1:{port}",
            "api_key": UPSTREAM_KEY,
            "models": {f"{name} {number}": f"m{number}" for number in range(_MODELS)},
            "timeouts": {**limits, "connect": 11 if other else 10},
        }
        for name, limits in timeouts.items()
    ]
    backends[0] |= {"max_requests": 100, "max_waiting": 100}
    return {
        "server": {"reload": False},  # only when it is asked to
        "auth": {"keys": [KEY.decode()]},
        "limits": {"error_body_seconds": SHORT},
        "backends": backends,
    }


@dataclass(slots=True, eq=False)
class Drawn(Exchange):
    """An exchange whose script may look at the request. *changes*: the first turn rejects it."""

    request: bytes = b""
    changes: bool = False


class SoakUpstream(Upstream):
    """The scripted upstream, with a model list, and the moments at which requests came that belong to no exchange."""

    def __init__(self) -> None:
        super().__init__()
        self.strange: list[tuple[float, bytes]] = []

    async def _answer(self, peer: Peer, request: bytes) -> None:
        if request.startswith(b"GET /v1/models "):
            await peer.send(_LIST)
            return
        exchange = self._exchange(request)
        if exchange is None:
            self.strange.append((asyncio.get_running_loop().time(), request))
        if isinstance(exchange, Drawn):
            exchange.request = request
            if exchange.changes and not exchange.reused and b'"seed"' not in request:
                # The proxy has learned of an exchange before that the field is refused, and leaves it out.
                exchange.changes, exchange.turns = False, exchange.turns[1:]
        await super()._answer(peer, request)


@dataclass(frozen=True, slots=True)
class _Digest:
    """Answer with the digest of the image that arrived."""

    streamed: bool

    async def play(self, peer: Peer, exchange: Exchange) -> None:
        assert isinstance(exchange, Drawn)
        found = _DATA.search(exchange.request)
        await peer.send(_answer(hashlib.sha256(found[1] if found else b"").hexdigest(), streamed=self.streamed))


@dataclass(frozen=True, slots=True)
class _Lot:
    """A stream of *count* pieces of *size* bytes, sent as fast as they are taken."""

    count: int
    size: int

    async def play(self, peer: Peer, exchange: Exchange) -> None:
        assert exchange.streamed
        await peer.send(head(CHUNKED) + chunk(ROLE))
        piece = chunk(_event({"content": "x" * self.size}))
        for _ in range(self.count):
            await peer.send(piece)
        await peer.send(chunk(_event({}, "stop")) + chunk(DONE) + LAST_CHUNK)


@dataclass(frozen=True, slots=True)
class _Paced:
    """A stream of *count* words, one every *pause* seconds: what tokens look like."""

    count: int
    pause: float

    async def play(self, peer: Peer, exchange: Exchange) -> None:
        assert exchange.streamed
        await peer.send(head(CHUNKED) + chunk(ROLE))
        for number in range(self.count):
            await asyncio.sleep(self.pause)
            await peer.send(chunk(_event({"content": f" {number}"})))
        await peer.send(chunk(_event({}, "stop")) + chunk(DONE) + LAST_CHUNK)


class _SlowClient(Client):
    """Reads *size* bytes, rests for *pause* seconds, and so on."""

    def __init__(self, port: int, fields: bytes, size: int, pause: float) -> None:
        super().__init__(port, fields)
        self._size, self._pause = size, pause

    async def answer(self, exchange: Exchange) -> Seen:
        source, self._reader = self._reader, asyncio.StreamReader()
        reading = asyncio.create_task(self._read(source, self._reader))
        try:
            return await super().answer(exchange)
        finally:
            reading.cancel()
            self._reader = source

    async def _read(self, source: asyncio.StreamReader, into: asyncio.StreamReader) -> None:
        while data := await source.read(self._size):
            into.feed_data(data)
            await asyncio.sleep(self._pause)
        into.feed_eof()


@dataclass(slots=True)
class Traffic:
    """Exchanges with the proxy at *port* in front of *upstream*; the same *seed* and number make the same exchange.

    Attributes:
        made: Exchanges of each kind.
        faults: Faults of the upstream of each kind.
        saw: What the clients saw, by status and code.
        repeated: Requests that the proxy sent again over a new connection.
        findings: Answers that were wrong or lost, a line each.
        stood_still: When the machine did, in the loop's time: every limit may have been over at once.
        untold: Exchanges of such a moment that went wrong; whose doing that was cannot be told.
    """

    port: int
    upstream: SoakUpstream
    seed: int
    made: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    saw: Counter[str] = field(default_factory=Counter)
    repeated: int = 0
    findings: list[str] = field(default_factory=list)
    stood_still: list[float] = field(default_factory=list)
    untold: int = 0

    async def work(self, numbers: Iterator[int], pause: float, until: float) -> None:
        """Make exchanges over one connection after the other, with pauses of *pause* seconds on average."""
        loop = asyncio.get_running_loop()
        while loop.time() < until:
            async with self._client() as client:
                while loop.time() < until:
                    number, began = next(numbers), loop.time()
                    kind, problems = await self.exchange(client, number)
                    if problems:
                        await asyncio.sleep(NOTICED)
                        if self.is_untold(began, loop.time()):
                            self.untold += 1
                        else:
                            self.findings += [f"{number} ({kind}): {problem}" for problem in problems]
                    await asyncio.sleep(random.Random(f"{self.seed}/{number}/pause").expovariate(1 / pause))
                    if problems or number % 10 == 0:
                        break

    def is_untold(self, began: float, ended: float) -> bool:
        """Whether the machine stood still between these moments."""
        return any(began < moment <= ended for moment in self.stood_still)

    def strays(self) -> list[str]:
        """Requests that the proxy should not have sent; a client whom the machine made wait may have left before."""
        return [
            f"a request of nobody: {request[:600]!r}"
            for moment, request in self.upstream.strange
            if not self.is_untold(moment - _HANG, moment + NOTICED)
        ]

    async def exchange(self, client: Client, number: int) -> tuple[str, list[str]]:
        """Make the exchange of that number; its kind, and what was wrong."""
        rng = random.Random(f"{self.seed}/{number}/kind")  # apart from its plan
        kind = rng.choices(list(KINDS), [weight for weight, _ in KINDS.values()])[0]
        self.made[kind] += 1
        try:
            return kind, await KINDS[kind][1](self, client, number, rng)
        except (HttpError, TimeoutError, OSError, EOFError) as exc:
            return kind, [f"lost: {exc!r}"]

    # ------------------------------------------------------------------ the kinds

    async def good(self, client: Client, number: int, rng: random.Random) -> list[str]:
        """An answer without fault."""
        exchange = Drawn((), rng.random() < 0.5)
        exchange.turns = [[Send(GOOD[exchange.streamed])]]
        seen = await self._ask(client, exchange, number)
        return judge(Sees(), seen, streamed=exchange.streamed) + exchange.problems

    async def fault(self, client: Client, number: int, rng: random.Random) -> list[str]:
        """A fault of tests/faults."""
        del rng
        made = plan(f"{self.seed}/{number}")
        self.faults[made.fault] += made.fault != "none"
        exchange = Drawn(made.turns, made.streamed, changes=made.changes)
        more = {"seed": 1} if made.changes else {}
        seen = await self._ask(client, exchange, number, made.backend, **more)
        problems, repeated = examine(made, exchange, seen, changes=exchange.changes)
        self.repeated += repeated
        return problems

    async def tools(self, client: Client, number: int, rng: random.Random) -> list[str]:
        """An answer that is a call."""
        arguments = dumps({"text": "".join(rng.choices('abc {}"\\é\n', k=rng.randrange(300)))}).decode()
        exchange = Drawn((), rng.random() < 0.5)
        call = {"index": 0, "id": f"call_{number}", "type": "function"}
        if exchange.streamed:
            cuts = [0, *sorted(rng.sample(range(1, len(arguments)), k=4)), len(arguments)]
            pieces = [arguments[start:end] for start, end in itertools.pairwise(cuts)]
            events = [
                _event({"tool_calls": [{**call, "function": {"name": "look_up", "arguments": ""}}]}),
                *(_event({"tool_calls": [{"index": 0, "function": {"arguments": piece}}]}) for piece in pieces),
            ]
            answer = chunked(ROLE, *events, _event({}, "tool_calls"), DONE)
        else:
            calls = [{**call, "function": {"name": "look_up", "arguments": arguments}}]
            answer = _document({"role": "assistant", "content": None, "tool_calls": calls}, "tool_calls")
        exchange.turns = [[Send(answer)]]
        seen = await self._ask(client, exchange, number, tools=_TOOLS)
        problems = _form(exchange, seen) + exchange.problems
        said = _summary(seen, streamed=exchange.streamed)
        if said["error"] or said["tool_calls"] != [{"name": "look_up", "arguments": arguments}]:
            problems.append(f"called {said['tool_calls']}, {said['error']}")
        return problems

    async def paced(self, client: Client, number: int, rng: random.Random) -> list[str]:
        """A stream of a second or some; reloads and the faults of others come and go meanwhile."""
        words = rng.randint(20, 40)
        exchange = Drawn([[_Paced(words, rng.uniform(0.02, 0.08))]], streamed=True)
        seen = await self._ask(client, exchange, number)
        said = dialect.summarize(seen.body)
        problems = _form(exchange, seen) + exchange.problems
        if said["content"] != "".join(f" {word}" for word in range(words)) or said["error"]:
            problems.append(f"said {said['content']!r}, {said['error']}")
        return problems

    async def image(self, client: Client, number: int, rng: random.Random) -> list[str]:
        """A body of some megabytes, of which the upstream says what arrived."""
        data = base64.b64encode(rng.randbytes(rng.randint(_MEGABYTE, 4 * _MEGABYTE)))
        exchange = Drawn((), rng.random() < 0.5)
        exchange.turns = [[_Digest(exchange.streamed)]]
        part = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data.decode()}"}}
        seen = await self._ask(client, exchange, number, parts=[part])
        problems = _form(exchange, seen) + exchange.problems
        said = _summary(seen, streamed=exchange.streamed)
        if said["content"] != hashlib.sha256(data).hexdigest():
            problems.append(f"the image did not arrive: {said}")
        return problems

    async def slow(self, client: Client, number: int, rng: random.Random) -> list[str]:
        """A client who is slower than the upstream."""
        del client
        lot = _Lot(rng.randint(50, 200), 2**14)
        exchange = Drawn([[lot]], streamed=True)
        reader = _SlowClient(self.port, _FIELDS % KEY, 2**16, rng.uniform(0.02, 0.06))
        async with reader:
            seen = await self._ask(reader, exchange, number)
        problems = _form(exchange, seen) + exchange.problems
        said = dialect.summarize(seen.body)
        if said["content"] != "x" * (lot.count * lot.size) or said["error"]:
            problems.append(f"{len(said['content'] or '')} characters, not {lot.count * lot.size}; {said['error']}")
        return problems

    async def leaves(self, client: Client, number: int, rng: random.Random) -> list[str]:
        """A client who hangs up or breaks off, while it asks, before the answer, or within it."""
        del client
        when = rng.choice(("asking", "waiting", "reading"))
        steps: tuple[Step, ...] = (Gone(),)
        if when == "reading":
            steps = (
                Send(head(CHUNKED) + chunk(ROLE) + b"".join(map(chunk, TEXT[: rng.randint(1, 4)]))),
                Taken(),
                Gone(),
            )
        exchange = Drawn([steps], rng.random() < 0.5 or when == "reading")
        name, body = self._body(exchange, number, "patient", [])
        content = dumps(body)
        self.upstream.exchanges[name] = exchange
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
            lines = b"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
            lines += _FIELDS % KEY + b"Content-Length: %d\r\n\r\n" % len(content)
            writer.write(lines + (content[: rng.randrange(len(content))] if when == "asking" else content))
            if when != "asking":
                await wait_for(lambda: exchange.playing > 0)
            if when == "reading":
                await soon(reader.read(1))
            if rng.random() < 0.5:
                sock = writer.get_extra_info("socket")
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                writer.transport.abort()
            else:
                writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()
            await wait_for(lambda: not exchange.playing)
        finally:
            del self.upstream.exchanges[name]
        problems = list(exchange.problems)
        if len(exchange.reused) != (when != "asking"):
            problems.append(f"left while {when}: asked {len(exchange.reused)} times")
        return problems

    async def lists(self, client: Client, number: int, rng: random.Random) -> list[str]:
        """The small routes."""
        del number
        path = rng.choice(("v1/models", "v1/models/m", "models?all=true", "healthz", "readyz"))
        client.send(b"", b"GET /" + path.encode())
        seen = await self._see(client)
        problems = [] if seen.status == 200 else [f"{path}: status {seen.status}: {seen.body[:200]!r}"]
        if path in ("v1/models", "models?all=true"):
            problems += dialect.check_models(seen.body)
        if path == "v1/models/m":
            problems += dialect.check_model(seen.body)
        return problems

    async def mistake(self, client: Client, number: int, rng: random.Random) -> list[str]:
        """A request that is wrong."""
        del number
        chat = b"POST /v1/chat/completions"
        asked = dumps({"model": "nobody's", "messages": [{"role": "user", "content": "?"}]})
        line, content, status = rng.choice(
            (
                (chat, b'{"model": "patient 1", ', 400),
                (chat, b'{"model": "patient 1", "messages": 3}', 400),
                (chat, asked, 404),
                (b"GET /v1/chat/completions", b"", 405),
                (b"POST /v1/embeddings", b"{}", 404),
                (b"GET /v1/models/nobody's", b"", 404),
            )
        )
        client.send(content, line)
        return _refused(await self._see(client), status)

    async def wrong_key(self, client: Client, number: int, rng: random.Random) -> list[str]:
        """A client without a key, or with another."""
        del client, number
        async with Client(self.port, rng.choice((b"", _FIELDS % b"another"))) as stranger:
            stranger.send(dumps({"model": "patient 1", "messages": [{"role": "user", "content": "?"}]}))
            return _refused(await self._see(stranger), 401)

    # ------------------------------------------------------------------ below them

    def _client(self) -> Client:
        return Client(self.port, _FIELDS % KEY)

    async def _ask(
        self,
        client: Client,
        exchange: Drawn,
        number: int,
        backend: str = "patient",
        parts: list[dict[str, Any]] | None = None,
        **more: Any,
    ) -> Seen:
        name, body = self._body(exchange, number, backend, parts or [])
        self.upstream.exchanges[name] = exchange
        try:
            seen = await client.ask(body | more, exchange)
            await wait_for(lambda: not exchange.playing)
        finally:
            if backend != "first":  # there the limit may be over before the upstream comes to read what it was asked
                del self.upstream.exchanges[name]
        self._note(seen)
        return seen

    @staticmethod
    def _body(exchange: Drawn, number: int, backend: str, parts: list[dict[str, Any]]) -> tuple[str, dict[str, Any]]:
        name = f"exchange {number}"
        content = [{"type": "text", "text": name}, *parts] if parts else name
        body = {
            "model": f"{backend} {number % _MODELS}",
            "messages": [{"role": "user", "content": content}],
            "stream": exchange.streamed,
        }
        if exchange.streamed:
            body["stream_options"] = {"include_usage": True}
        return name, body

    async def _see(self, client: Client) -> Seen:
        seen = await client.answer(Exchange((), streamed=False))
        self._note(seen)
        return seen

    def _note(self, seen: Seen) -> None:
        found = re.search(rb'"error":\{.*"code":"?(\w+)', seen.body)
        self.saw[f"{seen.status} {found[1].decode()}" if found else str(seen.status)] += 1


KINDS: Final[dict[str, tuple[int, Callable[[Traffic, Client, int, random.Random], Awaitable[list[str]]]]]] = {
    "good": (15, Traffic.good),
    "fault": (37, Traffic.fault),
    "paced": (8, Traffic.paced),
    "tools": (10, Traffic.tools),
    "image": (2, Traffic.image),
    "slow reader": (1, Traffic.slow),
    "leaves": (12, Traffic.leaves),
    "lists": (6, Traffic.lists),
    "mistake": (6, Traffic.mistake),
    "wrong key": (3, Traffic.wrong_key),
}
"""Kinds of exchanges, with how often they come, in hundredths."""


def _form(exchange: Exchange, seen: Seen) -> list[str]:
    return form({"stream": exchange.streamed, "stream_options": {"include_usage": True}}, seen)


def _refused(seen: Seen, status: int) -> list[str]:
    problems = dialect.check_error(seen.body)
    return problems if seen.status == status else [f"status {seen.status}, not {status}", *problems]


def _summary(seen: Seen, *, streamed: bool) -> dict[str, Any]:
    if streamed and seen.status == 200:
        return dialect.summarize(seen.body)
    return dialect.summarize_completion(seen.body)


def _event(delta: dict[str, Any], finish: str | None = None) -> bytes:
    choices = [{"index": 0, "delta": delta, "finish_reason": finish}]
    return b"data: " + dumps({**_COMMON, "object": "chat.completion.chunk", "choices": choices}) + b"\n\n"


def _document(message: dict[str, Any], finish: str) -> bytes:
    choices = [{"index": 0, "message": message, "finish_reason": finish}]
    return sized(dumps({**_COMMON, "object": "chat.completion", "choices": choices}), media=JSON)


def _answer(text: str, *, streamed: bool) -> bytes:
    if streamed:
        return chunked(ROLE, _event({"content": text}), _event({}, "stop"), DONE)
    return _document({"role": "assistant", "content": text}, "stop")
