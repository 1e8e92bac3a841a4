"""Bodies made to exhaust a reader, through the running proxy: the client gets a valid answer or a valid error, and what
the proxy holds meanwhile stays near its limits, however much came."""

from __future__ import annotations

import gzip
import tracemalloc
import zlib
from collections.abc import Callable, Sequence
from functools import cache
from random import Random
from typing import Any, Final, NamedTuple

import httpx
import pytest

from svir_proxy.conform.dialect import summarize, summarize_completion
from svir_proxy.conform.judge import form
from svir_proxy.conform.upstream import Answer, ScriptedUpstream, json_answer
from tests.support.proxy import ask, running_proxy, settings_for

EVENT: Final = 1 << 20
ANSWER: Final = 2 << 20
LIMITS: Final = {"max_event_bytes": EVENT, "max_answer_bytes": ANSWER, "held_text_bytes": 1 << 16}
BOUND: Final = 10 * ANSWER
"""Bytes that the proxy may hold, with its client and its server: JSON takes up to eight times its size once parsed."""
READ: Final = 1 << 16

BAD: Final = "upstream_bad_response"
STREAM: Final = {"content-type": "text/event-stream"}
JSON: Final = {"content-type": "application/json"}
GOOD: Final = b'data: {"choices":[{"index":0,"delta":{"content":"well"},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
OPENING: Final = b'data: {"choices":[{"index":0,"delta":{"content":"'
BODY: Final = b'{"choices":[{"index":0,"message":{"content":"'


class Hostile(NamedTuple):
    """What an upstream sends. *said*: what a client must see of it, the text or an error's code; *whole*: another
    one for a client that asked for no stream, as such an answer has a size."""

    headers: dict[str, str]
    pieces: Sequence[bytes]
    said: str
    status: int = 200
    whole: str = ""


def many(unit: bytes, size: int) -> list[bytes]:
    """About *size* bytes of *unit*, in reads of the socket, which share their memory."""
    return [unit * (READ // len(unit))] * (size // READ)


def squeezed(*pieces: bytes, wbits: int = 31) -> list[bytes]:
    """*pieces*, compressed; as gzip unless *wbits* says otherwise."""
    coder = zlib.compressobj(9, wbits=wbits)
    data = b"".join([coder.compress(piece) for piece in pieces])
    data += coder.flush()
    return [data[at : at + READ] for at in range(0, len(data), READ)]


def compressed(base: dict[str, str], encoding: str = "gzip") -> dict[str, str]:
    return {**base, "content-encoding": encoding}


def within_measure(start: bytes, end: bytes, size: int) -> list[bytes]:
    """Pieces that compress about 140 times: less than a bomb."""
    random = Random(1)
    return [start + random.randbytes(220).hex().encode() + b"x" * (READ - 440) + end for _ in range(size // READ)]


HOSTILE: Final[dict[str, Callable[[], Hostile]]] = {
    # lines and events
    "a line without end": lambda: Hostile(STREAM, [OPENING, *many(b"x", 8 << 20)], BAD),
    "an event of many lines": lambda: Hostile(STREAM, many(b"data: " + b"x" * 57 + b"\n", 8 << 20), BAD),
    "a comment without end": lambda: Hostile(STREAM, [b":", *many(b"x", 8 << 20)], BAD),
    "an event's name without end": lambda: Hostile(STREAM, [b"event:", *many(b"x", 8 << 20)], BAD),
    "lines of megabytes": lambda: Hostile(
        STREAM, [b":" + b"x" * (EVENT - 10) + b"\n\n"] * 8 + [GOOD], "well", whole=BAD
    ),
    "a million comments": lambda: Hostile(STREAM, [b":\n\n" * 20_000] * 50 + [GOOD], "well", whole=BAD),
    "tens of thousands of events": lambda: Hostile(STREAM, [b"data:{}\n\n" * 5_000] * 10 + [GOOD], "well"),
    "events of nothing": lambda: Hostile(STREAM, [b"data:\n\n" * 5_000] * 10 + [GOOD], "well"),
    "blanks": lambda: Hostile(STREAM, [*many(b" \r\n", 8 << 20), GOOD], "well", whole=BAD),
    # values
    "a nest": lambda: Hostile(STREAM, [OPENING[:-1], b"[" * (EVENT // 2), b"\n\n"], BAD),
    "a nest of objects": lambda: Hostile(JSON, [BODY[:-1], *many(b'{"a":', ANSWER // 2)], BAD),
    "a number": lambda: Hostile(STREAM, [b'data: {"created":', *many(b"9", EVENT // 2), b"}\n\n", GOOD], BAD),
    "keys over and over": lambda: Hostile(
        JSON, [b"{", *many(b'"choices":[],', ANSWER // 2), BODY[1:], b'well"}}]}'], "well"
    ),
    "half characters": lambda: Hostile(
        STREAM, [OPENING, *many(b"\\ud83d", EVENT // 2), b'"}}]}\n\n', b"data: [DONE]\n\n"], "\ufffd" * 87_376
    ),
    "an answer without end": lambda: Hostile(JSON, [BODY, *many(b"x", 8 << 20)], BAD),
    "a page without end": lambda: Hostile({"content-type": "text/html"}, many(b"<p>x", 8 << 20), BAD),
    "an error without end": lambda: Hostile(
        JSON, [b'{"error":{"message":"', *many(b"x", 8 << 20)], "upstream_failed", 500
    ),
    # compressed
    "a bomb": lambda: Hostile(compressed(STREAM), squeezed(b":", *many(b"x", 64 << 20)), BAD),
    "a bomb by deflate": lambda: Hostile(
        compressed(STREAM, "deflate"), squeezed(b":", *many(b"x", 64 << 20), wbits=15), BAD
    ),
    "a bomb in an answer": lambda: Hostile(compressed(JSON), squeezed(BODY, *many(b"x", 64 << 20)), BAD),
    "a bomb in an error": lambda: Hostile(
        compressed(JSON), squeezed(b"{", *many(b"x", 64 << 20)), "upstream_failed", 500
    ),
    "a bomb in a bomb": lambda: Hostile(
        compressed(STREAM), [gzip.compress(b"".join(squeezed(b":", *many(b"x", 64 << 20))))], BAD
    ),
    "comments within measure": lambda: Hostile(
        compressed(STREAM), squeezed(*within_measure(b":", b"\n\n", 64 << 20), GOOD), "well", whole=BAD
    ),
    "an answer within measure": lambda: Hostile(
        compressed(JSON), squeezed(BODY, *within_measure(b"", b"", 64 << 20)), BAD
    ),
}


@cache
def made(name: str) -> Hostile:
    """The row of this name. It is made when it is first asked for: compressing them all takes seconds."""
    return HOSTILE[name]()


def request(*, stream: bool) -> dict[str, Any]:
    return {"model": "m", "messages": [{"role": "user", "content": "?"}], "stream": stream}


def said(body: bytes, *, stream: bool, status: int) -> str:
    """The code of the error, or the text."""
    summary = summarize(body) if stream and status == 200 else summarize_completion(body)
    return summary["error"]["code"] if summary["error"] else summary["content"]


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
@pytest.mark.parametrize("name", HOSTILE)
async def test_memory_stays_near_the_limits(name: str, stream: bool) -> None:
    hostile = made(name)
    well = json_answer({"choices": [{"index": 0, "message": {"content": "well"}, "finish_reason": "stop"}]})
    script = {"m": Answer(hostile.status, hostile.headers, hostile.pieces), "well": well}
    async with (
        ScriptedUpstream(script) as upstream,
        running_proxy(settings_for(upstream.base_url, limits=LIMITS)) as base_url,
        httpx.AsyncClient(trust_env=False, timeout=None) as client,
    ):
        body = request(stream=stream)
        assert (await ask(client, base_url, {**body, "model": "well"})).status == 200
        tracemalloc.start()
        try:
            seen = await ask(client, base_url, body)
            held = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert form(body, seen) == []
        wanted = hostile.said if stream else hostile.whole or hostile.said
        assert said(seen.body, stream=stream, status=seen.status) == wanted
        assert held < BOUND, f"{held >> 20} MiB are held"
        assert (await ask(client, base_url, {**body, "model": "well"})).status == 200
