"""Breaks recorded bodies: as bytes, as events, and as the JSON inside.

`broken` draws from a `Random`: a seeded one in long runs and in the fuzzer (``fuzz/``), Hypothesis' own in properties
(`mutated`), which then shrinks what it finds.
"""

from __future__ import annotations

import json
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from hypothesis import strategies as st

from svir_proxy.response.stages.text_calls.formats import CLOSERS, OPENINGS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from random import Random

    from hypothesis.strategies import SearchStrategy

    Mutation = Callable[[Random, bytes, Sequence[bytes]], bytes]

_TOKENS: Final = [
    b"\x00",
    b"\xff\xfe",
    b"\xef\xbb\xbf",
    b"\xe2\x82",
    b"\r",
    b"\r\n\r\n",
    b"\n\n",
    b":",
    b": keepalive\n\n",
    b"data:",
    b"data: [DONE]\n\n",
    b"data: null\n\n",
    b"data: []\n\n",
    b"data: {}\n\n",
    b'data: {"choices":null}\n\n',
    b"event: error\n",
    b'data: {"error":{"message":"boom","code":500}}\n\n',
    b"\\ud83d",
    b"\\ude00",
    b"\\u0000",
    b"1e999999",
    b"9" * 5000,
    b"-0",
    b"NaN",
    b"[" * 3000,
    b'{"a":' * 3000,
    b"<think>",
    b"</think>",
    b"<tool_call>",
    b"</tool_call>",
    b"[TOOL_CALLS]",
    b"<|channel|>analysis<|message|>",
    b"<|end|>",
    b"<!doctype html>",
    b'{"choices":[{"index":0,"delta":{"content":"x"}}]}',
    b'{"detail":"boom"}',
    b"event:error\ndata:boom\n\n",
    b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"length"}]}\n\n',
    b"id: 1\nretry: 0\n",
    b"data: {}\n\n" * 300,
    b":\n" * 300,
    b"x" * 5000,
    *(json.dumps(marker)[1:-1].encode() for marker in (*OPENINGS, *CLOSERS)),
]
"""What has tripped a reader of such streams, or may."""

_VALUES: Final[list[Any]] = [
    None,
    True,
    0,
    -1,
    1,
    2**63,
    10**400,
    1.5,
    1e308,
    "",
    " ",
    "stop",
    "tool_calls",
    "error",
    "\ud83d",
    "\x00",
    "<think>",
    "</think>",
    '<tool_call>{"name":"f","arguments":{}}</tool_call>',
    [],
    [None],
    [[]],
    {},
    {"": None},
    {"message": None},
    {"id": 1, "index": -1, "function": {"name": None, "arguments": None}},
    [{"index": 0, "delta": {"content": "x"}, "finish_reason": "stop"}],
]
"""What may stand anywhere in a chunk, wrongly."""


def cuts(body: bytes) -> SearchStrategy[list[bytes]]:
    """*body* in pieces."""
    places = st.lists(st.integers(0, len(body)), max_size=30) | st.just(
        list(range(len(body))) if len(body) < 2000 else []
    )
    return places.map(lambda at: _pieces(body, at))


def _pieces(body: bytes, places: list[int]) -> list[bytes]:
    edges = [0, *sorted(places), len(body)]
    return [body[start:end] for start, end in pairwise(edges)]


def broken(random: Random, body: bytes, bodies: Sequence[bytes], times: int) -> bytes:
    """*body* broken *times* times, each in a way of its own; *bodies* are those whose events may get into it."""
    for _ in range(times):
        body = random.choice(_MUTATIONS)(random, body, bodies)
    return body


def mutated(bodies: Sequence[bytes]) -> SearchStrategy[bytes]:
    """One of *bodies*, broken in a few ways."""
    return st.builds(
        lambda random, body, times: broken(random, body, bodies, times),
        st.randoms(use_true_random=False),
        st.sampled_from(bodies),
        st.integers(1, 4),
    )


def cut_up(random: Random, body: bytes) -> list[bytes]:
    """*body* in up to 30 pieces."""
    return _pieces(body, [random.randrange(len(body) + 1) for _ in range(random.randrange(30))])


def _stretch(random: Random, body: bytes) -> tuple[int, int]:
    start = random.randrange(len(body) + 1)
    return start, random.randrange(start, min(len(body), start + 400) + 1)


def _flip(random: Random, body: bytes, _: Sequence[bytes]) -> bytes:
    if not body:
        return body
    at = random.randrange(len(body))
    return body[:at] + bytes([body[at] ^ 1 << random.randrange(8)]) + body[at + 1 :]


def _truncate(random: Random, body: bytes, _: Sequence[bytes]) -> bytes:
    return body[: random.randrange(len(body) + 1)]


def _repeat(random: Random, body: bytes, _: Sequence[bytes]) -> bytes:
    start, end = _stretch(random, body)
    return body[:end] * random.choice((1, 1, 1, 3)) + body[start:]


def _drop(random: Random, body: bytes, _: Sequence[bytes]) -> bytes:
    start, end = _stretch(random, body)
    return body[:start] + body[end:]


def _insert(random: Random, body: bytes, _: Sequence[bytes]) -> bytes:
    at = random.randrange(len(body) + 1)
    token = random.choice(_TOKENS) if random.randrange(4) else random.randbytes(random.randrange(40))
    return body[:at] + token + body[at:]


def _line_ends(random: Random, body: bytes, _: Sequence[bytes]) -> bytes:
    return body.replace(b"\n", random.choice((b"\r\n", b"\r", b"\n\n", b"\n:\n")))


def _splice(random: Random, body: bytes, bodies: Sequence[bytes]) -> bytes:
    """The events of one body go over into another's."""
    mine, other = body.split(b"\n\n"), random.choice(bodies).split(b"\n\n")
    return b"\n\n".join(mine[: random.randrange(len(mine) + 1)] + other[random.randrange(len(other) + 1) :])


def _swap(random: Random, body: bytes, _: Sequence[bytes]) -> bytes:
    """Two events change places."""
    events = body.split(b"\n\n")
    one, two = random.randrange(len(events)), random.randrange(len(events))
    events[one], events[two] = events[two], events[one]
    return b"\n\n".join(events)


def _json(random: Random, body: bytes, _: Sequence[bytes]) -> bytes:
    """One value in one chunk becomes another, is nested or grows, or its key goes or is there twice."""
    lines = body.split(b"\n")
    at = random.randrange(len(lines))
    prefix, brace, rest = lines[at].partition(b"{")
    try:
        value = json.loads(brace + rest)
    except (ValueError, RecursionError):
        return body
    holder: Any = value
    while True:
        keys = list(holder) if isinstance(holder, dict) else list(range(len(holder)))
        if not keys:
            return body
        key = random.choice(keys)
        if isinstance(holder[key], dict | list) and holder[key] and random.randrange(6):
            holder = holder[key]
            continue
        break
    again = ""
    match random.randrange(8):
        case 0:
            del holder[key]
        case 1 if isinstance(holder, dict):
            holder["\0"], again = random.choice(_VALUES), json.dumps(key)
        case 2:
            for _ in range(random.choice((1, 10, 100, 400, 900))):
                holder[key] = random.choice(([holder[key]], {"content": holder[key]}, {"error": holder[key]}))
        case 3 if isinstance(holder[key], str | list):
            holder[key] *= 1 + 2000 // (1 + len(holder[key]))
        case _:
            holder[key] = random.choice(_VALUES)
    try:
        text = json.dumps(value)
    except RecursionError:
        return body
    lines[at] = prefix + (text.replace('"\\u0000"', again) if again else text).encode()
    return b"\n".join(lines)


_MUTATIONS: Final[list[Mutation]] = [
    _flip, _truncate, _repeat, _drop, _insert, _insert, _line_ends, _splice, _splice, _swap, _json, _json, _json, _json,
]  # fmt: skip
"""As often as they stand here: most of what breaks a reader is JSON of another shape."""
