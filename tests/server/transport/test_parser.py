"""Responses, whole and in pieces, and everything that is refused."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from svir_proxy.server.transport.limits import TransportLimits
from svir_proxy.server.transport.parser import ResponseParser

OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"
LENGTH_3 = OK + b"Content-Length: 3\r\n\r\n"


def parse(*reads: bytes, limits: TransportLimits | None = None, **start: Any) -> tuple[ResponseParser, bytes]:
    parser = ResponseParser(limits or TransportLimits())
    parser.start(**start)
    body = b""
    for read in reads:
        if parser.done:
            break
        body += parser.feed(read)
    return parser, body


def bytewise(data: bytes) -> list[bytes]:
    return [data[i : i + 1] for i in range(len(data))]


# name: (bytes, status, body, whether the connection can be used again)
ACCEPTED: dict[str, tuple[bytes, int, bytes, bool]] = {
    "content-length": (LENGTH_3 + b"abc", 200, b"abc", True),
    "no reason phrase": (b"HTTP/1.1 500\r\nContent-Length: 3\r\n\r\nabc", 500, b"abc", True),
    "unknown status": (b"HTTP/1.1 599 ?\r\nContent-Length: 3\r\n\r\nabc", 599, b"abc", True),
    "empty": (OK + b"Content-Length: 0\r\n\r\n", 200, b"", True),
    "chunked": (CHUNKED + b"3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n", 200, b"abcde", True),
    "chunked, capitals": (OK + b"TRANSFER-ENCODING: Chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n", 200, b"abc", True),
    "chunk extensions": (CHUNKED + b'3;a=b;c="d"\r\nabc\r\n0;e\r\n\r\n', 200, b"abc", True),
    "trailers": (CHUNKED + b"3\r\nabc\r\n0\r\nX-Sum: 1\r\nY: 2\r\n\r\n", 200, b"abc", True),
    "close": (OK + b"Connection: close\r\nContent-Length: 3\r\n\r\nabc", 200, b"abc", False),
    "close among others": (OK + b"Connection: foo, Close\r\nContent-Length: 3\r\n\r\nabc", 200, b"abc", False),
    "1.0": (b"HTTP/1.0 200 OK\r\nContent-Length: 3\r\n\r\nabc", 200, b"abc", False),
    "1.0 kept alive": (
        b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 3\r\n\r\nabc", 200, b"abc", True,
    ),
    "100 first": (b"HTTP/1.1 100 Continue\r\n\r\n" + LENGTH_3 + b"abc", 200, b"abc", True),
    "103 twice": (b"HTTP/1.1 103 Early\r\nLink: x\r\n\r\n" * 2 + LENGTH_3 + b"abc", 200, b"abc", True),
    "103 with a length": (b"HTTP/1.1 103 E\r\nContent-Length: 9\r\n\r\n" + LENGTH_3 + b"abc", 200, b"abc", True),
    "103 with a coding": (b"HTTP/1.1 103 E\r\nTransfer-Encoding: chunked\r\n\r\n" + CHUNKED + b"0\r\n\r\n", 200, b"", True),
    "204": (b"HTTP/1.1 204 No\r\n\r\n", 204, b"", True),
    "204 with a length": (b"HTTP/1.1 204 No\r\nContent-Length: 3\r\n\r\n", 204, b"", True),
    "304 with a length": (b"HTTP/1.1 304 Not\r\nContent-Length: 3\r\n\r\n", 304, b"", True),
    "200 that offers an upgrade": (
        OK + b"Connection: upgrade\r\nUpgrade: h2c\r\nContent-Length: 3\r\n\r\nabc", 200, b"abc", True,
    ),
    "empty lines before": (b"\r\n\r\n" + LENGTH_3 + b"abc", 200, b"abc", True),
}  # fmt: skip


@pytest.mark.parametrize("name", ACCEPTED)
def test_accepted(name: str) -> None:
    data, status, body, reusable = ACCEPTED[name]
    for reads in ([data], bytewise(data)):
        parser, got = parse(*reads)
        assert (parser.status, got, parser.complete, parser.reusable, parser.error) == (
            status,
            body,
            True,
            reusable,
            None,
        )


@given(st.sampled_from(sorted(ACCEPTED)), st.data())
def test_the_cuts_do_not_matter(name: str, data: st.DataObject) -> None:
    whole, status, body, reusable = ACCEPTED[name]
    cuts = sorted(data.draw(st.sets(st.integers(1, len(whole) - 1), max_size=8)))
    parser, got = parse(*(whole[a:b] for a, b in zip([0, *cuts], [*cuts, len(whole)], strict=True)))
    assert (parser.status, got, parser.complete, parser.reusable) == (status, body, True, reusable)


def test_headers_are_as_sent_and_trailers_are_not_among_them() -> None:
    early = b"HTTP/1.1 103 Early\r\nLink: x\r\n\r\n"
    parser, _ = parse(early + OK + b"A: 1\r\nb:2 \r\nA:\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nZ: 9\r\n\r\n")
    assert parser.headers == [(b"A", b"1"), (b"b", b"2 "), (b"A", b""), (b"Transfer-Encoding", b"chunked")]


@pytest.mark.parametrize(
    ("fields", "encoded"),
    [
        (b"", False),
        (b"Content-Encoding: gzip\r\n", True),
        (b"content-encoding:\r\n", True),
        (b"content-encodings: a\r\ncontent-coding-x: a\r\ncontent-location: a\r\n", False),
    ],
)
@pytest.mark.parametrize("early", [b"", b"HTTP/1.1 103 Early\r\nContent-Encoding: gzip\r\n\r\n"])
def test_whether_there_is_an_encoding(fields: bytes, encoded: bool, early: bytes) -> None:
    parser, _ = parse(early + OK + fields + b"Transfer-Encoding: chunked\r\n\r\n0\r\nContent-Encoding: br\r\n\r\n")
    assert parser.complete
    assert parser.is_encoded is encoded
    parser.start()
    assert not parser.is_encoded


# name: (bytes, words of the error)
REFUSED: dict[str, tuple[bytes, str]] = {
    "no HTTP": (b"SSH-2.0-OpenSSH\r\n", "not valid HTTP"),
    "TLS alert": (b"\x15\x03\x01\x00\x02\x02\x46", "not valid HTTP"),
    "HTML": (b"<html>", "not valid HTTP"),
    "version 0.9": (b"HTTP/0.9 200 OK\r\n\r\n", "version"),
    "version 2.0": (b"HTTP/2.0 200 OK\r\n\r\n", "version"),
    "version 1.2": (b"HTTP/1.2 200 OK\r\n\r\n", "not valid HTTP"),
    "status 099": (b"HTTP/1.1 099 No\r\n\r\n", "status code"),
    "status 2000": (b"HTTP/1.1 2000 No\r\n\r\n", "not valid HTTP"),
    "101": (b"HTTP/1.1 101 S\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n", "change of protocols"),
    "101 without upgrade": (b"HTTP/1.1 101 S\r\n\r\n", "change of protocols"),
    "length and coding": (OK + b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n", "not valid HTTP"),
    "coding and length": (OK + b"Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n", "not valid HTTP"),
    "two lengths": (OK + b"Content-Length: 3\r\nContent-Length: 4\r\n\r\n", "not valid HTTP"),
    "the same length twice": (OK + b"Content-Length: 3\r\nContent-Length: 3\r\n\r\n", "not valid HTTP"),
    "a list of lengths": (OK + b"Content-Length: 3, 3\r\n\r\n", "not valid HTTP"),
    "negative length": (OK + b"Content-Length: -3\r\n\r\n", "not valid HTTP"),
    "signed length": (OK + b"Content-Length: +3\r\n\r\n", "not valid HTTP"),
    "empty length": (OK + b"Content-Length:\r\n\r\n", "not valid HTTP"),
    "length beyond 64 bits": (OK + b"Content-Length: 99999999999999999999\r\n\r\n", "not valid HTTP"),
    "coding gzip": (OK + b"Transfer-Encoding: gzip\r\n\r\n", "transfer coding"),
    "coding gzip, chunked": (OK + b"Transfer-Encoding: gzip, chunked\r\n\r\n", "transfer coding"),
    "coding chunked, gzip": (OK + b"Transfer-Encoding: chunked, gzip\r\n\r\n", "transfer coding"),
    "coding xchunked": (OK + b"Transfer-Encoding: xchunked\r\n\r\n", "transfer coding"),
    "coding identity": (OK + b"Transfer-Encoding: identity\r\n\r\n", "transfer coding"),
    "chunked twice": (OK + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n", "transfer coding"),
    "bare LF": (b"HTTP/1.1 200 OK\nContent-Length: 3\n\nabc", "not valid HTTP"),
    "bare LF in a header": (OK + b"A: 1\nContent-Length: 3\r\n\r\n", "not valid HTTP"),
    "bare CR in a header": (OK + b"A: 1\rB: 2\r\n\r\n", "not valid HTTP"),
    "NUL in a header": (OK + b"A: 1\x002\r\n\r\n", "not valid HTTP"),
    "folded header": (OK + b"A: 1\r\n 2\r\n\r\n", "not valid HTTP"),
    "folded length": (OK + b"Content-Length:\r\n 3\r\n\r\n", "not valid HTTP"),
    "blank before the colon": (OK + b"Content-Length : 3\r\n\r\n", "not valid HTTP"),
    "no colon": (OK + b"junk\r\n\r\n", "not valid HTTP"),
    "no name": (OK + b": x\r\n\r\n", "not valid HTTP"),
    "chunk of negative size": (CHUNKED + b"-3\r\nabc\r\n", "not valid HTTP"),
    "chunk of size 0x3": (CHUNKED + b"0x3\r\nabc\r\n", "not valid HTTP"),
    "chunk beyond 64 bits": (CHUNKED + b"fffffffffffffffff\r\n", "not valid HTTP"),
    "chunk with bare LF": (CHUNKED + b"3\nabc\n0\n\n", "not valid HTTP"),
    "chunk longer than said": (CHUNKED + b"3\r\nabcd\r\n0\r\n\r\n", "not valid HTTP"),
    "length as a trailer": (CHUNKED + b"0\r\nContent-Length: 3\r\n\r\n", "not valid HTTP"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    data, words = REFUSED[name]
    for reads in ([data], bytewise(data)):
        parser, _ = parse(*reads)
        assert isinstance(parser.error, httpx.RemoteProtocolError)
        assert words in str(parser.error)
        assert (parser.done, parser.complete, parser.reusable) == (True, False, False)


def test_no_error_quotes_the_server() -> None:
    secret = b"sk-12345678"
    for head in (b"A: %b\x00\r\n\r\n", b"Transfer-Encoding: %b\r\n\r\n", b"%b\r\n\r\n", b"Content-Length: %b\r\n\r\n"):
        parser, _ = parse(OK + head % secret)
        assert secret.decode() not in str(parser.error)


def test_bytes_before_a_fault_count() -> None:
    parser, body = parse(CHUNKED + b"3\r\nabc\r\n2\r\nde\r\nzz\r\n")
    assert body == b"abcde"
    assert isinstance(parser.error, httpx.RemoteProtocolError)


@pytest.mark.parametrize(
    "after",
    [LENGTH_3 + b"xyz", b"x", b"H", b"\r\nHTTP/1.1 200 OK\r\n\r\n", b"0\r\n\r\n"],
    ids=["a second response", "junk", "a beginning", "a response after an empty line", "a chunk"],
)
@pytest.mark.parametrize("first", ["content-length", "chunked", "204", "close"])
def test_bytes_after_a_response_spoil_the_connection_only(first: str, after: bytes) -> None:
    data, status, body, _ = ACCEPTED[first]
    parser, got = parse(data + after)
    assert (parser.status, got, parser.complete, parser.reusable, parser.error) == (status, body, True, False, None)


def test_head_has_no_body_and_spoils_the_connection() -> None:
    for head in (LENGTH_3, CHUNKED, OK + b"\r\n", b"HTTP/1.1 100 Continue\r\n\r\n" + LENGTH_3):
        for reads in ([head], bytewise(head), [head + b"abc"]):
            parser, body = parse(*reads, head_request=True)
            assert (parser.status, body, parser.complete, parser.reusable, parser.error) == (
                200,
                b"",
                True,
                False,
                None,
            )


def test_one_parser_serves_a_connection() -> None:
    parser = ResponseParser(TransportLimits())
    for data, status, body, reusable in ACCEPTED.values():
        if reusable:
            parser.start()
            assert not parser.started
            assert parser.feed(data) == body
            assert (parser.started, parser.status, parser.complete, parser.error) == (True, status, True, None)


USUAL = OK + b"Server: a\r\nContent-Length: %d\r\nX-A: b\r\n\r\n%b"


@given(
    st.lists(
        st.tuples(
            st.sampled_from([LENGTH_3 + b"abc", *(USUAL % (len(body), body) for body in (b"a", b"\r\n\r\n" * 9))])
            | st.sampled_from([data for data, *_ in ACCEPTED.values()] + [data for data, _ in REFUSED.values()]),
            st.booleans(),
            st.sampled_from([b"", b"\r\n", b"x"]),
        ),
        min_size=2,
        max_size=8,
    )
)
def test_what_was_read_before_changes_nothing(responses: list[tuple[bytes, bool, bytes]]) -> None:
    known = ResponseParser(TransportLimits())
    for data, to_head, more in responses:
        fresh = ResponseParser(TransportLimits())
        read = []
        for parser in (known, fresh):
            parser.start(head_request=to_head)
            body = parser.feed(data + more)
            read.append((body, parser.status, parser.headers, parser.is_encoded, parser.complete, parser.reusable))
            read.append((parser.head_complete, parser.started, str(parser.error)))
        assert read[:2] == read[2:]
        if not known.reusable:
            break


def test_a_head_that_comes_again_is_read_without_llhttp(monkeypatch: pytest.MonkeyPatch) -> None:
    parser = ResponseParser(TransportLimits())
    assert parser.feed(USUAL % (3, b"abc")) == b"abc"
    headers = parser.headers
    for body in (b"d", b"\r\n\r\n", b"e" * 100_000):
        parser.start()
        monkeypatch.setattr(parser, "_llhttp", object())  # which cannot be fed
        assert parser.feed(USUAL % (len(body), body)) == body
        assert (parser.status, parser.complete, parser.reusable) == (200, True, True)
        assert parser.headers == [(b"Server", b"a"), (b"Content-Length", b"%d" % len(body)), (b"X-A", b"b")]
    assert headers[1] == (b"Content-Length", b"3"), "whoever has the one before keeps it"


# name: (bytes before the end, words of the error or None, body)
ENDS: dict[str, tuple[bytes, str | None, bytes]] = {
    "at once": (b"", "without a response", b""),
    "in the status line": (b"HTTP/1.", "in the middle of a response head", b""),
    "in a header": (OK + b"Content-Le", "in the middle of a response head", b""),
    "after an interim head": (b"HTTP/1.1 100 Continue\r\n\r\n", "in the middle of a response head", b""),
    "before a sized body": (LENGTH_3, "in the middle of a response body", b""),
    "in a sized body": (LENGTH_3 + b"ab", "in the middle of a response body", b"ab"),
    "in a chunk": (CHUNKED + b"3\r\nab", "in the middle of a response body", b"ab"),
    "without the last chunk": (CHUNKED + b"3\r\nabc\r\n", "in the middle of a response body", b"abc"),
    "in the last chunk": (CHUNKED + b"3\r\nabc\r\n0\r\n", "in the middle of a response body", b"abc"),
    "of a body that the end ends": (OK + b"\r\nabc", None, b"abc"),
    "of an empty body that the end ends": (b"HTTP/1.0 200 OK\r\n\r\n", None, b""),
    "after a whole response": (LENGTH_3 + b"abc", None, b"abc"),
}


@pytest.mark.parametrize("name", ENDS)
def test_the_connection_ends(name: str) -> None:
    data, words, body = ENDS[name]
    parser, got = parse(*([data] if data else []))
    parser.end_of_input()
    assert got == body
    if words is None:
        assert (parser.complete, parser.error) == (True, None)
    else:
        assert isinstance(parser.error, httpx.RemoteProtocolError)
        assert words in str(parser.error)
    assert parser.reusable is (name == "after a whole response")


LIMITS = TransportLimits(head_bytes=1000, headers=20)


# name: a read that, repeated, never comes to an end
ENDLESS = {
    "header value": (OK + b"A: ", b"x" * 100),
    "headers": (OK, b"A: 1\r\n"),
    "interim heads": (b"", b"HTTP/1.1 103 Early\r\n\r\n"),
    "reason phrase": (b"HTTP/1.1 200 ", b"x" * 100),
    "empty lines": (b"", b"\r\n" * 50),
    "trailers": (CHUNKED + b"0\r\n", b"A: 1\r\n"),
    "trailer value": (CHUNKED + b"0\r\nA: ", b"x" * 100),
    "chunk extension": (CHUNKED + b"3;", b"x" * 100),
    "leading zeros of a chunk size": (CHUNKED, b"0" * 10),
}


@pytest.mark.parametrize("name", ENDLESS)
def test_endless(name: str) -> None:
    first, then = ENDLESS[name]
    parser, _ = parse(*([first] if first else []), *[then] * 200, limits=LIMITS)
    assert isinstance(parser.error, httpx.RemoteProtocolError)


@pytest.mark.parametrize("head", [b"A: " + b"x" * 1000 + b"\r\n", b"A: 1\r\n" * 21], ids=["bytes", "number"])
def test_limits_hold_within_one_read(head: bytes) -> None:
    parser, _ = parse(OK + head + b"Content-Length: 0\r\n\r\n", limits=LIMITS)
    assert isinstance(parser.error, httpx.RemoteProtocolError)
    assert "too long" in str(parser.error)


def test_limits_are_of_heads_and_not_of_bodies() -> None:
    chunks = [b"1;" + b"x" * 900 + b"\r\na\r\n"] * 10
    parser, body = parse(CHUNKED, *chunks, b"0\r\n\r\n", limits=LIMITS)
    assert (body, parser.complete) == (b"a" * 10, True)
    parser, body = parse(OK + b"A: 1\r\n" * 19 + b"Content-Length: 5000\r\n\r\n" + b"x" * 5000, limits=LIMITS)
    assert (len(body), parser.complete) == (5000, True)


def test_discard_leaves_nothing_to_the_collector() -> None:
    import gc
    import weakref

    class Watched(ResponseParser):
        """ResponseParser's slots leave no room for weak references."""

    gc.disable()
    try:
        parser = Watched(TransportLimits())
        parser.feed(LENGTH_3 + b"abc")
        parser.discard()
        watch = weakref.ref(parser)
        del parser
        assert watch() is None
    finally:
        gc.enable()
