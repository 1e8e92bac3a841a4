from __future__ import annotations

import pytest

from tests.support.text_calls import read

BAR = "\uff5c"


def qwen(value: str, key: str = "text") -> str:
    return f"<tool_call>\n<function=write>\n<parameter={key}>\n{value}\n</parameter>\n</function>\n</tool_call>"


def dsml(text: str, bars: str = BAR) -> str:
    return text.replace("DSML", f"{bars}DSML{bars}")


TWO_DSML = (
    '<DSMLtool_calls>\n<DSMLinvoke name="write">\n<DSMLparameter name="path" string="true">7</DSMLparameter>\n'
    '<DSMLparameter name="any" string="false">[1, 2]</DSMLparameter>\n'
    '<DSMLparameter name="odd" string="false">a b</DSMLparameter>\n</DSMLinvoke>\n'
    '<DSMLinvoke name="get_tide_table">\n</DSMLinvoke>\n<DSMLinvoke name="get_tide_table"/>\n</DSMLtool_calls>'
)
TWO_DSML_CALLS = [("write", {"path": "7", "any": [1, 2], "odd": "a b"}), ("get_tide_table", {}), ("get_tide_table", {})]

CALLS = {
    "qwen": (qwen("one\n  two"), [("write", {"text": "one\n  two"})]),
    "qwen, one line feed is markup": (qwen("\n one\n"), [("write", {"text": "\n one\n"})]),
    "qwen, without line feeds": (
        "<tool_call><function=write><parameter=path>a</parameter><parameter=force>True</parameter></function></tool_call>",
        [("write", {"path": "a", "force": True})],
    ),
    "qwen, no parameters": ("<tool_call>\n<function=get_tide_table>\n</function>\n</tool_call>", [("get_tide_table", {})]),
    "qwen, JSON by schema": (qwen("[1, 2.50]", "lines"), [("write", {"lines": [1, 2.5]})]),
    "qwen, tags in a value": (
        qwen("say </parameter> and </function> and <parameter=x> and </tool_call>"),
        [("write", {"text": "say </parameter> and </function> and <parameter=x> and </tool_call>"})],
    ),
    "qwen, opener forgotten": (
        "<function=write>\n<parameter=path>\na\n</parameter>\n</function>\n</tool_call>",
        [("write", {"path": "a"})],
    ),
    "qwen, block not closed": (
        "<tool_call>\n<function=write>\n<parameter=path>\na\n</parameter>\n</function>\n",
        [("write", {"path": "a"})],
    ),
    "qwen, two in a block": (
        "<tool_call>\n<function=get_tide_table>\n</function>\n<function=get_tide>\n</function>\n</tool_call>",
        [("get_tide_table", {}), ("get_tide", {})],
    ),
    "qwen, closing tag forgotten before another": (
        "<tool_call>\n<function=write>\n<parameter=path>\na\n<parameter=text>\nb\n</parameter>\n</function>\n</tool_call>",
        [("write", {"path": "a", "text": "b"})],
    ),
    "qwen, closing tag forgotten at the end": (
        '<tool_call>\n<function=write>\n<parameter=options>\n{"a": 1}\n</function>\n</tool_call>',
        [("write", {"options": {"a": 1}})],
    ),
    "llama's function": ('<function=get_tide>{"harbour": "Mole"}</function>', [("get_tide", {"harbour": "Mole"})]),
    "glm": (
        ("<tool_call>write\n<arg_key>text</arg_key>\n<arg_value> a </arg_value>\n"
        "<arg_key>lines</arg_key>\n<arg_value>[1]</arg_value>\n</tool_call>"),
        [("write", {"text": " a ", "lines": [1]})],
    ),
    "glm, no arguments": ("<tool_call>get_tide_table\n</tool_call>", [("get_tide_table", {})]),
    "glm, tags in a value": (
        "<tool_call>write<arg_key>text</arg_key><arg_value>a </arg_value> b </tool_call> c</arg_value></tool_call>",
        [("write", {"text": "a </arg_value> b </tool_call> c"})],
    ),
    "minimax": (
        ('<minimax:tool_call>\n<invoke name="get_tide">\n<parameter name="harbour">Mole</parameter>\n'
        '<parameter name="days">3</parameter>\n</invoke>\n<invoke name="get_tide_table">\n</invoke>\n</minimax:tool_call>'),
        [("get_tide", {"harbour": "Mole", "days": 3}), ("get_tide_table", {})],
    ),
    "invoke without its section": ('<invoke name="get_tide"></invoke>', [("get_tide", {})]),
    "dsml": (dsml(TWO_DSML), TWO_DSML_CALLS),
    "dsml, doubled bars": (dsml(TWO_DSML, BAR * 2), TWO_DSML_CALLS),
    "dsml, ASCII bars": (dsml(TWO_DSML, "|"), TWO_DSML_CALLS),
    "dsml, spaced": (
        dsml('<DSML calls>\n<DSML invoke name="get_tide">\n</DSML invoke>\n</DSML calls>'),
        [("get_tide", {})],
    ),
    "dsml, function_calls": (
        dsml('<DSMLfunction_calls>\n<DSMLinvoke name="get_tide">\n</DSMLinvoke>\n</DSMLfunction_calls>'),
        [("get_tide", {})],
    ),
    "kimi k3": (
        ('<|open|>tools<|sep|><|open|>call tool="write" index="1"<|sep|>'
        '<|open|>argument key="path" type="string"<|sep|>7<|close|>argument<|sep|>'
        '<|open|>argument key="q&amp;a" type="number"<|sep|>7<|close|>argument<|sep|><|close|>call<|sep|>'
        '<|open|>call tool="get_tide_table" index="2"<|sep|><|close|>call<|sep|><|close|>tools<|sep|><|close|>message<|sep|>'),
        [("write", {"path": "7", "q&a": 7}), ("get_tide_table", {})],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_call(name):
    text, calls = CALLS[name]
    assert read(text) == ("", calls)


TEXTS = {
    "unlisted": "<tool_call>\n<function=get_weather>\n</function>\n</tool_call>",
    "a mention": "Write <function=NAME> and then <parameter=KEY>.",
    "a mention of a listed one": "Use <function=get_tide> for it.",
    "value unfinished": "<tool_call>\n<function=write>\n<parameter=path>\n/a",
    "end missing": "<function=write>\n<parameter=path>\n/a\n</parameter>\n",
    "something between": "<function=write>\n<parameter=path>\n/a\n</parameter>\n</function>\nlater\n</tool_call>"
    .replace("<function", "<tool_call><function", 1),
    "llama's function without end": '<function=get_tide>{"harbour": "Mole"}',
    "glm unfinished": "<tool_call>get_tide\n<arg_key>harbour</arg_key>\n<arg_value>Mole",
    "glm, unlisted": "<tool_call>get_weather\n<arg_key>harbour</arg_key>\n<arg_value>Mole</arg_value></tool_call>",
    "section without a call": "<minimax:tool_call>\n</minimax:tool_call>",
    "dsml, unlisted": dsml('<DSMLinvoke name="get_weather">\n</DSMLinvoke>'),
    "dsml, bars mixed": f'<{BAR}DSML{BAR}invoke name="get_tide"></|DSML|invoke>',
    "key over lines": "<function=write>\n<parameter=pa\nth>\n/a\n</parameter>\n</function>",
}  # fmt: skip


@pytest.mark.parametrize("name", TEXTS)
def test_text(name):
    assert read(TEXTS[name]) == (TEXTS[name], [])
