from __future__ import annotations

from svir_proxy.response.stages.text_calls.call import Tools
from tests.support.text_calls import events_of, read


def test_tools():
    tools = Tools({"a": {"type": "object"}, "": {}, 'b"': {}})
    assert tools.names == ("a", 'b"')
    assert tools.quoted == {'"a"': "a", '"b\\""': 'b"'}
    assert tools.parameters("a") == {"type": "object"}


def test_arguments_are_kept_to_the_byte():
    arguments = '{ "days":3.0,\n "harbour" : "M\\u00f6le" }'
    for text in (f'{{"name": "get_tide", "arguments": {arguments}}}', f"[TOOL_CALLS]get_tide{arguments}"):
        assert events_of([text])[1].arguments == arguments


def test_no_tools_no_calls():
    text = '<tool_call>{"name": "get_tide", "arguments": {}}</tool_call>'
    assert read(text, {}) == (text, [])


def test_the_longest_listed_name_counts():
    tools = {"get": {}, "get_tide": {}}
    assert read("[TOOL_CALLS]get_tide{}[TOOL_CALLS]get{}", tools) == ("", [("get_tide", {}), ("get", {})])
