from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from svir_proxy.response.stages.text_calls.reader import Reader, Rejected

WORD = re.compile(r"\w*")


def run(grammar, pieces):
    """What *grammar* returns, or Rejected; what it held, and what it left."""
    reader = Reader()
    reader.hold()
    reading = grammar(reader)
    feed = [*pieces, None]
    try:
        while True:
            next(reading)
            piece = feed.pop(0)
            if piece is None:
                reader.ended = True
            else:
                reader.feed(piece)
    except StopIteration as done:
        result = done.value
    except Rejected:
        result = Rejected
    rest = reader.text[reader.at :] + "".join(piece for piece in feed if piece)
    assert len(reader.held()) == reader.held_size
    return result, reader.held(), rest


PARTS = {
    "one of, longest": (lambda r: r.one_of("a", "ab", "abcd"), "abc", "ab", "ab", "c"),
    "one of, none": (lambda r: r.one_of("ab"), "ac", "", "", "ac"),
    "one of, at the end": (lambda r: r.one_of("ab"), "a", "", "", "a"),
    "one of nothing": (lambda r: r.one_of(), "a", "", "", "a"),
    "expect": (lambda r: r.expect("ab"), "abc", "ab", "ab", "c"),
    "expect, none": (lambda r: r.expect("ab"), "ac", Rejected, "", "ac"),
    "peek": (lambda r: r.peek(), "ab", "a", "", "ab"),
    "peek at the end": (lambda r: r.peek(), "", "", "", ""),
    "run": (lambda r: r.run(WORD), "abc d", "abc", "abc", " d"),
    "run to the end": (lambda r: r.run(WORD), "abc", "abc", "abc", ""),
    "run of nothing": (lambda r: r.run(WORD), "-", "", "", "-"),
    "spaces": (lambda r: r.spaces(), " \n\t\r\xa0", " \n\t\r", " \n\t\r", "\xa0"),
    "until": (lambda r: r.until("</a>", "\n<b"), "x</a </a>y", ("x</a ", "</a>"), "x</a </a>", "y"),
    "until, the other": (lambda r: r.until("</a>", "\n<b"), "x\n\n<b>", ("x\n", "\n<b"), "x\n\n<b", ">"),
    "until, none": (lambda r: r.until("</a>"), "x</a", Rejected, "x</a", ""),
    "end": (lambda r: r.end(), " \n", None, " \n", ""),
    "end, not yet": (lambda r: r.end(), " x", Rejected, " ", "x"),
}


@pytest.mark.parametrize("name", PARTS)
def test_part(name):
    part, text, result, held, rest = PARTS[name]
    for pieces in ([text], list(text)):
        assert run(part, pieces) == (result, held, rest)


def test_hold_forgets():
    reader = Reader()
    reader.feed("ab")
    reader.at = 1
    reader.feed("c")
    reader.at = 1
    assert reader.held() == "ab"
    reader.hold()
    assert (reader.held(), reader.held_size) == ("", 0)
    reader.at = 2
    assert reader.held() == "c"


def grammar(reader):
    name = yield from reader.expect("a", "ab", "b")
    space = yield from reader.spaces()
    text, end = yield from reader.until("ba", "aab")
    word = yield from reader.run(WORD)
    mark = yield from reader.one_of(" ", " a")
    return name, space, text, end, word, mark


@given(st.text("ab ", max_size=30), st.data())
def test_what_is_read_does_not_depend_on_the_cut(text, data):
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=6)))
    pieces = [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    whole = run(grammar, [text])
    assert whole[1] + whole[2] == text
    assert run(grammar, pieces) == whole
