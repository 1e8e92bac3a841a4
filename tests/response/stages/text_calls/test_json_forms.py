from __future__ import annotations

import pytest

from tests.support.text_calls import read

TIDE = ("get_tide", {"harbour": "Mole"})
TABLE = ("get_tide_table", {})

CALLS = {
    "hermes": ('<tool_call>\n{"name": "get_tide", "arguments": {"harbour": "Mole"}}\n</tool_call>', [TIDE]),
    "hermes on one line": ('<tool_call>{"name":"get_tide","arguments":{"harbour":"Mole"}}</tool_call>', [TIDE]),
    "arguments as a string": (
        '<tool_call>{"name": "get_tide", "arguments": "{\\"harbour\\": \\"Mole\\"}"}</tool_call>',
        [TIDE],
    ),
    "parameters": ('<tool_call>{"name": "get_tide", "parameters": {"harbour": "Mole"}}</tool_call>', [TIDE]),
    "arguments before the name": (
        '<tool_call>{"arguments": {"harbour": "Mole"}, "name": "get_tide"}</tool_call>',
        [TIDE],
    ),
    "call inside tool_call": (
        '<tool_call>{"tool_call": {"name": "get_tide", "arguments": {"harbour": "Mole"}}}</tool_call>',
        [TIDE],
    ),
    "call in OpenAI's shape": (
        (
            '<tool_call>{"id": "1", "type": "function", "function":'
            ' {"name": "get_tide", "arguments": "{\\"harbour\\":\\"Mole\\"}"}}</tool_call>'
        ),
        [TIDE],
    ),
    "several in one block": (
        '<tool_call>\n{"name": "get_tide", "arguments": {"harbour": "Mole"}}\n{"name": "get_tide_table"}\n</tool_call>',
        [TIDE, TABLE],
    ),
    "an array in a block": (
        '<tool_call>[{"name": "get_tide", "arguments": {"harbour": "Mole"}}, {"name": "get_tide_table"}]</tool_call>',
        [TIDE, TABLE],
    ),
    "no arguments": ('<tool_call>{"name": "get_tide_table"}</tool_call>', [TABLE]),
    "null arguments": ('<tool_call>{"name": "get_tide_table", "arguments": null}</tool_call>', [TABLE]),
    "empty arguments": ('<tool_call>{"name": "get_tide_table", "arguments": ""}</tool_call>', [TABLE]),
    "closing tag missing at the end": ('<tool_call>\n{"name": "get_tide", "arguments": {"harbour": "Mole"}}\n', [TIDE]),
    "closing tag in a string": (
        '<tool_call>{"name": "get_tide", "arguments": {"harbour": "</tool_call>"}}</tool_call>',
        [("get_tide", {"harbour": "</tool_call>"})],
    ),
    "mistral's array": ('[TOOL_CALLS] [{"name": "get_tide", "arguments": {"harbour": "Mole"}, "id": "a1"}]', [TIDE]),
    "mistral's name": ('[TOOL_CALLS]get_tide{"harbour": "Mole"}', [TIDE]),
    "mistral's args tag": ('[TOOL_CALLS]get_tide[ARGS]{"harbour": "Mole"}', [TIDE]),
    "mistral's call id": ('[TOOL_CALLS]get_tide[CALL_ID]Ab3[ARGS]{"harbour": "Mole"}', [TIDE]),
    "mistral, two": (
        '[TOOL_CALLS]get_tide[ARGS]{"harbour": "Mole"}[TOOL_CALLS]get_tide_table[ARGS]{}</s>',
        [TIDE, TABLE],
    ),
    "python tag": ('<|python_tag|>{"name": "get_tide", "parameters": {"harbour": "Mole"}}', [TIDE]),
    "python tag, two": (
        (
            '<|python_tag|>{"name": "get_tide", "parameters": {"harbour": "Mole"}}; '
            '{"type": "function", "name": "get_tide_table", "parameters": {}}<|eom_id|>'
        ),
        [TIDE, TABLE],
    ),
    "phi": ('<|tool_call|>[{"name": "get_tide", "arguments": {"harbour": "Mole"}}]<|/tool_call|>', [TIDE]),
    "functools": ('functools[{"name": "get_tide", "arguments": {"harbour": "Mole"}}]', [TIDE]),
    "bare": ('{"name": "get_tide", "parameters": {"harbour": "Mole"}}', [TIDE]),
    "bare, two": (
        '{"name": "get_tide", "arguments": {"harbour": "Mole"}}\n{"name": "get_tide_table", "arguments": {}}\n',
        [TIDE, TABLE],
    ),
    "bare array": ('[{"name": "get_tide", "arguments": {"harbour": "Mole"}}]', [TIDE]),
    "fenced": ('```json\n{"name": "get_tide", "arguments": {"harbour": "Mole"}}\n```\n', [TIDE]),
    "fenced, two": (
        '```\n[{"name": "get_tide", "arguments": {"harbour": "Mole"}}]\n{"name": "get_tide_table", "parameters": {}}```',
        [TIDE, TABLE],
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_call(name):
    text, calls = CALLS[name]
    assert read(text) == ("", calls)


TEXTS = {
    "unlisted": '<tool_call>{"name": "get_weather", "arguments": {}}</tool_call>',
    "a listed name that goes on": '<tool_call>{"name": "get_tide_tables", "arguments": {}}</tool_call>',
    "mistral, unlisted": '[TOOL_CALLS]get_tides[ARGS]{"harbour": "Mole"}',
    "name without quotes": 'Let me see. <tool_call>\n{"name": get_tide}\n</tool_call>',
    "no name": '<tool_call>{"arguments": {}}</tool_call>',
    "another key": '<tool_call>{"name": "get_tide", "arguments": {}, "note": 1}</tool_call>',
    "arguments no object": '<tool_call>{"name": "get_tide", "arguments": [1]}</tool_call>',
    "arguments a string of no JSON": '<tool_call>{"name": "get_tide", "arguments": "{\\"days\\": NaN}"}</tool_call>',
    "arguments a number": '<tool_call>{"name": "get_tide", "arguments": 7}</tool_call>',
    "arguments a string of an array": '<tool_call>{"name": "get_tide", "arguments": "[1]"}</tool_call>',
    "arguments a string of no object": '<tool_call>{"name": "get_tide", "arguments": "Mole"}</tool_call>',
    "arguments a string of half characters": '<tool_call>{"name": "get_tide", "arguments": "{\\"a\\":\\"\\ud800\\"}"}</tool_call>',
    "broken JSON": '<tool_call>{"name": "get_tide", "arguments": {"harbour": "Mole"}</tool_call>',
    "unfinished": '<tool_call>\n{"name": "get_tide", "arguments',
    "brace missing": '<tool_call>{"name": "get_tide", "arguments": {"harbour": "Mole"}',
    "something else in the block": "<tool_call>later</tool_call>",
    "something after the object": '<tool_call>{"name": "get_tide_table"} or so</tool_call>',
    "nothing": "<tool_call></tool_call>",
    "call in a call in a call": '<tool_call>{"function": {"function": {"name": "get_tide"}}}</tool_call>',
    "phi without array": '<|tool_call|>{"name": "get_tide"}',
    "bare without arguments": '{"name": "get_tide"}',
    "bare with another key": '{"name": "get_tide", "arguments": {}, "why": "tides"}',
    "bare and a word": '{"name": "get_tide", "arguments": {}} Done.',
    "a word and bare": 'Call: {"name": "get_tide", "arguments": {}}',
    "bare of a person": '{"name": "Ada", "arguments": {"for": "x"}}',
    "bare array of others": '[{"name": "Ada"}, 2]',
    "fenced and a word": '```json\n{"name": "get_tide", "arguments": {}}\n```\nThat is how.',
    "fence left open": '```json\n{"name": "get_tide", "arguments": {}}\n',
    "fenced something": "```\nls\n```",
    "functools later": 'Then functools[{"name": "get_tide", "arguments": {}}]',
}


@pytest.mark.parametrize("name", TEXTS)
def test_text(name):
    assert read(TEXTS[name]) == (TEXTS[name], [])
