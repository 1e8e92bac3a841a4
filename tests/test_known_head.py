"""A head is known again by its bytes alone, and only where the message is all there and nothing else is."""

from __future__ import annotations

import pytest

from svir_proxy.known_head import Headers, HeadMemory

NAMES: Headers = [(b"host", b"a"), (b"Content-Length", b"2"), (b"x-a", b"b")]
HEAD = b"POST / HTTP/1.1\r\nhost: a\r\nContent-Length: %b\r\nx-a: b\r\n\r\n"

# name: (message, its body)
UNUSUAL = {
    "no body": (HEAD % b"0", b""),
    "no length": (b"POST / HTTP/1.1\r\nhost: a\r\n\r\nab", b"ab"),
    "two lengths": (b"POST / HTTP/1.1\r\ncontent-length: 2\r\ncontent-length: 2\r\n\r\nab", b"ab"),
    "two lengths, not written alike": (
        b"POST / HTTP/1.1\r\ncontent-length: 2\r\nContent-Length : 3\r\n\r\nab",
        b"ab",
    ),
    "blanks behind the length": (HEAD % b"2 \t" + b"ab", b"ab"),
    "another length": (HEAD % b"3" + b"ab", b"ab"),
    "a length in the body": (b"POST / HTTP/1.1\r\n\r\n\r\ncontent-length: 22\r\n", b"\r\ncontent-length: 22\r\n"),
    "an interim head before it": (
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nab",
        b"ab",
    ),
    "more than the head before the body": (HEAD % b"2" + b"\r\nab", b"ab"),
    "a blank line before it": (b"\r\n\r\n" + HEAD % b"2" + b"ab", b"ab"),
    "a head too long to keep": (b"POST /%b HTTP/1.1\r\ncontent-length: 2\r\n\r\nab" % (b"a" * 5000), b"ab"),
}


def memory(message: bytes, body: bytes) -> HeadMemory[str]:
    known: HeadMemory[str] = HeadMemory()
    known.learn(message, body, NAMES, "made")
    return known


@pytest.mark.parametrize("name", UNUSUAL)
def test_what_is_not_learned(name: str) -> None:
    message, body = UNUSUAL[name]
    assert memory(message, body).read(message) is None


@pytest.mark.parametrize("length", [b"2", b"02", b"\t 2"])
def test_what_is_known_again(length: bytes) -> None:
    known = memory(HEAD % length + b"ab", b"ab")
    for body in (b"cd", b"x", b"\r\n", b"y" * 12_345):
        digits = b"%d" % len(body)
        again = HEAD % length.replace(b"02", b"2").replace(b"2", digits) + body
        found = known.read(again)
        assert found == ([NAMES[0], (b"Content-Length", digits), NAMES[2]], body, "made")
        found[0].clear()  # it is the caller's
    assert NAMES[1] == (b"Content-Length", b"2")


def test_a_length_is_told_as_it_was_written() -> None:
    found = memory(HEAD % b"2" + b"ab", b"ab").read(HEAD % b"007" + b"abcdefg")
    assert found is not None
    assert found[0][1] == (b"Content-Length", b"007")


def test_heads_that_never_come_again_are_soon_not_kept() -> None:
    known: HeadMemory[str] = HeadMemory()

    def learn(day: int) -> bytes:
        message = HEAD % b"2" + b"ab"
        message = message.replace(b"x-a: b", b"x-a: %d" % day)
        known.learn(message, b"ab", NAMES, "made")
        return message

    for day in range(3):
        learn(day)
    assert known.read(learn(3)), "whatever comes again counts from the beginning"
    messages = [learn(day) for day in range(9)]
    assert [known.read(message) is not None for message in messages] == [day == 3 for day in range(9)]


# What differs from HEAD % b"2" + b"ab", which is known.
OTHERS = {
    "nothing": b"",
    "a piece of the head": HEAD[:30],
    "a head without its body": HEAD % b"2",
    "too little of the body": HEAD % b"3" + b"ab",
    "more than the body": HEAD % b"2" + b"abc",
    "another request after it": HEAD % b"2" + b"ab" + HEAD % b"2" + b"ab",
    "no length": HEAD % b"" + b"ab",
    "an empty body": HEAD % b"0",
    "a length with a sign": HEAD % b"+2" + b"ab",
    "a length in other digits": HEAD % "²".encode("latin-1") + b"ab",
    "a length with a line break": HEAD % b"\r\n 2" + b"ab",
    "a length longer than any": HEAD % (b"0" * 20 + b"2") + b"ab",
    "another method": (HEAD % b"2" + b"ab").replace(b"POST", b"PUT "),
    "another field": (HEAD % b"2" + b"ab").replace(b"x-a: b", b"x-a: c"),
    "one more field": (HEAD % b"2" + b"ab").replace(b"x-a", b"x-b: c\r\nx-a"),
    "another case": (HEAD % b"2" + b"ab").replace(b"Content", b"content"),
    "a bare line feed": (HEAD % b"2" + b"ab").replace(b"2\r\n", b"2\n"),
}


@pytest.mark.parametrize("name", OTHERS)
def test_what_is_left_to_the_parser(name: str) -> None:
    assert memory(HEAD % b"2" + b"ab", b"ab").read(OTHERS[name]) is None
