from __future__ import annotations

import pytest

from svir_proxy.response.events import ToolCallPiece
from svir_proxy.response.stages.text_calls.call import Call
from svir_proxy.response.stages.text_calls.structured_calls import StructuredCalls

A = Call("a", '{"x": 1}')
B = Call("b", "{}")


def piece(index=None, identity="", name="", arguments="", whole=False):
    return ToolCallPiece(index, identity, name, arguments, whole)


STRUCTURED = {
    "nothing": ([], [A, B]),
    "another": ([piece(0, "1", "a", '{"x": 2}')], [A, B]),
    "other name": ([piece(0, "1", "c", '{"x": 1}')], [A, B]),
    "written otherwise": ([piece(0, "1", "a", '{\n "x":1}')], [B]),
    "in pieces": ([piece(0, "1", "a"), piece(0, arguments='{"x"'), piece(0, arguments=":1}")], [B]),
    "name repeated": ([piece(0, "1", "a", '{"x"'), piece(0, "1", "a", ":1}")], [B]),
    "name split": ([piece(0, "1", "", '{"x"'), piece(0, "1", "a", ":1}")], [B]),
    "interleaved": (
        [piece(0, "1", "a", '{"x"'), piece(1, "2", "b", "{"), piece(0, "", "", ":1}"), piece(1, arguments="}")],
        [],
    ),
    "without index": (
        [piece(identity="1", name="a", arguments='{"x"'), piece(arguments=":1}"), piece(identity="2", name="b")],
        [],
    ),
    "whole, without anything": ([piece(None, "", "a", '{"x":1}', True), piece(None, "", "b", "{}", True)], []),
    "index 0 for all": ([piece(0, "1", "a", '{"x":1}'), piece(0, "2", "b", "{}")], []),
    "no JSON": ([piece(0, "1", "a", '{"x"')], [A, B]),
    "true is not 1": ([piece(0, "1", "a", '{"x": true}')], [A, B]),
    "nested too deeply": ([piece(0, "1", "a", "[" * 100_000)], [A, B]),
}


@pytest.mark.parametrize("name", STRUCTURED)
def test_strangers(name):
    pieces, strangers = STRUCTURED[name]
    structured = StructuredCalls(1 << 20)
    for one in pieces:
        structured.add(one)
    assert structured.strangers([A, B]) == strangers


def test_memory_is_bounded():
    structured = StructuredCalls(8)
    structured.add(piece(0, "1", "a", '{"x": 1}'))
    structured.add(piece(1, "2", "b", "{}"))
    assert structured.strangers([A, B]) == [B]
