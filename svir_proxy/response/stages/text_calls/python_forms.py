"""Calls written as a function's call in Python, or nearly so: Llama 4, Gemma 3 and Gemma 4."""

from __future__ import annotations

import re
from typing import Final

from svir_proxy.response.stages.text_calls.call import Call, Tools, read_name
from svir_proxy.response.stages.text_calls.literals import GEMMA, PYTHON, quoted, read_object, read_value
from svir_proxy.response.stages.text_calls.reader import Parse, Reader, Rejected

_KEY: Final = re.compile(r"\w*")


def read_call_list(reader: Reader, tools: Tools) -> Parse[list[Call]]:
    """``[NAME(key=value), NAME()]`` from behind the bracket on."""
    calls = []
    while True:
        yield from reader.spaces()
        calls.append((yield from _read_call(reader, tools)))
        yield from reader.spaces()
        if (yield from reader.expect(",", "]")) == "]":
            return calls


def read_python_block(reader: Reader, tools: Tools) -> Parse[list[Call]]:
    """``[NAME(key=value)]<|python_end|>`` behind ``<|python_start|>`` (Llama 4)."""
    yield from reader.spaces()
    yield from reader.expect("[")
    calls = yield from read_call_list(reader, tools)
    yield from reader.spaces()
    yield from reader.expect("<|python_end|>")
    return calls


def read_tool_code(reader: Reader, tools: Tools) -> Parse[list[Call]]:
    """What Gemma 3 fences as ``tool_code``: calls in lines or in a list, each maybe inside ``print()``."""
    calls: list[Call] = []
    yield from reader.spaces()
    while not calls or not (yield from reader.one_of("```")):
        if (yield from reader.one_of("[")):
            calls += yield from read_call_list(reader, tools)
        else:
            printed = yield from reader.one_of("print(")
            calls.append((yield from _read_call(reader, tools)))
            if printed:
                yield from reader.expect(")")
        yield from reader.spaces()
    return calls


def read_gemma(reader: Reader, tools: Tools) -> Parse[list[Call]]:
    """Gemma 4's ``call:NAME{key:<|"|>text<|"|>}<tool_call|>`` from behind ``<|tool_call>`` on."""
    yield from reader.spaces()
    yield from reader.expect("call:")
    name = yield from read_name(reader, tools)
    arguments = yield from read_object(reader, GEMMA)
    yield from reader.spaces()
    yield from reader.expect("<tool_call|>")
    return [Call(name, arguments)]


def _read_call(reader: Reader, tools: Tools) -> Parse[Call]:
    name = yield from read_name(reader, tools)
    yield from reader.expect("(")
    yield from reader.spaces()
    arguments: dict[str, str] = {}
    if not (yield from reader.one_of(")")):
        mark = ","
        while mark == ",":
            yield from reader.spaces()
            key = yield from reader.run(_KEY)
            if not key or key in arguments:
                raise Rejected
            yield from reader.spaces()
            yield from reader.expect("=")
            arguments[key] = (yield from read_value(reader, PYTHON)).strip()
            yield from reader.spaces()
            mark = yield from reader.expect(",", ")")
    return Call(name, "{" + ", ".join(f"{quoted(key)}: {value}" for key, value in arguments.items()) + "}")
