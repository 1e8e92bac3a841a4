"""The model of a JSON object, however it is written and cut, and what is no object that all read alike."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from svir_proxy.errors import ProxyError
from svir_proxy.request.model_field import ModelInJson
from tests.request.model_field.support import NEW, all_cuts, read, replaced, said

FOUND: Final = {
    b'{"model":"m"}': "m",
    b' {\n "input" : [ "a", {"model": "inner"} ] , "model" : "m" } \r\n': "m",
    b'{"model":"a\\"b\\\\","x":"\\\\\\\\"}': 'a"b\\',
    b'{"\\u006do\\u0064el":"\\u00e9\xc3\xa9"}': "éé",
    b'{"x":{"y":"}"},"z":[[],[{}],"]"],"model":"m","stream":true}': "m",
    b'{"a":1,"b":-1.5e+3,"c":null,"d":false,"model":"m","e":0}': "m",
    b'{"Model":"no","model ":"no","":"no","mode":"no","model":"m"}': "m",
    b'{"model":""}': "",
    b'{"x":"\\ud83d","model":"m"}': "m",
    b'{"' + b"k" * 200 + b'":1,"model":"m"}': "m",
}
NONE: Final = [b"{}", b'{"model":null}', b' { "model" : null , "x":1}', b'{"x":{"model":"m"}}', b'{"x":"model"}']

REFUSED: Final = {
    b"": "invalid_json None: The request body is not valid JSON: it is empty",
    b" \n": "it is empty",
    b"[]": "invalid_json None: The request body must be a JSON object.",
    b'"model"': "must be a JSON object",
    b'\xef\xbb\xbf{"model":"m"}': "must be a JSON object",
    b'{"model":"m"': "it breaks off",
    b'{"model":"m': "it breaks off",
    b'{"x":[1,2}': "it breaks off",
    b'{"model":nul': "it breaks off",
    b'{"model":1}': "invalid_request model: 'model' must be a string, not a number.",
    b'{"model":true ,"x":1}': "must be a string, not a boolean.",
    b'{"model":{"id":"m"}}': "must be a string, not an object.",
    b'{"model":["m"]}': "must be a string, not a list.",
    b'{"model":"m","x":1,"model":"n"}': "invalid_request model: The request has more than one 'model'",
    b'{"model":null,"model":"n"}': "more than one 'model'",
    b'{"model":"m","\\u006dodel":"n"}': "more than one 'model'",
    b'{"model":"' + b"m" * 4096 + b'"}': "invalid_request model: 'model' is longer than 4096 bytes.",
    b'{"model":"\\x"}': "an escape that is none",
    b'{"x":1,}': "'}' stands where it cannot",
    b'{,"x":1}': "',' stands where it cannot",
    b'{"x" 1}': "stands where it cannot",
    b'{"x":1 "y":2}': "stands where it cannot",
    b'{"x":1}{"model":"m"}': "'{' stands where it cannot",
    b'{"x":1}]': "']' stands where it cannot",
    # What lenient readers take: comments and other quotes, in which a model could hide.
    b'{/*"*/"model":"m"/*"*/}': "'/' stands where it cannot",
    b'{"x":[/*"*/],"model":"m"}': "'/' stands where it cannot",
    b"{'model':'m'}": "stands where it cannot",
    b'{"x":{\'"\':1},"model":"m"}': "stands where it cannot",
    b'{\x00"model":"m"}': "'\\x00' stands where it cannot",
}


@pytest.mark.parametrize(("body", "model"), FOUND.items())
def test_the_model_is_found(body: bytes, model: str) -> None:
    for cuts in all_cuts(body):
        field = read(ModelInJson(), body, *cuts)
        assert field.model == model, cuts
        assert json.loads(replaced(field, body), strict=False) == {**json.loads(body), "model": NEW}, cuts


@pytest.mark.parametrize("body", NONE)
def test_there_is_no_model(body: bytes) -> None:
    for cuts in all_cuts(body):
        field = read(ModelInJson(), body, *cuts)
        assert (field.model, field.span) == ("", None), cuts


@pytest.mark.parametrize(("body", "words"), REFUSED.items())
def test_what_is_refused(body: bytes, words: str) -> None:
    for cuts in [(), (len(body) // 2,), tuple(range(1, len(body)))]:
        with pytest.raises(ProxyError) as caught:
            read(ModelInJson(), body, *cuts)
        assert words in said(caught.value), cuts


@pytest.mark.parametrize(
    ("body", "refused"),
    [
        (b'{"model":"m","models":["n"]}', True),
        (b'{"\\u006dodel\\u0073":[],"model":"m"}', True),
        (b'{"model":"m","fallbacks":["n"]}', True),
        (
            b'{"model":"m","' + b"".join(b"\\u%04x" % letter for letter in b"context_window_fallbacks") + b'":["n"]}',
            True,
        ),
        (b'{"model":"m","x":{"models":["n"]}}', False),
        (b'{"model":"models","x":"models"}', False),
    ],
)
def test_other_models_beside_it_are_refused_where_that_is_wanted(body: bytes, *, refused: bool) -> None:
    for cuts in all_cuts(body):
        read(ModelInJson(), body, *cuts)
        if not refused:
            read(ModelInJson(alone="Some only"), body, *cuts)
            continue
        with pytest.raises(ProxyError) as caught:
            read(ModelInJson(alone="Some only"), body, *cuts)
        assert said(caught.value).startswith("model_not_allowed ")
        assert ": Some only, and so '" in said(caught.value)


@pytest.mark.parametrize("value", [b"[]", b"{},", b"[[]],"])
def test_there_are_not_millions_of_values(value: bytes) -> None:
    body = b'{"model":"m","input":[' + value * 3_000_001
    with pytest.raises(ProxyError, match="more than 3000000 values") as caught:
        read(ModelInJson(), body, *range(0, len(body), 65536))
    assert caught.value.kind == "request_too_large"


VALUES: Final = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


@given(
    before=st.dictionaries(st.text().filter(lambda key: key != "model"), VALUES, max_size=4),
    model=st.text(max_size=30),
    after=st.dictionaries(st.text().map(lambda key: f"z{key}"), VALUES, max_size=4),
    indent=st.sampled_from([None, 0, 2]),
    ascii_only=st.booleans(),
    data=st.data(),
)
def test_whatever_stands_around_it(
    before: dict[str, Any], model: str, after: dict[str, Any], *, indent: int | None, ascii_only: bool, data: Any
) -> None:
    value = {**before, "model": model, **after}
    body = json.dumps(value, indent=indent, ensure_ascii=ascii_only).encode()
    cuts = data.draw(st.lists(st.integers(0, len(body)), max_size=6))
    field = read(ModelInJson(), body, *cuts)
    assert field.model == model
    assert json.loads(replaced(field, body)) == {**value, "model": NEW}
