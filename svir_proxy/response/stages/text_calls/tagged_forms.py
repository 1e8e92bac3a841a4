"""Calls whose arguments stand one by one between tags: Qwen3-Coder, GLM 4.5, MiniMax M2, Kimi K3, DeepSeek's DSML.

A value is plain text and may itself speak of the tags (a file about tool calls), so a closing tag ends a value only
where the next parameter or the end of the call follows.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from html import unescape
from io import StringIO
from typing import Any, Final

from svir_proxy.response.stages.text_calls.call import Call, Tools, read_name
from svir_proxy.response.stages.text_calls.literals import JSON, quoted, read_object
from svir_proxy.response.stages.text_calls.reader import Parse, Reader
from svir_proxy.response.stages.text_calls.typed_values import json_of_text, json_or_string

_KEY: Final = re.compile(r'[^<>"\r\n]*')
_ATTRIBUTES: Final = re.compile(r"[^<>]*")


@dataclass(frozen=True, slots=True)
class Tags:
    """The tags of one form.

    Attributes:
        parameter: What stands before a parameter's key.
        key_end: What stands behind it.
        value: What stands before the value, after white space or attributes.
        value_end: What stands behind the value.
        end: What ends the arguments.
        breaks: What ends a value whose own closing tag was forgotten.
        padded: One line feed before and one behind the value are markup.
        escaped_keys: Keys are written as in HTML.
    """

    parameter: str
    key_end: str
    value: str
    value_end: str
    end: str
    breaks: tuple[str, ...] = ()
    padded: bool = False
    escaped_keys: bool = False


_QWEN_LOST_END: Final = "\n</function>\n</tool_call>"
_QWEN: Final = Tags(
    "<parameter=", ">", "", "</parameter>", "</function>", breaks=("\n<parameter=", _QWEN_LOST_END), padded=True
)
_KIMI: Final = Tags(
    '<|open|>argument key="', '"', "<|sep|>", "<|close|>argument<|sep|>", "<|close|>call<|sep|>", escaped_keys=True
)
_GLM: Final = Tags("<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>", "</tool_call>")


def read_qwen_function(reader: Reader, tools: Tools) -> Parse[list[Call]]:
    """``<function=NAME><parameter=KEY>VALUE</parameter></function>`` or Llama's ``<function=NAME>{..}</function>``."""
    call, _ = yield from _read_function(reader, tools)
    return [call]


def read_qwen_functions(reader: Reader, tools: Tools) -> Parse[list[Call]]:
    """The same inside ``<tool_call>..</tool_call>``, several too; the end of the answer also closes the block."""
    calls = []
    while True:
        call, closed = yield from _read_function(reader, tools)
        calls.append(call)
        yield from reader.spaces()
        if closed or (yield from reader.peek()) == "":
            return calls
        if (yield from reader.expect("</tool_call>", "<function=")) == "</tool_call>":
            return calls


def _read_function(reader: Reader, tools: Tools) -> Parse[tuple[Call, bool]]:
    """One function, and whether the block around it was closed with it."""
    name = yield from read_name(reader, tools)
    yield from reader.expect(">")
    yield from reader.spaces()
    if (yield from reader.peek()) == "{":
        arguments = yield from read_object(reader, JSON)
        yield from reader.spaces()
        yield from reader.expect("</function>")
        return Call(name, arguments), False
    arguments, end = yield from _read_arguments(reader, _QWEN, tools.parameters(name))
    return Call(name, arguments), end == _QWEN_LOST_END


def read_glm_call(reader: Reader, tools: Tools, name: str) -> Parse[list[Call]]:
    """``<tool_call>NAME<arg_key>KEY</arg_key><arg_value>VALUE</arg_value></tool_call>`` from behind the name on."""
    arguments, _ = yield from _read_arguments(reader, _GLM, tools.parameters(name))
    return [Call(name, arguments)]


def read_invoke(reader: Reader, tools: Tools, opening: str = "<", closing: str = "</") -> Parse[list[Call]]:
    """``<invoke name="NAME"><parameter name="KEY">VALUE</parameter></invoke>`` from the name on.

    DSML writes the same with its own *opening* and *closing*, and says by ``string="false"`` that a value is JSON.
    """
    name = yield from read_name(reader, tools)
    yield from reader.expect('"')
    if (yield from reader.expect(">", "/>")) == "/>":
        return [Call(name, "{}")]
    tags = Tags(f'{opening}parameter name="', '"', ">", f"{closing}parameter>", f"{closing}invoke>")
    arguments, _ = yield from _read_arguments(reader, tags, tools.parameters(name))
    return [Call(name, arguments)]


def read_invoke_section(reader: Reader, tools: Tools) -> Parse[list[Call]]:
    """The first ``invoke`` behind the tag that opens a section of them; the others are found by themselves."""
    yield from reader.spaces()
    yield from reader.expect('<invoke name="')
    return (yield from read_invoke(reader, tools))


def read_dsml(reader: Reader, tools: Tools, bars: str) -> Parse[list[Call]]:
    """DeepSeek's ``<|DSML|invoke name="NAME">..`` from behind the prefix on, with or without the section's tag."""
    space = yield from reader.one_of(" ")
    opening = f"<{bars}DSML{bars}{space}"
    invoke = 'invoke name="'
    if (yield from reader.expect(invoke, "tool_calls>", "function_calls>", "calls>")) != invoke:
        yield from reader.spaces()
        yield from reader.expect(opening + invoke)
    return (yield from read_invoke(reader, tools, opening, f"</{bars}DSML{bars}{space}"))


def read_kimi_tag(reader: Reader, tools: Tools) -> Parse[list[Call]]:
    """Kimi K3's ``<|open|>call tool="NAME" index="1"<|sep|>..`` from the name on, to ``<|close|>call<|sep|>``."""
    name = yield from read_name(reader, tools)
    yield from reader.expect('"')
    yield from reader.run(_ATTRIBUTES)
    yield from reader.expect("<|sep|>")
    arguments, _ = yield from _read_arguments(reader, _KIMI, tools.parameters(name))
    return [Call(name, arguments)]


def read_kimi_tags(reader: Reader, tools: Tools) -> Parse[list[Call]]:
    """The first call behind ``<|open|>tools<|sep|>``; the others are found by themselves."""
    yield from reader.spaces()
    yield from reader.expect('<|open|>call tool="')
    return (yield from read_kimi_tag(reader, tools))


def _read_arguments(reader: Reader, tags: Tags, schema: Mapping[str, Any]) -> Parse[tuple[str, str]]:
    """The arguments as JSON, and what ended them."""
    arguments: dict[str, str] = {}
    yield from reader.spaces()
    tag = yield from reader.expect(tags.parameter, tags.end)
    while tag == tags.parameter:
        key = (yield from reader.run(_KEY)).strip()
        yield from reader.expect(tags.key_end)
        attributes = ""
        if tags.value:
            attributes = yield from reader.run(_ATTRIBUTES)
            yield from reader.expect(tags.value)
        text, tag = yield from _read_text(reader, tags)
        arguments[unescape(key) if tags.escaped_keys else key] = _json(text, attributes, schema, key)
    return "{" + ", ".join(f"{quoted(key)}: {value}" for key, value in arguments.items()) + "}", tag


def _read_text(reader: Reader, tags: Tags) -> Parse[tuple[str, str]]:
    """A value, and the tag behind it."""
    out = StringIO()
    while True:
        text, end = yield from reader.until(tags.value_end, *tags.breaks)
        out.write(text)
        if end != tags.value_end:
            tag = end if end == _QWEN_LOST_END else tags.parameter
            break
        space = yield from reader.spaces()
        tag = yield from reader.one_of(tags.parameter, tags.end)
        if tag:
            break
        out.write(end + space)
    value = out.getvalue()
    if tags.padded:
        value = value.removeprefix("\n")
        value = value.removesuffix("\n") if end == tags.value_end else value
    return value, tag


def _json(text: str, attributes: str, schema: Mapping[str, Any], key: str) -> str:
    if 'string="true"' in attributes or 'type="string"' in attributes:
        return quoted(text)
    if 'string="false"' in attributes or 'type="' in attributes:
        return json_or_string(text.strip(), text)
    return json_of_text(text, schema, key)
