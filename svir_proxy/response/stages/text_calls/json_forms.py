"""Calls as JSON behind one marker or none: Hermes, Mistral, Llama 3, Phi, Granite, and answers that are only calls."""

from __future__ import annotations

import re
from typing import Final

from svir_proxy.response.stages.text_calls.call import Call, Tools, read_call_array, read_call_object, read_name
from svir_proxy.response.stages.text_calls.literals import JSON, read_object
from svir_proxy.response.stages.text_calls.python_forms import read_call_list
from svir_proxy.response.stages.text_calls.reader import Parse, Reader, Rejected
from svir_proxy.response.stages.text_calls.tagged_forms import read_glm_call, read_qwen_functions

_CALL_ID: Final = re.compile(r"\w*")


def read_tool_call_tag(reader: Reader, tools: Tools) -> Parse[list[Call]]:
    """What stands in ``<tool_call>..</tool_call>``: JSON (Hermes, Qwen), a function's tags (Qwen3-Coder) or GLM's.

    JSON may be several objects or an array of them, and whole JSON may lack the closing tag at the end of the answer.
    """
    yield from reader.spaces()
    if (yield from reader.peek()) not in {"{", "["}:
        name = yield from reader.expect("<function=", *tools.names)
        if name == "<function=":
            return (yield from read_qwen_functions(reader, tools))
        return (yield from read_glm_call(reader, tools, name))
    calls = yield from _read_calls(reader, tools, bare=False)
    while True:
        yield from reader.spaces()
        if (yield from reader.peek()) == "" or (yield from reader.one_of("</tool_call>")):
            return calls
        yield from reader.one_of(",")
        yield from reader.spaces()
        calls += yield from _read_calls(reader, tools, bare=False)


def read_mistral(reader: Reader, tools: Tools) -> Parse[list[Call]]:
    """``[TOOL_CALLS]`` before ``[{..}]``, ``NAME{..}`` or ``NAME[ARGS]{..}``; no marker ends it."""
    yield from reader.spaces()
    if (yield from reader.peek()) in {"{", "["}:
        return (yield from _read_calls(reader, tools, bare=False))
    name = yield from read_name(reader, tools)
    if (yield from reader.one_of("[CALL_ID]")):
        yield from reader.run(_CALL_ID)
    yield from reader.one_of("[ARGS]")
    return [Call(name, (yield from read_object(reader, JSON)))]


def read_python_tag(reader: Reader, tools: Tools) -> Parse[list[Call]]:
    """Llama 3's ``<|python_tag|>`` before one object or several with semicolons between; no marker ends it."""
    yield from reader.spaces()
    calls = [(yield from read_call_object(reader, tools, bare=False))]
    while (yield from reader.one_of(";")):
        yield from reader.spaces()
        calls.append((yield from read_call_object(reader, tools, bare=False)))
    return calls


def read_array(reader: Reader, tools: Tools) -> Parse[list[Call]]:
    """``[{..}]`` behind the marker of Phi 4 mini and Granite; no marker need end it."""
    yield from reader.spaces()
    yield from reader.expect("[")
    return (yield from read_call_array(reader, tools, bare=False))


def read_bare(reader: Reader, tools: Tools, opener: str) -> Parse[list[Call]]:
    """An answer that is nothing but calls, from its first bracket on: JSON, or Llama 4's list of Python calls."""
    if opener == "[":
        yield from reader.spaces()
        if (yield from reader.peek()) == "{":
            calls = yield from read_call_array(reader, tools, bare=True)
        else:
            calls = yield from read_call_list(reader, tools)
    else:
        calls = [(yield from read_call_object(reader, tools, bare=True, opened=True))]
        yield from reader.spaces()
        while (yield from reader.peek()):
            yield from reader.one_of(";", ",")
            yield from reader.spaces()
            calls.append((yield from read_call_object(reader, tools, bare=True)))
            yield from reader.spaces()
    yield from reader.end()
    return calls


def read_fenced(reader: Reader, tools: Tools) -> Parse[list[Call]]:
    """An answer that is nothing but calls in a fenced block, from behind the opening fence on."""
    yield from reader.spaces()
    calls = yield from _read_calls(reader, tools, bare=True)
    yield from reader.spaces()
    while not (yield from reader.one_of("```")):
        yield from reader.one_of(",")
        yield from reader.spaces()
        calls += yield from _read_calls(reader, tools, bare=True)
        yield from reader.spaces()
    yield from reader.end()
    return calls


def read_functools(reader: Reader, tools: Tools) -> Parse[list[Call]]:
    """Phi 4 mini's answer that is nothing but ``functools[{..}]``, from behind the bracket on."""
    calls = yield from read_call_array(reader, tools, bare=True)
    yield from reader.end()
    return calls


def _read_calls(reader: Reader, tools: Tools, *, bare: bool) -> Parse[list[Call]]:
    """One call object, or an array of them."""
    if (yield from reader.one_of("[")):
        return (yield from read_call_array(reader, tools, bare=bare))
    if (yield from reader.peek()) != "{":
        raise Rejected
    return [(yield from read_call_object(reader, tools, bare=bare))]
