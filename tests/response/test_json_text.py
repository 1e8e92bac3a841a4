"""JSON as servers write it, and as every client can read it."""

from __future__ import annotations

import json
import math

import pytest

from svir_proxy.response.json_text import dumps, has_surrogates, load_at, loads, safe_integer, whole_characters

DEEP = 100_000

READ = {
    "JSON": (b'{"a": [1, null]}', {"a": [1, None]}),
    "a lone surrogate": (rb'"a\ud83d"', "a\ud83d"),
    "a pair": (rb'"\ud83c\udf0a"', "🌊"),
    "raw control characters": (b'"a\tb\nc"', "a\tb\nc"),
    "broken UTF-8": (b'"a\xff"', "a\ufffd"),
    "numbers that are none": (b"[Infinity, -Infinity]", [math.inf, -math.inf]),
    "numbers beyond 64 bits": (b"[123456789012345678901234567890]", [1.2345678901234568e29]),
}

UNREADABLE = {
    "nothing": b"",
    "half a value": b'{"a": ',
    "two values": b"{} {}",
    "nested without end": b"[" * DEEP,
    "digits without end": b"\x01" + b"9" * 5000,
}

WRITTEN = {
    "plain": ({"a": [1, "ž"]}, '{"a":[1,"ž"]}'),
    "a lone surrogate": ("a\ud83d", '"a\ufffd"'),
    "a pair in two halves": ("\ud83c\udf0a", '"🌊"'),
    "a lone surrogate in a key": ({"\udf0a": 1}, '{"\ufffd":1}'),
    "no numbers": ([math.inf, math.nan, {"a": -math.inf}], "[null,null,{" + '"a":null}]'),
    "no number beside a surrogate": ([math.nan, "\ud83d", [{"a": math.inf}]], '[null,"\ufffd",[{"a":null}]]'),
    "a number beyond 64 bits": ([1 << 70], f"[{1 << 70}]"),
    "a line end": ("a\nb", '"a\\nb"'),
    "deeper than the fast way goes": (json.loads("[" * 300 + "]" * 300), "[" * 300 + "]" * 300),
}

CHARACTERS = {
    "plain": ("až🌊", "až🌊"),
    "a pair": ("\ud83c\udf0a", "🌊"),
    "halves the wrong way round": ("\udf0a\ud83c", "\ufffd\ufffd"),
    "two first halves": ("\ud83c\ud83c\udf0a", "\ufffd🌊"),
    "a byte order mark is text": ("\ufeffa\ud83d", "\ufeffa\ufffd"),
}

INTEGERS = [
    (0, 0),
    (7, 7),
    (7.0, 7),
    ((1 << 53) - 1, (1 << 53) - 1),
    *((value, None) for value in (None, True, -1, -1.0, 0.5, math.nan, math.inf, 1 << 53, 1e300, "7", [], {})),
]


@pytest.mark.parametrize(("data", "expected"), READ.values(), ids=READ)
def test_loads(data, expected):
    assert loads(data) == expected


@pytest.mark.parametrize("data", UNREADABLE.values(), ids=UNREADABLE)
def test_loads_raises_one_error(data):
    with pytest.raises(ValueError, match=r"."):
        loads(data)


def test_load_at():
    assert load_at('x{"a":"\t"}y', 1) == ({"a": "\t"}, 10)
    for text in ("x", "x{", "x" + "[" * DEEP):
        with pytest.raises(ValueError, match=r"."):
            load_at(text, 1)


@pytest.mark.parametrize(("value", "expected"), WRITTEN.values(), ids=WRITTEN)
def test_dumps(value, expected):
    assert dumps(value).decode() == expected


def test_dumps_raises_for_what_nobody_could_read():
    value = []
    for _ in range(DEEP):
        value = [value]
    with pytest.raises(ValueError, match="deep"):
        dumps(value)


@pytest.mark.parametrize(("text", "expected"), CHARACTERS.values(), ids=CHARACTERS)
def test_whole_characters(text, expected):
    assert whole_characters(text) == expected
    assert has_surrogates(text) is (text != expected)
    assert not has_surrogates(expected)


@pytest.mark.parametrize(("value", "expected"), INTEGERS, ids=repr)
def test_safe_integer(value, expected):
    result = safe_integer(value)
    assert result == expected
    assert type(result) is type(expected)
