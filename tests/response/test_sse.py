"""Framing of server-sent events, the bytes whole, in single bytes and cut in two everywhere."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from svir_proxy.response.sse import SSEParser

LIMIT = 50


def data(*texts):
    return [(b"", text) for text in texts]


STREAMS = {
    "the usual form": (b"data: a\n\ndata: b\n\n", data(b"a", b"b")),
    "CRLF": (b"data: a\r\n\r\ndata: b\r\n\r\n", data(b"a", b"b")),
    "CR": (b"data: a\r\rdata: b\r\r", data(b"a", b"b")),
    "all three": (b"data: a\r\n\ndata: b\r\r\ndata: c\n\r", data(b"a", b"b", b"c")),
    "a CR inside the usual form": (b"data: a\rdata: b\n\n", data(b"a\nb")),
    "no blank after the colon (LongCat)": (b"data:a\n\n", data(b"a")),
    "one blank belongs to the colon, more to the data": (b"data:  a \n\n", data(b" a ")),
    "several data lines": (b"data: a\ndata:\ndata: b\n\n", data(b"a\n\nb")),
    "a name": (b"event: error\ndata: a\n\ndata: b\n\n", [(b"error", b"a"), (b"", b"b")]),
    "a name without data is no event": (b"event: error\n\ndata: a\n\n", data(b"a")),
    "the last name counts": (b"event: a\nevent: b\ndata: c\n\n", [(b"b", b"c")]),
    "id, retry, comments and strange fields": (b"id: 1\nretry: 5\n: a\nx: y\ndata: a\n: b\nz\n\n", data(b"a")),
    "empty events": (b"\n\n\ndata: a\n\n\n\n\n", data(b"a")),
    "a data line without colon": (b"data\n\n", data(b"")),
    "empty data": (b"data:\n\ndata: \n\n", data(b"", b"")),
    "colons in the data": (b"data: a: b\n\n", data(b"a: b")),
    "bytes above ASCII": ("data: ž🌊\n\n".encode(), data("ž🌊".encode())),
    "no empty line at the end (Gemini's proxies)": (b"data: a\n\ndata: b\n", data(b"a", b"b")),
    "no line end at the end": (b"data: a\n\ndata: b", data(b"a", b"b")),
    "a CR at the end": (b"data: a\r", data(b"a")),
    "an event and half a line end": (b"data: a\n\ndata: b\n", data(b"a", b"b")),
    "two line ends between the usual forms": (b"data: a\n\n\ndata: b\n\n", data(b"a", b"b")),
    "something else after the usual form": (b"data: a\n\ndata: b\n\n: c\n\ndata: d\n\n", data(b"a", b"b", b"d")),
    "nothing": (b"", []),
}


def parse(pieces, limit=LIMIT):
    parser = SSEParser(limit)
    events = [event for piece in (*pieces, b"\n\n") for event in parser.feed(piece)]
    return events, parser.too_large


@pytest.mark.parametrize(("stream", "expected"), STREAMS.values(), ids=STREAMS)
def test_streams(stream, expected):
    assert parse([stream]) == (expected, False)
    assert parse([bytes([byte]) for byte in stream]) == (expected, False)
    for cut in range(len(stream)):
        assert parse([stream[:cut], stream[cut:]]) == (expected, False)
        assert parse([stream[:cut], b"", stream[cut:]]) == (expected, False)


SCRAPS = st.sampled_from(
    [b"data: a", b"data:b", b"event: c", b": d", b"e", b"\n", b"\n\n", b"\r", b"\r\n", b"data: f\n\n"]
)


@given(st.lists(st.lists(SCRAPS, max_size=6).map(b"".join), max_size=6), st.integers(6, LIMIT))
def test_the_cut_of_the_bytes_changes_nothing(pieces, limit):
    assert parse(pieces, limit) == parse([bytes([byte]) for byte in b"".join(pieces)], limit)


def test_an_event_comes_with_the_byte_that_completes_it():
    parser = SSEParser(LIMIT)
    assert parser.feed(b"data: a\n") == []
    assert parser.feed(b"\ndata: b") == data(b"a")
    assert parser.feed(b"\r") == []
    assert parser.feed(b"\r") == data(b"b")
    assert parser.feed(b"\n") == []


TOO_LARGE = {
    "a line": b"data: " + b"x" * LIMIT + b"\n\n",
    "a comment": b": " + b"x" * LIMIT + b"\n\n",
    "several data lines together": b"data: 1234567\n" * 7 + b"\n",
}


@pytest.mark.parametrize("stream", TOO_LARGE.values(), ids=TOO_LARGE)
def test_beyond_the_limit_nothing_comes_out(stream):
    before, after = b"data: a\n\n", b"data: b\n\n"
    for pieces in (
        [before, stream, after],
        [before + stream + after, after],
        [bytes([byte]) for byte in before + stream + after],
    ):
        assert parse(pieces) == (data(b"a"), True)


def test_at_the_limit_all_comes_out():
    line = b"data: " + b"x" * (LIMIT - 6)
    lines = b"data: 123456789\n" * 5
    for stream, texts in ((line, [line[6:]]), (lines, [b"\n".join([b"123456789"] * 5)])):
        assert parse([stream + b"\n\n"]) == (data(*texts), False)
        assert parse([bytes([byte]) for byte in stream]) == (data(*texts), False)
