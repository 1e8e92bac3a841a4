"""Calls whose name and JSON arguments stand between special tokens: DeepSeek V3, Kimi K2 and gpt-oss (Harmony)."""

from __future__ import annotations

import re
from typing import Final

from svir_proxy.response.stages.text_calls.call import Call, Tools, read_name
from svir_proxy.response.stages.text_calls.literals import JSON, read_object
from svir_proxy.response.stages.text_calls.reader import Parse, Reader

BAR: Final = "\uff5c"
"""The full-width bar in DeepSeek's special tokens."""
_DIGITS: Final = re.compile(r"[0-9]*")


def read_deepseek(reader: Reader, tools: Tools) -> Parse[list[Call]]:
    """DeepSeek's call from behind its opening marker on: V3 fences the JSON, V3.1 does not."""
    yield from reader.one_of(f"function<{BAR}tool▁sep{BAR}>")
    name = yield from read_name(reader, tools)
    yield from reader.spaces()
    fence = (yield from reader.expect("```json", f"<{BAR}tool▁sep{BAR}>")) == "```json"
    arguments = yield from read_object(reader, JSON)
    yield from reader.spaces()
    if fence:
        yield from reader.expect("```")
        yield from reader.spaces()
    yield from reader.expect(f"<{BAR}tool▁call▁end{BAR}>")
    return [Call(name, arguments)]


def read_deepseek_section(reader: Reader, tools: Tools) -> Parse[list[Call]]:
    """The first call behind DeepSeek's section marker; the others are found by themselves."""
    yield from reader.spaces()
    yield from reader.expect(f"<{BAR}tool▁call▁begin{BAR}>")
    return (yield from read_deepseek(reader, tools))


def read_kimi(reader: Reader, tools: Tools) -> Parse[list[Call]]:
    """Kimi K2's call from behind ``<|tool_call_begin|>`` on: ``functions.NAME:0<|tool_call_argument_begin|>{..}``."""
    yield from reader.spaces()
    yield from reader.one_of("functions.")
    name = yield from read_name(reader, tools)
    if (yield from reader.one_of(":")):
        yield from reader.run(_DIGITS)
    yield from reader.spaces()
    yield from reader.expect("<|tool_call_argument_begin|>")
    arguments = yield from read_object(reader, JSON)
    yield from reader.spaces()
    yield from reader.expect("<|tool_call_end|>")
    return [Call(name, arguments)]


def read_kimi_section(reader: Reader, tools: Tools) -> Parse[list[Call]]:
    """The first call behind Kimi's section marker; the others are found by themselves."""
    yield from reader.spaces()
    yield from reader.expect("<|tool_call_begin|>")
    return (yield from read_kimi(reader, tools))


def read_harmony_role(reader: Reader, tools: Tools) -> Parse[list[Call]]:
    """gpt-oss's message from behind ``<|start|>assistant`` on; the recipient stands in the role or in the channel."""
    yield from reader.spaces()
    if (yield from reader.expect("to=functions.", "<|channel|>")) == "<|channel|>":
        return (yield from read_harmony_channel(reader, tools))
    return (yield from read_harmony_recipient(reader, tools))


def read_harmony_recipient(reader: Reader, tools: Tools) -> Parse[list[Call]]:
    """``NAME<|channel|>commentary <|constrain|>json<|message|>{..}``."""
    name = yield from read_name(reader, tools)
    yield from reader.spaces()
    yield from reader.expect("<|channel|>")
    yield from reader.expect("commentary", "analysis")
    return (yield from _read_harmony_message(reader, name))


def read_harmony_channel(reader: Reader, tools: Tools) -> Parse[list[Call]]:
    """``commentary to=functions.NAME <|constrain|>json<|message|>{..}``."""
    yield from reader.expect("commentary", "analysis")
    yield from reader.spaces()
    yield from reader.expect("to=functions.")
    name = yield from read_name(reader, tools)
    return (yield from _read_harmony_message(reader, name))


def _read_harmony_message(reader: Reader, name: str) -> Parse[list[Call]]:
    yield from reader.spaces()
    yield from reader.one_of("<|constrain|>")
    yield from reader.one_of("json")
    yield from reader.spaces()
    yield from reader.expect("<|message|>")
    return [Call(name, (yield from read_object(reader, JSON)))]
