from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from svir_proxy.response.stages.text_calls.literals import GEMMA, JSON, PYTHON, quoted, read_object, read_value
from svir_proxy.response.stages.text_calls.reader import Reader, Rejected


def value_of(text, syntax, size, part=read_value):
    """The JSON text of the value *text* begins with, and what was left; Rejected where it begins with none."""
    reader = Reader()
    reading = part(reader, syntax)
    pieces = [text[at : at + size] for at in range(0, len(text), size)]
    try:
        next(reading)
        for at, piece in enumerate(pieces):
            reader.feed(piece)
            rest = "".join(pieces[at + 1 :])
            next(reading)
        reader.ended, rest = True, ""
        next(reading)
    except StopIteration as done:
        return done.value, reader.text[reader.at :] + rest
    except Rejected:
        return Rejected
    raise AssertionError("it waits behind the end")


def read(text, syntax, part=read_value):
    whole = value_of(text, syntax, len(text) or 1, part)
    for size in (1, 2, 5):
        assert value_of(text, syntax, size, part) == whole
    return whole


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(JSON_VALUES, st.booleans(), st.sampled_from([None, 1]))
def test_json_is_kept_to_the_byte(value, ascii_only, indent):
    text = json.dumps(value, ensure_ascii=ascii_only, indent=indent)
    assert read(f"{text} ;", JSON) in {(text, " ;"), (f"{text} ", ";")}


@given(st.text('{}[]",:\\u0ntfse1-. ', max_size=20))
def test_what_is_read_is_json(text):
    result = read(text, JSON)
    if result is not Rejected:
        json.loads(result[0])


@given(JSON_VALUES)
def test_python_literals(value):
    result = read(f"{value!r};", PYTHON)
    assert result is not Rejected
    assert (json.loads(result[0]), result[1]) == (value, ";")


READ = {
    "raw control characters": (JSON, '"a\n\tb\x00"', '"a\\u000a\\u0009b\\u0000"'),
    "half characters stay escapes": (JSON, r'"\ud83d"', r'"\ud83d"'),
    "numbers as written": (JSON, "[-0, 1.50, 1E+2]", "[-0, 1.50, 1E+2]"),
    "python's words": (PYTHON, "[True, False, None, true]", "[true, false, null, true]"),
    "python's escapes": (PYTHON, r"'\'\"\\\n\x41\u00e9\d\0'", '"\'\\"\\\\\\nA\u00e9\\\\d\\u0000"'),
    "python's half characters": (PYTHON, r"'\ud83d\ude00é'", '"\\ud83d\\ude00é"'),
    "python's strings over lines": (PYTHON, "'a\nb\\\nc'", '"a\\nbc"'),
    "gemma's strings": (GEMMA, '<|"|>a"\\\n<|"|>', '"a\\"\\\\\\n"'),
    "gemma's keys": (GEMMA, '{a b:1,<|"|>c:<|"|>:{d:[]}, "e" : 2}', '{"a b":1,"c:":{"d":[]}, "e" : 2}'),
    "empty": (JSON, "[{}, [ ], { }]", "[{}, [ ], { }]"),
}


@pytest.mark.parametrize("name", READ)
def test_value(name):
    syntax, text, result = READ[name]
    assert read(f"{text}]", syntax) == (result, "]")
    json.loads(result)


REJECTED = {
    "nothing": (JSON, ""),
    "word": (JSON, "yes"),
    "python's word": (JSON, "True"),
    "leading zero": (JSON, "[01]"),
    "no fraction": (JSON, "[1.]"),
    "not a number": (JSON, "[NaN]"),
    "trailing comma": (JSON, "[1,]"),
    "comma first": (JSON, "[,1]"),
    "no comma": (JSON, "[1 2]"),
    "wrong bracket": (JSON, "[1}"),
    "bare key": (JSON, "{a: 1}"),
    "no colon": (JSON, '{"a" 1}'),
    "single quotes": (JSON, "{'a': 1}"),
    "unknown escape": (JSON, r'"\d"'),
    "short escape": (JSON, r'"\u00g0"'),
    "string not closed": (JSON, '"a'),
    "escape not closed": (JSON, '"\\'),
    "too deep": (JSON, "[" * 129 + "]" * 129),
    "python's number as a key": (PYTHON, "{1: 2}"),
    "python's short escape": (PYTHON, r"'\x4'"),
    "gemma's empty key": (GEMMA, "{:1}"),
    "gemma's bare word": (GEMMA, "{a:b}"),
    "gemma's string not closed": (GEMMA, '<|"|>a<|"|'),
}


@pytest.mark.parametrize("name", REJECTED)
def test_no_value(name):
    syntax, text = REJECTED[name]
    assert read(text, syntax) is Rejected


def test_deep_enough():
    text = "[" * 128 + "]" * 128
    assert read(text, JSON) == (text, "")


def test_object():
    assert read(' {"a": 1}', JSON, read_object) == ('{"a": 1}', "")
    assert read(" [1]", JSON, read_object) is Rejected


@given(st.text() | st.text(st.characters(categories=("Cs", "Ll"))))
def test_quoted_can_be_encoded(text):
    assert json.loads(quoted(text).encode()) == json.loads(json.dumps(text))
