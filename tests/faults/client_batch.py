"""Clients by chance: any requests, framed and cut anyhow, one behind the other; then they leave, break off or lie.

What each must hear is worked out from what it says. The same seed and number make the same plan.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from tests.faults.batch import held
from tests.faults.client import Client, HttpError
from tests.faults.clients import (
    CHAT,
    CHUNKED,
    JSON,
    Act,
    Ends,
    Hear,
    Leave,
    Say,
    Scene,
    Speaker,
    Taken,
    question,
    request,
)
from tests.faults.rig import rig
from tests.faults.upstream import Exchange, Gone, Send, Step
from tests.faults.wire import EVENTS, GOOD, chunk, dumps, head
from tests.server.transport.raw_server import until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.faults.rig import Rig

_LIES: Final = (
    b"\0", b"\x16\x03\x01\x02\x00", b"GET\r\n\r\n", b"get / HTTP/1.1\r\n\r\n", b"GET / HTTP/3.0\r\nHost: localhost\r\n\r\n",
    request("GET", "/healthz", "Host: a"), request(host=None), request("POST", CHAT, "Content-Length: 1", "Content-Length: 2"),
    request("POST", CHAT, CHUNKED, "Content-Length: 3"), request("POST", CHAT, "Transfer-Encoding: chunked, chunked"),
    request("GET", "/", " folded: a"), request("GET", "/", "a b: c"), request("GET", "/", "a: \0"), request("GET", "/\xff"),
    request("CONNECT", "a:1"), request().replace(b"\r\n", b"\n"), request("GET", "/", "X: " + "y" * 2**17),
)  # fmt: skip
"""What is no request, whatever follows; each is answered with 400, and nothing behind it is."""


@dataclass(frozen=True, slots=True)
class Plan:
    """One client.

    Attributes:
        kind: How it ends, for the figures.
        acts: What it does.
        turns: What the upstream does with each of its chat requests that it must see.
        whole: Whether all of those reach the upstream for certain.
    """

    kind: str
    acts: tuple[Act, ...]
    turns: tuple[tuple[Step, ...], ...]
    whole: bool = True


_Made = tuple[random.Random, str, list[bytes], list[Hear], list[tuple[Step, ...]], list[str]]
"""What chance gave, its kind of an end, the requests, what they hear, the upstream's part, and names for exchanges."""


def names(seed: str, count: int) -> list[str]:
    """Names of the exchanges of one plan."""
    number = int(seed.rpartition("/")[2])
    return [f"exchange {10**7 + number * 10 + at}" for at in range(count)]


def plan(seed: str) -> Plan:
    """The plan that *seed* stands for."""
    rng = random.Random(seed)
    called = names(seed, 10)
    said: list[bytes] = []
    heard: list[Hear] = []
    turns: list[tuple[Step, ...]] = []
    for _ in range(rng.choice((1, 1, 2, 3, 8))):
        data, hear, good = _request(rng, called[len(turns)])
        said.append(data)
        heard.append(hear)
        if good is not None:
            turns.append((Send(good),))
    kind = rng.choice(("stays", "stays", "last", "lies", "breaks off", "leaves", "leaves", "leaves early"))
    return _ENDS[kind]((rng, kind, said, heard, turns, called))


def _request(rng: random.Random, name: str) -> tuple[bytes, Hear, bytes | None]:
    """A request, what it hears, and what the upstream answers where it is asked."""
    noise = [f"X-{rng.randrange(99)}: {'a' * rng.choice((0, 3, 3000))}" for _ in range(rng.choice((0, 0, 1, 9)))]
    what = rng.randrange(10)
    if what < 5:
        streamed = rng.random() < 0.5
        fields, body = _framed(rng, question(name, streamed=streamed))
        data = request(
            "POST", rng.choice((CHAT, f"http://localhost{CHAT}")), *_shuffled(rng, JSON, *fields, *noise), body=body
        )
        return data, Hear(chat="stream" if streamed else "whole"), GOOD[streamed]
    if what < 7:
        target = rng.choice(("/healthz", "/healthz?a=b", "/v1/healthz/"))
        return request(rng.choice(("GET", "HEAD")), target, *noise), Hear(), None
    kind, method, target, fields, body = rng.choice(_WRONG)
    extra, framed = _framed(rng, body) if body else ((), b"")
    return request(method, target, *_shuffled(rng, *fields, *extra, *noise), body=framed), Hear(kind), None


_WRONG: Final[tuple[tuple[str, str, str, tuple[str, ...], bytes], ...]] = (
    ("unknown_url", "GET", "/nowhere", (), b""),
    ("unknown_url", "POST", "/v1/files", (JSON,), b"{}" * 1000),
    ("method_not_allowed", "PUT", CHAT, (JSON,), b"{}"),
    ("method_not_allowed", "DELETE", "/v1/models", (), b""),
    ("invalid_json", "POST", CHAT, (JSON,), b"{"),
    ("invalid_request", "POST", CHAT, (JSON,), dumps({"messages": 1})),
    ("unsupported_media_type", "POST", CHAT, ("Content-Type: text/plain",), b"{}"),
    ("unsupported_media_type", "POST", CHAT, (JSON, "Content-Encoding: br"), b"xyz" * 999),
    ("request_too_large", "POST", CHAT, (JSON,), b"x" * (2**16 + 1)),
)


def _shuffled(rng: random.Random, *fields: str) -> list[str]:
    cased = [field_.swapcase() if rng.random() < 0.1 and "Content-Type" not in field_ else field_ for field_ in fields]
    return rng.sample(cased, len(cased))


def _framed(rng: random.Random, body: bytes) -> tuple[tuple[str, ...], bytes]:
    """Fields that frame *body*, and it in its framing."""
    if rng.random() < 0.6:
        return (f"Content-Length: {'0' * rng.choice((0, 0, 5))}{len(body)}",), body
    parts = []
    for piece in _split(rng, body, rng.choice((1, 2, 9, 40))):
        size = rng.choice(("{:x}", "{:X}", "000{:x}")).format(len(piece)).encode()
        parts.append(size + rng.choice((b"", b"", b";a", b';a=b;c="d"')) + b"\r\n" + piece + b"\r\n")
    trailer = rng.choice((b"", b"", b"X-A: b\r\n", b"Host: a\r\nX-A: b\r\n"))
    return (CHUNKED,), b"".join(parts) + b"0\r\n" + trailer + b"\r\n"


def _split(rng: random.Random, data: bytes, count: int) -> Iterator[bytes]:
    for start, end in pairwise(sorted({0, len(data), *(rng.randint(0, len(data)) for _ in range(count - 1))})):
        yield data[start:end]


def _says(rng: random.Random, data: bytes) -> list[Act]:
    """*data* in pieces; after some, the proxy has read all."""
    acts: list[Act] = []
    for piece in _split(rng, data, rng.choice((1, 1, 2, 5, 30))):
        acts += [Say(piece), Taken()] if rng.random() < 0.5 else [Say(piece)]
    return acts


def _stays(made: _Made) -> Plan:
    rng, kind, said, heard, turns, _ = made
    again = (Say(request()), Hear())
    return Plan(kind, (*_says(rng, b"".join(said)), *_hears(said, heard), *again), tuple(turns))


def _last(made: _Made) -> Plan:
    """A client that says which request is the last, and has more to say."""
    rng, kind, said, heard, turns, _ = made
    version = rng.choice(("1.0", "1.1"))
    last = request("GET", "/healthz", "Connection: close", version=version)
    more = rng.choice((b"", b"", request(), b"\0" * 999, b"".join(said)))
    acts = (*_says(rng, b"".join(said) + last + more), *_hears(said, heard), Hear(), Ends())
    return Plan(f"{kind}, HTTP/{version}", acts, tuple(turns))


def _lies(made: _Made) -> Plan:
    rng, kind, said, heard, turns, _ = made
    lie = rng.choice(_LIES)
    data = b"".join(said) + lie + rng.choice((b"", request("GET", "/smuggled"), b"x" * 99_999))
    return Plan(kind, (*_says(rng, data), *_hears(said, heard), Hear("invalid_request"), Ends()), tuple(turns))


def _breaks_off(made: _Made) -> Plan:
    """A body that stops being one."""
    rng, kind, said, heard, turns, _ = made
    broken = rng.choice((b"zz\r\n", b"5\r\nabcdef\r\n", b"1\nx\r\n", b"-1\r\n", b"1\r\nx\r\n0\r\na b: c\r\n\r\n"))
    data = b"".join(said) + request("POST", CHAT, JSON, CHUNKED) + broken
    return Plan(kind, (*_says(rng, data), *_hears(said, heard), Hear("invalid_request"), Ends()), tuple(turns))


def _leaves(made: _Made) -> Plan:
    """While the last of its requests is answered."""
    rng, kind, said, heard, turns, called = made
    streamed = rng.random() < 0.5
    data = request("POST", CHAT, JSON, body=question(called[len(turns)], streamed=streamed))
    so_far = head(CHUNKED) + b"".join(map(chunk, EVENTS))
    cut = rng.choice((0, 20, len(head(CHUNKED)), rng.randrange(len(so_far) - len(chunk(EVENTS[-1])))))
    stalls = (Send(so_far[:cut]), Gone())
    way = rng.choice(("close", "reset", "half-close"))
    behind = rng.choice((b"", request(), request() * 50, data[:-1]))
    acts = (*_says(rng, b"".join(said)), *_hears(said, heard), Say(data + behind), _Asked(len(turns) + 1), Leave(way))
    return Plan(f"{kind}: {way}", acts, (*turns, stalls))


def _leaves_early(made: _Made) -> Plan:
    """Anywhere within what it says, and without listening."""
    rng, kind, said, _, turns, _ = made
    data = b"".join(said)
    way = rng.choice(("close", "reset", "half-close"))
    return Plan(
        f"{kind}: {way}", (*_says(rng, data[: rng.randint(0, len(data))]), Leave(way)), tuple(turns), whole=False
    )


_ENDS: Final = {
    "stays": _stays,
    "last": _last,
    "lies": _lies,
    "breaks off": _breaks_off,
    "leaves": _leaves,
    "leaves early": _leaves_early,
}


def _hears(said: list[bytes], heard: list[Hear]) -> Iterator[Hear]:
    for data, hear in zip(said, heard, strict=True):
        yield Hear(hear.error, hear.chat, head=True) if data.startswith(b"HEAD") else hear


@dataclass(frozen=True, slots=True)
class _Asked:
    """Wait until the upstream has been asked so many times, and has said what it had to."""

    times: int

    async def play(self, scene: Scene) -> None:
        await until(lambda: sum(exchange.played for exchange in scene.exchanges) == self.times)


# ------------------------------------------------------------------------------------------------------------- a batch


@dataclass(slots=True)
class Report:
    """The figures of a batch."""

    seed: int
    clients: Counter[str] = field(default_factory=Counter)
    answers: Counter[str] = field(default_factory=Counter)
    findings: list[str] = field(default_factory=list)
    memory: list[float] = field(default_factory=list)
    """MiB that the process held at first and after each quarter."""
    objects: tuple[int, int] = (0, 0)
    """Objects of the proxy's own classes before and after."""


async def run(count: int, seed: int, workers: int = 16, only: int | None = None) -> Report:
    """Have *count* clients of *seed* (or *only* one of them) act, *workers* at a time."""
    report = Report(seed)
    async with rig(server={"max_request_bytes": 2**16}) as ground:
        async with Client(ground.port) as client:
            for number in range(200 if only is None else 1):  # what is made once is made
                await ground.ask_well(client, streamed=number % 2 > 0)
        report.findings += await ground.left()
        ground.open_books()
        before = held()
        numbers = iter(range(count) if only is None else [only])
        await asyncio.gather(*(_work(ground, numbers, report, count) for _ in range(workers)))
        report.findings += await ground.left()
        report.findings += [f"a request of nobody: {stray!r}" for stray in ground.upstream.strays[:3]]
        after = held()
        report.memory = [before[0], *report.memory, after[0]]
        report.objects = (before[1], after[1])
    return report


async def _work(ground: Rig, numbers: Iterator[int], report: Report, count: int) -> None:
    for number in numbers:
        made = plan(f"{report.seed}/{number}")
        report.findings += [
            f"{number} ({made.kind}): {problem}" for problem in await _try(ground, made, number, report)
        ]
        report.clients[made.kind] += 1
        for act in made.acts if made.whole else ():
            if isinstance(act, Hear):
                report.answers[act.error or act.chat or "ok"] += 1
        if number and number % max(count // 4, 1) == 0:
            report.memory.append(held()[0])


async def _try(ground: Rig, made: Plan, number: int, report: Report) -> list[str]:
    exchanges = [Exchange([turn], streamed=False) for turn in made.turns]
    called = names(f"{report.seed}/{number}", len(exchanges))
    ground.upstream.exchanges |= dict(zip(called, exchanges, strict=True))
    try:
        async with Speaker(ground.port) as speaker:
            scene = Scene(speaker, exchanges)
            for act in made.acts:
                await act.play(scene)
        await until(lambda: not any(exchange.playing for exchange in exchanges))
        if not made.whole:
            return scene.problems
        problems = [problem for exchange in exchanges for problem in exchange.problems]
        problems += [f"asked {len(exchange.reused)} times" for exchange in exchanges if len(exchange.reused) != 1]
        return scene.problems + problems
    except (HttpError, TimeoutError, OSError, EOFError) as exc:
        return [f"{exc!r}"]
    finally:
        for name in called if made.whole else ():  # of one that left early a request may still be under way
            del ground.upstream.exchanges[name]
