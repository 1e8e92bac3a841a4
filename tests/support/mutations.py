"""Strategies that break recorded bodies: as bytes, as events, and as the JSON inside."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from hypothesis import strategies as st

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypothesis.strategies import DrawFn, SearchStrategy

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


@st.composite
def mutated(draw: DrawFn, bodies: Sequence[bytes]) -> bytes:
    """One of *bodies*, broken in a few ways."""
    body = draw(st.sampled_from(bodies))
    for _ in range(draw(st.integers(1, 4))):
        mutate = draw(st.sampled_from([_bytes, _splice(bodies), _json, _json]))
        body = mutate(draw, body)
    return body


def _bytes(draw: DrawFn, body: bytes) -> bytes:
    """Flip a bit, truncate, repeat or drop a stretch, or put something in."""
    start = draw(st.integers(0, len(body)))
    end = draw(st.integers(start, min(len(body), start + 400)))
    match draw(st.sampled_from(["flip", "truncate", "repeat", "drop", "insert"])):
        case "flip" if start < len(body):
            return body[:start] + bytes([body[start] ^ 1 << draw(st.integers(0, 7))]) + body[start + 1 :]
        case "truncate":
            return body[:start]
        case "repeat":
            return body[:end] + body[start:]
        case "drop":
            return body[:start] + body[end:]
        case _:
            token = draw(st.sampled_from(_TOKENS) | st.binary(max_size=40))
            return body[:start] + token + body[start:]


def _splice(bodies: Sequence[bytes]) -> Any:
    """The events of one body go over into another's."""

    def splice(draw: DrawFn, body: bytes) -> bytes:
        mine, other = body.split(b"\n\n"), draw(st.sampled_from(bodies)).split(b"\n\n")
        head, tail = draw(st.integers(0, len(mine))), draw(st.integers(0, len(other)))
        return b"\n\n".join(mine[:head] + other[tail:])

    return splice


def _json(draw: DrawFn, body: bytes) -> bytes:
    """One value in one chunk becomes another, or its key goes or doubles."""
    lines = body.split(b"\n")
    at = draw(st.integers(0, len(lines) - 1))
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
        key = draw(st.sampled_from(keys))
        if isinstance(holder[key], dict | list) and holder[key] and draw(st.integers(0, 5)):
            holder = holder[key]
            continue
        break
    if draw(st.integers(0, 4)):
        holder[key] = draw(st.sampled_from(_VALUES))
    else:
        del holder[key]
    lines[at] = prefix + json.dumps(value).encode()
    return b"\n".join(lines)
