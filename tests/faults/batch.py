"""Faults by chance: any answer, cut anywhere, ended anyhow, and what a client must see of it.

What it must see is worked out from the bytes that were sent and from how they ended, by a reading of them that has
nothing in common with the proxy's. The same seed and number make the same plan.
"""

from __future__ import annotations

import asyncio
import gc
import random
import zlib
from collections import Counter
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tests.faults.client import Client, HttpError
from tests.faults.judge import Sees, judge
from tests.faults.rig import SHORT, rig
from tests.faults.upstream import End, Exchange, Gone, HalfClose, Reset, Send, Shown, Spoilt, Step, Taken, Trickle
from tests.faults.wire import CHUNKED, DOCUMENT, DONE, EVENTS, FINISH, GOOD, JSON, TEXT, dumps, error, head

if TYPE_CHECKING:
    from collections.abc import Iterator

    from svir_proxy.conform.judge import Seen
    from tests.faults.rig import Rig

_WHOLE: Final = Sees()
_FAILED: Final = Sees(0, "upstream_failed")
_BAD: Final = Sees(0, "upstream_bad_response")
_INTERIM: Final = (
    b"HTTP/1.1 100 Continue\r\n\r\n",
    b"HTTP/1.1 102 Processing\r\n\r\n",
    b"HTTP/1.1 103 Early Hints\r\nLink: </x>; rel=preload\r\n\r\n",
)
_NO_CHUNK: Final = (b"zz\r\n", b"-1\r\n", b"\r\n\r\n", b"fffffffffffffffff\r\n", b"5\nabcde\r\n", b"\x00")
_EVENT_ENDS: Final = tuple(accumulate(map(len, EVENTS)))
_WORD_ENDS: Final = tuple(end for event, end in zip(EVENTS, _EVENT_ENDS, strict=True) if event in TEXT)
_FINISH_END: Final = _EVENT_ENDS[EVENTS.index(FINISH)]
_DONE_END: Final = _EVENT_ENDS[EVENTS.index(DONE)]
_ANY_STATUS: Final = {
    500: "upstream_failed", 502: "upstream_failed", 503: "upstream_unavailable", 504: "upstream_timeout",
    529: "overloaded", 401: "upstream_auth_failed", 403: "upstream_auth_failed", 429: "rate_limit_exceeded",
    302: "upstream_bad_response", 307: "upstream_bad_response",
}  # fmt: skip
"""No 400: a rejection that names nothing is asked again, which ``changes`` is about."""


@dataclass(frozen=True, slots=True)
class Wire:
    """An answer in its framing.

    Attributes:
        head: Everything before the body.
        parts: The body as it is framed: bytes of the wire, and which of them are its content.
        stream: Whether the content is an event stream.
        packed: Whether the content is compressed.
        framed: Whether the wire says where the body ends; else the end of the connection does.
    """

    head: bytes
    parts: tuple[tuple[bytes, bytes], ...]
    stream: bool
    packed: bool
    framed: bool

    @property
    def data(self) -> bytes:
        return self.head + b"".join(wire for wire, _ in self.parts)

    def content(self, cut: int) -> tuple[int, bool]:
        """Bytes of the answer in the first *cut* bytes of the wire, and whether they are all that was promised."""
        at, got = len(self.head), b""
        for wire, content in self.parts:
            start = wire.find(content) if content else 0
            got += content[: max(cut - at - start, 0)]
            at += len(wire)
        whole = self.framed and cut >= at
        if not self.packed:
            return len(got), whole
        unpacker = zlib.decompressobj(wbits=31)
        return len(unpacker.decompress(got)), whole and unpacker.eof

    def ends_packed(self, cut: int) -> bool:
        """Whether the compressed content, if it is compressed, has its own end in the first *cut* bytes."""
        return not self.packed or cut >= len(self.data)


def wire(rng: random.Random, *, stream: bool) -> Wire:
    """An answer in a framing by chance."""
    packed = rng.random() < 0.15
    pieces = list(EVENTS) if stream else [DOCUMENT[:100], DOCUMENT[100:200], DOCUMENT[200:]]
    if packed:
        packer = zlib.compressobj(wbits=31)
        pieces = [packer.compress(piece) + packer.flush(zlib.Z_SYNC_FLUSH) for piece in pieces] + [packer.flush()]
    elif rng.random() < 0.3:  # chunks know nothing of events
        pieces = list(_split(rng, b"".join(pieces), rng.randint(1, 12)))
    framing = rng.choice(("chunks", "chunks", "length", "close", "1.0"))
    fields = ["Content-Encoding: gzip"] if packed else []
    body = b"".join(pieces)
    parts: list[tuple[bytes, bytes]] = [(piece, piece) for piece in pieces]
    if framing == "chunks":
        fields.append(CHUNKED)
        extension = rng.choice((b"", b"", b";x=y"))
        parts = [(b"%x%b\r\n%b\r\n" % (len(piece), extension, piece), piece) for piece in pieces]
        parts.append((b"0\r\n" + rng.choice((b"", b"X-Trailer: y\r\n")) + b"\r\n", b""))
    elif framing == "length":
        fields.append(f"Content-Length: {len(body)}")
    media = rng.choice(("text/event-stream", "text/event-stream; charset=utf-8") if stream else (JSON,))
    interim = b"".join(rng.choices(_INTERIM, k=rng.choice((0, 0, 0, 1, 3))))
    lines = head(*fields, media=media, version="1.0" if framing == "1.0" else "1.1")
    return Wire(interim + lines, tuple(parts), stream, packed, framing in ("chunks", "length"))


def must_see(answer: Wire, cut: int, end: str, *, streamed: bool) -> Sees:
    """What a client must see of the first *cut* bytes of *answer* when they end with *end* on a new connection.

    *end*: ``stall``, ``reset`` or ``close``; ``broken`` where what follows is no HTTP.
    """
    if cut < len(answer.head):
        return Sees(0, "upstream_timeout", "first_output") if end == "stall" else _FAILED
    got, whole = answer.content(cut)
    closed = end == "close" and not answer.framed and answer.ends_packed(cut)
    if answer.stream:
        sees = _of_stream(got, end, clean=whole or closed)
    elif got == len(DOCUMENT):
        sees = _WHOLE if whole or end != "stall" else Sees(0, "upstream_timeout", "first_output")
    elif end == "stall":
        sees = Sees(0, "upstream_timeout", "first_output")
    else:
        sees = Sees(0, "upstream_bad_response" if (whole or closed) and got else "stream_truncated")
    return sees if streamed or sees.error is None else Sees(0, sees.error, sees.says)


def _of_stream(got: int, end: str, *, clean: bool) -> Sees:
    """What *got* bytes of the stream amount to; at an end an event needs no empty line."""
    if end == "stall":
        words = sum(got >= at for at in _WORD_ENDS)
        if got >= _DONE_END:
            return _WHOLE
        return Sees(words, "upstream_timeout", "idle" if words else "first_output")
    words = sum(got >= at - 2 for at in _WORD_ENDS)
    if got >= _DONE_END - 2 or (clean and got >= _FINISH_END - 2 and not _is_half(got)):
        return _WHOLE
    # Less than the name of a field, in an orderly way, is some text and no stream.
    return Sees(words, "upstream_bad_response" if clean and 0 < got <= len(b"data") else "stream_truncated")


def _is_half(got: int) -> bool:
    """Whether the stream stops within the data of an event: whatever was said before, it was cut."""
    number = sum(end <= got for end in _EVENT_ENDS)
    rest = got - (_EVENT_ENDS[number - 1] if number else 0)
    return number < len(EVENTS) and len(b"data: ") < rest < len(EVENTS[number]) - 2


@dataclass(frozen=True, slots=True)
class Plan:
    """One exchange to be made.

    Attributes:
        fault: Its kind, for the figures.
        streamed: Whether the client asks for a stream.
        turns: As in `Exchange`, with one more for the case that the last but one may be asked again.
        sees: What the client must see.
        backend: Whom it asks.
        free: The last turn but one ends without a byte: on a connection that was used before it must be repeated.
        changes: Whether the first turn rejects the request.
    """

    fault: str
    streamed: bool
    turns: tuple[tuple[Step, ...], ...]
    sees: Sees
    backend: str = "patient"
    free: bool = False
    changes: bool = False


def plan(seed: str) -> Plan:
    """The plan that *seed* stands for."""
    rng = random.Random(seed)
    streamed = rng.random() < 0.7
    kinds = {"none": 8, "cut": 40, "stall": 15, "no chunk": 8, "no HTTP": 5, "more": 6, "status": 8}
    kind = rng.choices(list(kinds), list(kinds.values()))[0]
    made = _MAKERS[kind](rng, streamed)
    if rng.random() < 0.1:
        rejection = error("400 X", "Unknown field", param="seed")
        return Plan(
            f"changed mind, {made.fault}",
            streamed,
            ((Send(rejection),), *made.turns),
            made.sees,
            made.backend,
            made.free,
            True,
        )
    return made


def _answer(rng: random.Random, *, streamed: bool) -> Wire:
    """Mostly what was asked for: a server may answer a plain request with a stream, and the reverse."""
    return wire(rng, stream=streamed if rng.random() < 0.85 else not streamed)


def _none(rng: random.Random, streamed: bool) -> Plan:
    answer = _answer(rng, streamed=streamed)
    data = answer.data
    steps = (Trickle(data),) if rng.random() < 0.05 else _sends(rng, answer, len(data), streamed=streamed)
    end = () if answer.framed and rng.random() < 0.6 else (rng.choice((End(), HalfClose())),)
    return Plan("none", streamed, ((*steps, *end),), _WHOLE)


def _cut(rng: random.Random, streamed: bool) -> Plan:
    answer = _answer(rng, streamed=streamed)
    cut = _where(rng, answer)
    way = rng.choice(("reset", "close", "half-close"))
    ends: dict[str, tuple[Step, ...]] = {
        "reset": (Taken(), Reset()), "close": (End(),), "half-close": (HalfClose(),),
    }  # fmt: skip
    sees = must_see(answer, cut, "reset" if way == "reset" else "close", streamed=streamed)
    turn = (*_sends(rng, answer, cut, streamed=streamed), *ends[way])
    again = (Send(GOOD[streamed]),)
    return Plan(way, streamed, (turn, again), sees, free=not cut)


def _stall(rng: random.Random, streamed: bool) -> Plan:
    answer = _answer(rng, streamed=streamed)
    cut = _where(rng, answer)
    if cut == len(answer.data) and answer.framed:
        cut -= 1
    sees = must_see(answer, cut, "stall", streamed=streamed)
    backend = "patient" if sees.error is None else "idle" if "idle" in sees.says else "first"
    return Plan("stall", streamed, ((*_sends(rng, answer, cut, streamed=streamed), Gone()),), sees, backend)


def _no_chunk(rng: random.Random, streamed: bool) -> Plan:
    answer = _answer(rng, streamed=streamed)
    while not (answer.framed and CHUNKED.encode() in answer.head):
        answer = _answer(rng, streamed=streamed)
    ends = list(accumulate((len(part) for part, _ in answer.parts[:-1]), initial=len(answer.head)))
    cut = rng.choice(ends)
    sees = must_see(answer, cut, "broken", streamed=streamed)
    steps = _sends(rng, answer, cut, streamed=streamed)
    return Plan("no chunk", streamed, ((*steps, Send(rng.choice(_NO_CHUNK)), Gone()),), sees)


def _no_http(rng: random.Random, streamed: bool) -> Plan:
    first = rng.choice([byte for byte in range(256) if byte not in b"H\r\n"])
    data = bytes([first]) + rng.randbytes(rng.randint(1, 300))
    interim = b"".join(rng.choices(_INTERIM, k=rng.choice((0, 1))))
    return Plan("no HTTP", streamed, ((Send(interim), Taken(), Send(data), Gone()),), _BAD)


def _more(rng: random.Random, streamed: bool) -> Plan:
    answer = _answer(rng, streamed=streamed)
    while not answer.framed:
        answer = _answer(rng, streamed=streamed)
    more = rng.choice((answer.data, GOOD[True], GOOD[False], b"\r\nx", b"x", b"0\r\n\r\n", rng.randbytes(20).strip()))
    return Plan("more", streamed, ((Send(answer.data + more + b"x"), Spoilt()),), _WHOLE)


def _status(rng: random.Random, streamed: bool) -> Plan:
    status = rng.choice(list(_ANY_STATUS))
    page = rng.random() < 0.4
    said = b"<html><h1>Busy</h1></html>" if page else dumps({"error": {"message": "busy"}})
    cut = len(said) if rng.random() < 0.7 else rng.randrange(len(said))
    lines = head(f"Content-Length: {len(said)}", status=f"{status} X", media="text/html" if page else JSON)
    end = () if cut == len(said) else (rng.choice((Reset(), HalfClose())),)
    sees = Sees(0, _ANY_STATUS[status])
    return Plan(f"status {status // 100}xx", streamed, ((Send(lines + said[:cut]), Taken(), *end),), sees)


_MAKERS: Final = {
    "none": _none,
    "cut": _cut,
    "stall": _stall,
    "no chunk": _no_chunk,
    "no HTTP": _no_http,
    "more": _more,
    "status": _status,
}


def _where(rng: random.Random, answer: Wire) -> int:
    """A point of the wire: anywhere, or just at or beside one where something ends."""
    data = answer.data
    if rng.random() < 0.1:
        return 0
    if rng.random() < 0.5:
        return rng.randint(0, len(data))
    ends = list(accumulate((len(part) for part, _ in answer.parts), initial=len(answer.head)))
    return min(max(rng.choice(ends) + rng.choice((-3, -2, -1, 0, 0, 1)), 0), len(data))


def _sends(rng: random.Random, answer: Wire, cut: int, *, streamed: bool) -> tuple[Step, ...]:
    """Steps that send the first *cut* bytes, in pieces; some wait for the proxy, some for the client."""
    steps: list[Step] = []
    at = 0
    for piece in _split(rng, answer.data[:cut], rng.choice((1, 1, 2, 5))):
        steps.append(Send(piece))
        at += len(piece)
        wait = rng.random()
        if wait < 0.3:
            steps.append(Taken())
        elif wait < 0.5 and answer.stream and streamed and at >= len(answer.head):
            got, _ = answer.content(at)
            steps.append(Shown(sum(got >= end for end in _WORD_ENDS)))
    return tuple(steps)


def _split(rng: random.Random, data: bytes, count: int) -> Iterator[bytes]:
    cuts = sorted({0, len(data), *(rng.randint(0, len(data)) for _ in range(count - 1))})
    for start, end in pairwise(cuts):
        yield data[start:end]


# ------------------------------------------------------------------------------------------------------------- a batch


@dataclass(slots=True)
class Report:
    """The figures of a batch."""

    seed: int
    count: int
    faults: Counter[str] = field(default_factory=Counter)
    outcomes: Counter[str] = field(default_factory=Counter)
    findings: list[str] = field(default_factory=list)
    """What was wrong: wrong answers, and what was not given back."""
    repeated: int = 0
    """Requests that the proxy sent again over a new connection, because a used one had ended without a word."""
    connections: int = 0
    memory: list[float] = field(default_factory=list)
    """MiB that the process (proxy, upstream and client) held at first and after each quarter."""
    objects: tuple[int, int] = (0, 0)
    """Objects of the proxy's own classes before and after."""


async def run(count: int, seed: int, workers: int = 16, only: int | None = None) -> Report:
    """Make *count* plans of *seed* (or *only* one of them) come true, *workers* at a time."""
    report = Report(seed, count)
    async with rig(models=count, limits={"error_body_seconds": SHORT}) as ground:
        async with Client(ground.port) as client:
            for number in range(200 if only is None else 1):  # what is made once is made
                await ground.ask_well(client, streamed=number % 2 > 0)
        report.findings += await ground.left()
        ground.open_books()
        before = held()
        numbers = iter(range(count) if only is None else [only])
        await asyncio.gather(*(_work(ground, numbers, report) for _ in range(workers)))
        report.connections = ground.upstream.accepted
        report.findings += await ground.left()
        if ground.upstream.strays:
            report.findings.append(f"{len(ground.upstream.strays)} requests of nobody: {ground.upstream.strays[0]!r}")
        after = held()
        report.memory = [before[0], *report.memory, after[0]]
        report.objects = (before[1], after[1])
    return report


def held() -> tuple[float, int]:
    """MiB that this process has resident, and objects of the proxy's own classes."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    mine = sum(str(type(thing).__module__).startswith("svir_proxy.") for thing in gc.get_objects())
    return pages * 4096 / 2**20, mine


async def _work(ground: Rig, numbers: Iterator[int], report: Report) -> None:
    number = next(numbers, None)
    while number is not None:
        async with Client(ground.port) as client:
            while number is not None:
                made = plan(f"{report.seed}/{number}")
                problems = await _try(ground, client, made, number, report)
                report.findings += [f"{number} ({made.fault}): {problem}" for problem in problems]
                if number and number % max(report.count // 4, 1) == 0:
                    report.memory.append(held()[0])
                number = next(numbers, None)
                if problems:
                    break  # the next one has a client of its own


async def _try(ground: Rig, client: Client, made: Plan, number: int, report: Report) -> list[str]:
    exchange = Exchange(made.turns, made.streamed)
    more: dict[str, Any] = {"seed": 1} if made.changes else {}
    try:
        seen = await ground.ask(client, exchange, f"{made.backend} {number}", **more)
    except (HttpError, TimeoutError, OSError, EOFError) as exc:
        return [f"no answer: {exc!r}"]
    problems, repeated = examine(made, exchange, seen, changes=made.changes)
    report.repeated += repeated
    report.faults[made.fault] += 1
    report.outcomes["whole" if repeated or made.sees.error is None else made.sees.error] += 1
    return problems


def examine(made: Plan, exchange: Exchange, seen: Seen, *, changes: bool) -> tuple[list[str], bool]:
    """What is wrong with what was *seen* of *exchange*, and whether the proxy asked again over a new connection.

    *changes*: the first turn of the plan that was played rejected the request.
    """
    arrived = len(exchange.reused)
    repeated = made.free and arrived > changes and exchange.reused[changes]
    problems = judge(_WHOLE if repeated else made.sees, seen, streamed=made.streamed)
    if problems and made.backend == "idle":
        problems = _hasty(made, seen) and problems
    if arrived != changes + 1 + repeated and not (
        made.backend == "first" and arrived <= changes
    ):  # late from the start
        problems.append(f"asked {arrived} times")
    if made.backend == "patient":
        problems += exchange.problems
    return problems, repeated


def _hasty(made: Plan, seen: Seen) -> list[str]:
    """On a busy machine the limit may be over before the upstream has said all that it is to say."""
    problems: list[str] = []
    for words in range(1, made.sees.words + 1):
        problems = judge(Sees(words, made.sees.error, made.sees.says), seen, streamed=made.streamed)
        if not problems:
            break
    return problems
