"""The checker of the dialect: canonical bodies pass, and every rule fires on a mutation."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from svir_proxy.conform import dialect as oracle

HEAD = {
    "id": "chatcmpl-1",
    "object": "chat.completion.chunk",
    "created": 1790000000,
    "model": "m",
}
USAGE = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}
DONE = "[DONE]"
ERROR = {
    "error": {
        "message": "upstream died",
        "type": "upstream_error",
        "param": None,
        "code": "upstream_failed",
    }
}


def chunk(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
    """A choice chunk."""
    return {**HEAD, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


def opening(index: int, identity: str, name: str, arguments: str = "") -> dict[str, Any]:
    """A first piece of a call."""
    return {
        "index": index,
        "id": identity,
        "type": "function",
        "function": {"name": name, "arguments": arguments},
    }


def more(index: int, arguments: str) -> dict[str, Any]:
    """A later piece of a call."""
    return {"index": index, "function": {"arguments": arguments}}


ROLE = chunk({"role": "assistant", "content": ""})
USAGE_CHUNK = {**HEAD, "choices": [], "usage": USAGE}


def sse(items: list[Any]) -> bytes:
    """Frame items; a string is a payload as it is."""
    out = []
    for item in items:
        payload = item if isinstance(item, str) else json.dumps(item, separators=(",", ":"))
        out.append(f"data: {payload}\n\n")
    return "".join(out).encode()


def text_stream() -> list[Any]:
    """A plain answer with usage."""
    return copy.deepcopy(
        [
            ROLE,
            chunk({"content": "Hello"}),
            chunk({"content": " w\u00f6rld"}),
            chunk({}, "stop"),
            USAGE_CHUNK,
            DONE,
        ]
    )


def tool_stream() -> list[Any]:
    """Two calls, their pieces interleaved."""
    return copy.deepcopy(
        [
            chunk({"role": "assistant", "content": None}),
            chunk({"tool_calls": [opening(0, "a", "look", '{"v":')]}),
            chunk({"tool_calls": [opening(1, "b", "find")]}),
            chunk({"tool_calls": [more(1, "{}"), more(0, "1}")]}),
            chunk({}, "tool_calls"),
            USAGE_CHUNK,
            DONE,
        ]
    )


def completion() -> dict[str, Any]:
    """A canonical completion."""
    return copy.deepcopy(
        {
            **HEAD,
            "object": "chat.completion",
            "choices": [
                {
                    "index": 0,
                    "message": {"role": "assistant", "content": "Hello", "refusal": None},
                    "logprobs": None,
                    "finish_reason": "stop",
                }
            ],
            "usage": USAGE,
        }
    )


def tool_completion() -> dict[str, Any]:
    """A canonical completion with two calls."""
    body = completion()
    body["choices"][0]["finish_reason"] = "tool_calls"
    body["choices"][0]["message"] = {
        "role": "assistant",
        "content": None,
        "refusal": None,
        "reasoning_content": "hm",
        "tool_calls": [
            {"id": "a", "type": "function", "function": {"name": "look", "arguments": "{}"}},
            {"id": "b", "type": "function", "function": {"name": "find", "arguments": "{}"}},
        ],
    }
    return body


def models() -> dict[str, Any]:
    """A canonical model list."""
    one = {"id": "m", "object": "model", "created": 1790000000, "owned_by": "local"}
    return {"object": "list", "data": [one, {**one, "id": "n"}]}


def rules(violations: list[str]) -> set[str]:
    """The rules that violations name."""
    return {line.split(": ", 2)[1] for line in violations}


# --------------------------------------------------------------------------
# What must pass

DETAILS = {
    **USAGE,
    "prompt_tokens_details": {"cached_tokens": 1},
    "completion_tokens_details": {"reasoning_tokens": 1},
}
TOKEN = {"token": "H", "logprob": -0.1, "bytes": [72], "top_logprobs": []}


def with_logprobs() -> list[Any]:
    """A stream with every optional standard key."""
    items = text_stream()
    for item in items[:-1]:
        item["system_fingerprint"] = "fp_1"
        item["service_tier"] = "default"
        item.setdefault("usage", None)
    items[1]["choices"][0]["logprobs"] = {"content": [TOKEN], "refusal": None}
    items[4]["usage"] = DETAILS
    return items


def cut_call(finish: str) -> list[Any]:
    """A call whose arguments are cut off."""
    return [
        ROLE,
        chunk({"tool_calls": [opening(0, "a", "look", '{"v":')]}),
        chunk({}, finish),
        USAGE_CHUNK,
        DONE,
    ]


GOOD_STREAMS: dict[str, list[Any]] = {
    "text": text_stream(),
    "tools": tool_stream(),
    "options": with_logprobs(),
    "length cuts a call": cut_call("length"),
    "a filter cuts a call": cut_call("content_filter"),
    "reasoning": [
        ROLE,
        chunk({"reasoning_content": "hm"}),
        chunk({"content": "Hi"}),
        chunk({}, "stop"),
        USAGE_CHUNK,
        DONE,
    ],
    "refusal": [
        chunk({"role": "assistant", "content": None, "refusal": ""}),
        chunk({"refusal": "No"}),
        chunk({}, "stop"),
        USAGE_CHUNK,
        DONE,
    ],
    "error midway": [ROLE, chunk({"content": "Hel"}), ERROR],
    "error at once": [ERROR],
    "error within a call": [ROLE, chunk({"tool_calls": [opening(0, "a", "look", "{")]}), ERROR],
}


@pytest.mark.parametrize("name", GOOD_STREAMS)
def test_good_stream(name: str) -> None:
    """Canonical streams have no violation."""
    assert oracle.check_stream(sse(GOOD_STREAMS[name]), True) == []


def test_good_stream_without_usage() -> None:
    """Without include_usage no usage is expected."""
    items = text_stream()
    del items[4]
    assert oracle.check_stream(sse(items), False) == []


def test_good_stream_usage_optional() -> None:
    """An upstream without usage can be excused."""
    items = text_stream()
    del items[4]
    assert oracle.check_stream(sse(items), True, usage_optional=True) == []
    assert rules(oracle.check_stream(sse(items), True)) == {"usage-missing"}


def test_good_stream_comments() -> None:
    """Comments may stand between events, alone or right before a data line."""
    body = b": keepalive\n\n:\n\n: one\n" + sse(text_stream()).replace(b"\n\n", b"\n\n: ping\n\n", 1)
    assert oracle.check_stream(body, True) == []


def test_good_named_function() -> None:
    """A named function may finish with stop, if the caller says so."""
    items = tool_stream()
    items[4] = chunk({}, "stop")
    assert oracle.check_stream(sse(items), True, named_function=True) == []
    assert oracle.check_stream(sse(tool_stream()), True, named_function=True) == []


@pytest.mark.parametrize("body", [completion(), tool_completion()])
def test_good_completion(body: dict[str, Any]) -> None:
    """Canonical completions have no violation."""
    assert oracle.check_completion(json.dumps(body).encode()) == []


def test_good_completion_named_function() -> None:
    """The flag holds for completions too."""
    body = tool_completion()
    body["choices"][0]["finish_reason"] = "stop"
    data = json.dumps(body).encode()
    assert oracle.check_completion(data, named_function=True) == []
    assert rules(oracle.check_completion(data)) == {"finish-calls"}


def test_good_objects() -> None:
    """Error envelopes, model lists and models."""
    assert oracle.check_error(json.dumps(ERROR).encode()) == []
    assert oracle.check_models(json.dumps(models()).encode()) == []
    assert oracle.check_models(b'{"object":"list","data":[]}') == []
    assert oracle.check_model(json.dumps(models()["data"][0]).encode()) == []


# --------------------------------------------------------------------------
# What must be found: (name, rules, body). Each breaks exactly those rules.

Items = list[Any]
Edit = Callable[[Items], Any]


def edited(make: Callable[[], Items], edit: Edit) -> bytes:
    """Apply an edit to the items of a stream and frame them."""
    items = make()
    result = edit(items)
    return sse(result if isinstance(result, list) else items)


def text_with(edit: Edit) -> bytes:
    """The plain answer, edited."""
    return edited(text_stream, edit)


def tools_with(edit: Edit) -> bytes:
    """The answer with two calls, edited."""
    return edited(tool_stream, edit)


def piece(items: Items, event: int, number: int = 0) -> dict[str, Any]:
    """A tool call piece of a stream."""
    return items[event]["choices"][0]["delta"]["tool_calls"][number]


def choice(items: Items, event: int) -> dict[str, Any]:
    """The choice of a chunk."""
    return items[event]["choices"][0]


def put(target: Callable[[Items], dict[str, Any]], **values: Any) -> Edit:
    """An edit that sets keys."""
    return lambda items: target(items).update(values)


def drop(target: Callable[[Items], dict[str, Any]], key: str) -> Edit:
    """An edit that removes a key."""
    return lambda items: [target(items).pop(key), items][1]


def at(event: int) -> Callable[[Items], dict[str, Any]]:
    """The chunk at a position."""
    return lambda items: items[event]


def choice_at(event: int) -> Callable[[Items], dict[str, Any]]:
    """The choice at a position."""
    return lambda items: choice(items, event)


def delta_at(event: int) -> Callable[[Items], dict[str, Any]]:
    """The delta at a position."""
    return lambda items: choice(items, event)["delta"]


def piece_at(event: int, number: int = 0) -> Callable[[Items], dict[str, Any]]:
    """The piece at a position."""
    return lambda items: piece(items, event, number)


def function_at(event: int, number: int = 0) -> Callable[[Items], dict[str, Any]]:
    """The function of the piece at a position."""
    return lambda items: piece(items, event, number)["function"]


def no_delta() -> dict[str, Any]:
    """A choice without a delta, as Azure's annotations are."""
    body = chunk({})
    del body["choices"][0]["delta"]
    return body


def every(**values: Any) -> Edit:
    """An edit that sets keys of every chunk."""

    def edit(items: Items) -> None:
        for item in items[:-1]:
            item.update(values)

    return edit


def then(*edits: Edit) -> Edit:
    """An edit made of edits that change the items in place."""

    def edit(items: Items) -> None:
        for one in edits:
            one(items)

    return edit


def remove(event: int) -> Edit:
    """An edit that removes an event."""

    def edit(items: Items) -> None:
        del items[event]

    return edit


RAW = sse(text_stream())
FIRST_END = RAW.index(b"\n\n") + 2
LAST_USAGE = copy.deepcopy(USAGE_CHUNK)

BAD_STREAMS: list[tuple[str, set[str], bytes]] = [
    # framing
    ("bom", {"framing-bom"}, b"\xef\xbb\xbf" + RAW),
    ("latin-1", {"framing-utf8"}, RAW.replace(b"Hello", b"Hell\xf6")),
    ("crlf", {"framing-cr"}, RAW.replace(b"\n", b"\r\n")),
    ("no blank after the colon", {"framing-line"}, RAW.replace(b"data: ", b"data:", 1)),
    ("two blanks after the colon", {"framing-line"}, RAW.replace(b"data: ", b"data:  ", 1)),
    ("blank at the end", {"framing-line"}, RAW.replace(b"}\n", b"} \n", 1)),
    ("event line", {"framing-line"}, b"event: message\n" + RAW),
    ("id line", {"framing-line"}, b"id: 1\n" + RAW),
    ("retry line", {"framing-line"}, b"retry: 10\n" + RAW),
    ("leading blank line", {"framing-event"}, b"\n" + RAW),
    ("extra blank line", {"framing-event"}, RAW[:FIRST_END] + b"\n" + RAW[FIRST_END:]),
    ("last blank line missing", {"framing-event"}, RAW[:-1]),
    ("last line unfinished", {"framing-event"}, RAW[:-2]),
    ("two data lines", {"framing-event"}, RAW.replace(b'"choices"', b'\ndata: "choices"', 1)),
    (
        "blank line missing between events",
        {"framing-event", "json", "usage-missing"},
        RAW.replace(b"\n\ndata: [DONE]", b"\ndata: [DONE]") + b"data: [DONE]\n\n",
    ),
    # payloads
    ("cut JSON", {"json"}, text_with(lambda items: [*items[:1], '{"id":', *items[1:]])),
    ("JSON array", {"json"}, text_with(lambda items: [*items[:1], "[]", *items[1:]])),
    ("empty data", {"json"}, text_with(lambda items: [*items[:1], "", *items[1:]])),
    ("NaN", {"json"}, RAW.replace(b'"content":"Hello"', b'"content":NaN')),
    ("lone surrogate", {"json"}, RAW.replace(b"Hello", b"\\ud83d")),
    (
        "duplicate key",
        {"json-duplicate"},
        RAW.replace(b'"content":"Hello"', b'"content":"x","content":"Hello"'),
    ),
    # shapes
    ("object missing", {"schema"}, text_with(drop(at(1), "object"))),
    ("object wrong", {"schema"}, text_with(put(at(4), object="chat.completion"))),
    ("id empty", {"schema"}, text_with(every(id=""))),
    (
        "id missing",
        {"schema"},
        text_with(then(*(drop(at(n), "id") for n in range(5)))),
    ),
    (
        "created 0",
        {"schema"},
        text_with(every(created=0)),
    ),
    (
        "created a float",
        {"schema"},
        text_with(every(created=1.5)),
    ),
    (
        "model empty",
        {"schema"},
        text_with(every(model="")),
    ),
    (
        "model null",
        {"schema"},
        text_with(every(model=None)),
    ),
    ("choices missing", {"schema"}, text_with(lambda items: [*items[:1], HEAD, *items[1:]])),
    (
        "two choices",
        {"schema"},
        text_with(lambda items: items[1]["choices"].append(choice(items, 2))),
    ),
    ("choice index 1", {"schema"}, text_with(put(choice_at(1), index=1))),
    ("choice index missing", {"schema"}, text_with(drop(choice_at(1), "index"))),
    ("delta null", {"schema"}, text_with(put(choice_at(3), delta=None))),
    (
        "delta missing",
        {"schema"},
        text_with(lambda items: [*items[:2], no_delta(), *items[2:]]),
    ),
    ("finish_reason key missing", {"schema"}, text_with(drop(choice_at(1), "finish_reason"))),
    ("finish_reason eos", {"schema"}, text_with(put(choice_at(3), finish_reason="eos"))),
    (
        "finish_reason function_call",
        {"schema"},
        text_with(put(choice_at(3), finish_reason="function_call")),
    ),
    ("role user", {"schema", "role-first"}, text_with(put(delta_at(0), role="user"))),
    ("key reasoning", {"schema"}, text_with(put(delta_at(1), reasoning="hm"))),
    ("key function_call", {"schema"}, text_with(put(delta_at(1), function_call=None))),
    ("key audio", {"schema"}, text_with(put(delta_at(1), audio=None))),
    ("reasoning_content null", {"schema"}, text_with(put(delta_at(1), reasoning_content=None))),
    ("tool_calls null", {"schema"}, text_with(put(delta_at(1), tool_calls=None))),
    ("tool_calls empty", {"schema"}, text_with(put(delta_at(1), tool_calls=[]))),
    ("content a list", {"schema"}, text_with(put(delta_at(1), content=[]))),
    ("foreign key in the chunk", {"schema"}, text_with(put(at(1), timings={}))),
    ("foreign key in the choice", {"schema"}, text_with(put(choice_at(1), token_ids=None))),
    ("filter key", {"schema"}, text_with(put(choice_at(1), content_filter_results={}))),
    (
        "foreign key in usage",
        {"schema"},
        text_with(lambda items: items[4].update(usage={**USAGE, "cost": 1})),
    ),
    (
        "usage count null",
        {"schema"},
        text_with(lambda items: items[4].update(usage={**USAGE, "total_tokens": None})),
    ),
    ("usage chunk without usage", {"schema"}, text_with(drop(at(4), "usage"))),
    ("usage next to a choice", {"schema"}, text_with(put(at(1), usage=USAGE))),
    ("fingerprint null", {"schema"}, text_with(put(at(1), system_fingerprint=None))),
    ("logprobs cut", {"schema"}, text_with(put(choice_at(1), logprobs={"content": []}))),
    ("call id empty", {"schema"}, tools_with(put(piece_at(1), id=""))),
    ("call type missing", {"schema", "tool-opening"}, tools_with(drop(piece_at(1), "type"))),
    ("call name empty", {"schema"}, tools_with(put(function_at(1), name=""))),
    ("first arguments missing", {"schema"}, tools_with(drop(function_at(2), "arguments"))),
    (
        "arguments an object",
        {"schema", "tool-arguments"},
        tools_with(put(function_at(3), arguments={})),
    ),
    (
        "error code a number",
        {"schema"},
        sse([ROLE, {"error": {**ERROR["error"], "code": 500}}]),
    ),
    ("error a string", {"schema"}, sse([ROLE, {"error": "upstream died"}])),
    (
        "error without param",
        {"schema"},
        sse([{"error": {"message": "m", "type": "t", "code": None}}]),
    ),
    ("error in a chunk", {"schema"}, sse([ROLE, {**chunk({}, "stop"), **ERROR}])),
    # constancy
    ("id changes", {"id-constant"}, text_with(put(at(2), id="chatcmpl-2"))),
    ("model changes", {"model-constant"}, text_with(put(at(4), model="n"))),
    ("created changes", {"created-constant"}, text_with(put(at(2), created=1790000001))),
    # role
    ("role missing", {"role-first"}, text_with(lambda items: items[1:])),
    ("role again", {"role-once"}, text_with(put(delta_at(1), role="assistant"))),
    (
        "role late",
        {"role-first", "role-once"},
        text_with(lambda items: [items[1], items[0], *items[2:]]),
    ),
    # calls
    (
        "call without id",
        {"tool-opening", "schema"},
        tools_with(drop(piece_at(1), "id")),
    ),
    (
        "call without name",
        {"tool-opening", "schema"},
        tools_with(drop(function_at(1), "name")),
    ),
    (
        "only arguments",
        {"tool-opening"},
        tools_with(lambda items: piece(items, 1).clear() or piece(items, 1).update(more(0, '{"v":'))),
    ),
    (
        "id again",
        {"tool-continuation", "schema"},
        tools_with(put(piece_at(3, 1), id="a")),
    ),
    (
        "type again",
        {"tool-continuation", "schema"},
        tools_with(put(piece_at(3, 1), type="function")),
    ),
    (
        "name split",
        {"tool-continuation", "schema"},
        tools_with(put(function_at(3, 1), name="up")),
    ),
    (
        "whole opening again",
        {"tool-continuation"},
        tools_with(lambda items: piece(items, 3, 1).update(opening(0, "a", "look", "1}"))),
    ),
    (
        "two calls under one index",
        {"tool-continuation", "tool-arguments"},
        tools_with(
            lambda items: [
                items[0],
                chunk({"tool_calls": [opening(0, "a", "look", "{}")]}),
                chunk({"tool_calls": [opening(0, "b", "find", "{}")]}),
                *items[4:],
            ]
        ),
    ),
    (
        "indices from 1",
        {"tool-index"},
        tools_with(
            lambda items: [
                items[0],
                chunk({"tool_calls": [opening(1, "a", "look", "{}")]}),
                *items[4:],
            ]
        ),
    ),
    (
        "index skipped",
        {"tool-index"},
        tools_with(then(put(piece_at(2), index=2), put(piece_at(3), index=2))),
    ),
    (
        "index missing",
        {"tool-index", "schema"},
        sse(
            [
                ROLE,
                chunk({"tool_calls": [{k: v for k, v in opening(0, "a", "f", "{}").items() if k != "index"}]}),
                chunk({}, "tool_calls"),
                USAGE_CHUNK,
                DONE,
            ]
        ),
    ),
    ("ids equal", {"tool-id"}, tools_with(put(piece_at(2), id="a"))),
    ("arguments cut", {"tool-arguments"}, tools_with(put(function_at(3, 1), arguments="1"))),
    (
        "arguments empty",
        {"tool-arguments"},
        tools_with(put(function_at(3, 0), arguments="")),
    ),
    # finish
    (
        "finish missing",
        {"finish-missing", "usage-order"},
        text_with(remove(3)),
    ),
    (
        "finish null throughout",
        {"finish-missing", "usage-order"},
        text_with(put(choice_at(3), finish_reason=None)),
    ),
    (
        "finish twice",
        {"finish-once"},
        text_with(lambda items: items.insert(3, chunk({}, "stop"))),
    ),
    (
        "text next to the finish",
        {"finish-delta"},
        text_with(put(delta_at(3), content="")),
    ),
    (
        "text after the finish",
        {"finish-last"},
        text_with(lambda items: items.insert(4, chunk({"content": "\n"}))),
    ),
    (
        "calls finished with stop",
        {"finish-calls"},
        tools_with(put(choice_at(4), finish_reason="stop")),
    ),
    (
        "tool_calls without calls",
        {"finish-calls"},
        text_with(put(choice_at(3), finish_reason="tool_calls")),
    ),
    # usage
    ("usage missing", {"usage-missing"}, text_with(remove(4))),
    ("usage twice", {"usage-once"}, text_with(lambda items: items.insert(5, LAST_USAGE))),
    (
        "usage before the finish",
        {"usage-order"},
        text_with(lambda items: items.insert(3, items.pop(4))),
    ),
    (
        "usage total",
        {"usage-total"},
        text_with(lambda items: items[4].update(usage={**USAGE, "total_tokens": 6})),
    ),
    # end
    ("no [DONE]", {"end-missing"}, text_with(lambda items: items[:-1])),
    (
        "cut",
        {"end-missing", "finish-missing", "usage-missing"},
        text_with(lambda items: items[:2]),
    ),
    ("empty body", {"end-missing", "finish-missing", "usage-missing"}, b""),
    ("only [DONE]", {"finish-missing", "usage-missing"}, b"data: [DONE]\n\n"),
    ("[DONE] twice", {"end-done"}, RAW + b"data: [DONE]\n\n"),
    (
        "chunk after [DONE]",
        {"end-done", "finish-last"},
        text_with(lambda items: items.insert(6, chunk({"content": "x"}))),
    ),
    ("[DONE] after an error", {"end-error"}, sse([ROLE, ERROR, DONE])),
    ("text after an error", {"end-error"}, sse([ROLE, ERROR, chunk({"content": "x"})])),
]


@pytest.mark.parametrize(("name", "expected", "body"), BAD_STREAMS, ids=[x[0] for x in BAD_STREAMS])
def test_bad_stream(name: str, expected: set[str], body: bytes) -> None:
    """Each mutation breaks the rules it should and no other."""
    assert rules(oracle.check_stream(body, True)) == expected


UNASKED: list[tuple[str, bytes]] = [
    ("usage chunk", sse(text_stream())),
    ("usage null", text_with(then(remove(4), put(at(1), usage=None)))),
]


@pytest.mark.parametrize(("name", "body"), UNASKED, ids=[x[0] for x in UNASKED])
def test_usage_unasked(name: str, body: bytes) -> None:
    """No usage key in a stream that was not asked for usage."""
    assert rules(oracle.check_stream(body, False)) == {"usage-unasked"}


def body_with(make: Callable[[], Any], edit: Callable[[Any], Any]) -> bytes:
    """A JSON body, edited."""
    value = make()
    edit(value)
    return json.dumps(value).encode()


def message(body: dict[str, Any]) -> dict[str, Any]:
    """The message of a completion."""
    return body["choices"][0]["message"]


BAD_COMPLETIONS: list[tuple[str, set[str], bytes]] = [
    ("not JSON", {"json"}, b"<html>"),
    ("a string", {"json"}, b'"x"'),
    ("duplicate", {"json-duplicate"}, b'{"id":"a",' + json.dumps(completion()).encode()[1:]),
    (
        "chunk object",
        {"schema"},
        body_with(completion, lambda b: b.update(object="chat.completion.chunk")),
    ),
    ("id empty", {"schema"}, body_with(completion, lambda b: b.update(id=""))),
    ("created 0", {"schema"}, body_with(completion, lambda b: b.update(created=0))),
    ("no choice", {"schema"}, body_with(completion, lambda b: b.update(choices=[]))),
    ("usage null", {"schema"}, body_with(completion, lambda b: b.update(usage=None))),
    (
        "finish null",
        {"schema"},
        body_with(completion, lambda b: b["choices"][0].update(finish_reason=None)),
    ),
    (
        "logprobs missing",
        {"schema"},
        body_with(completion, lambda b: b["choices"][0].pop("logprobs")),
    ),
    ("refusal missing", {"schema"}, body_with(completion, lambda b: message(b).pop("refusal"))),
    ("reasoning", {"schema"}, body_with(completion, lambda b: message(b).update(reasoning="x"))),
    (
        "tool_calls empty",
        {"schema"},
        body_with(completion, lambda b: message(b).update(tool_calls=[])),
    ),
    ("timings", {"schema"}, body_with(completion, lambda b: b.update(timings={}))),
    (
        "total",
        {"usage-total"},
        body_with(completion, lambda b: b.update(usage={**USAGE, "total_tokens": 9})),
    ),
    (
        "ids",
        {"tool-id"},
        body_with(tool_completion, lambda b: message(b)["tool_calls"][1].update(id="a")),
    ),
    (
        "call index",
        {"schema"},
        body_with(tool_completion, lambda b: message(b)["tool_calls"][1].update(index=1)),
    ),
    (
        "arguments",
        {"tool-arguments"},
        body_with(tool_completion, lambda b: message(b)["tool_calls"][1]["function"].update(arguments="{")),
    ),
    (
        "finish",
        {"finish-calls"},
        body_with(completion, lambda b: b["choices"][0].update(finish_reason="tool_calls")),
    ),
]


@pytest.mark.parametrize(("name", "expected", "body"), BAD_COMPLETIONS, ids=[x[0] for x in BAD_COMPLETIONS])
def test_bad_completion(name: str, expected: set[str], body: bytes) -> None:
    """Each mutation of a completion breaks the rules it should and no other."""
    assert rules(oracle.check_completion(body)) == expected


BAD_ERRORS: list[tuple[str, Any]] = [
    ("string", {"error": "m"}),
    ("detail", {"detail": "m"}),
    ("no code", {"error": {"message": "m", "type": "t", "param": None}}),
    ("no param", {"error": {"message": "m", "type": "t", "code": None}}),
    ("no type", {"error": {"message": "m", "param": None, "code": None}}),
    ("type null", {"error": {**ERROR["error"], "type": None}}),
    ("message empty", {"error": {**ERROR["error"], "message": ""}}),
    ("code a number", {"error": {**ERROR["error"], "code": 400}}),
    ("status", {"error": {**ERROR["error"], "status": 400}}),
    ("second key", {**ERROR, "message": "m"}),
]


@pytest.mark.parametrize(("name", "body"), BAD_ERRORS, ids=[x[0] for x in BAD_ERRORS])
def test_bad_error(name: str, body: Any) -> None:
    """Error envelopes of other dialects."""
    assert rules(oracle.check_error(json.dumps(body).encode())) == {"schema"}


BAD_MODELS: list[tuple[str, set[str], bytes]] = [
    ("no object", {"schema"}, body_with(models, lambda b: b.pop("object"))),
    ("second list", {"schema"}, body_with(models, lambda b: b.update(models=[]))),
    ("id empty", {"schema"}, body_with(models, lambda b: b["data"][0].update(id=""))),
    ("created 0", {"schema"}, body_with(models, lambda b: b["data"][0].update(created=0))),
    ("no owner", {"schema"}, body_with(models, lambda b: b["data"][0].pop("owned_by"))),
    ("meta", {"schema"}, body_with(models, lambda b: b["data"][0].update(meta={}))),
    ("twice", {"models-unique"}, body_with(models, lambda b: b["data"][0].update(id="n"))),
]


@pytest.mark.parametrize(("name", "expected", "body"), BAD_MODELS, ids=[x[0] for x in BAD_MODELS])
def test_bad_models(name: str, expected: set[str], body: bytes) -> None:
    """Each mutation of a model list breaks the rule it should."""
    assert rules(oracle.check_models(body)) == expected


def test_bad_model() -> None:
    """A model list is not a model."""
    assert rules(oracle.check_model(json.dumps(models()).encode())) == {"schema"}


def test_every_rule_is_shown_to_fire() -> None:
    """The mutations above cover all rules."""
    shown = {"usage-unasked"}
    for _, expected, _ in (*BAD_STREAMS, *BAD_COMPLETIONS, *BAD_MODELS):
        shown |= expected
    assert shown == set(oracle.RULES)


# --------------------------------------------------------------------------
# Schema, summaries, command line


def test_schema_is_valid() -> None:
    """The schema is a valid 2020-12 schema whose references resolve."""
    schema = json.loads(oracle.SCHEMA_PATH.read_text())
    Draft202012Validator.check_schema(schema)
    for name in schema["$defs"]:
        oracle._validator(name).is_valid({})
    assert {"chunk", "completion", "error_envelope", "models_list", "model"} <= set(schema["$defs"])


@pytest.mark.parametrize("item", [ROLE, USAGE_CHUNK])
def test_schema_chunk(item: dict[str, Any]) -> None:
    """The definition chunk takes both kinds of chunk and nothing else."""
    assert oracle._validator("chunk").is_valid(item)
    assert not oracle._validator("chunk").is_valid({**item, "x": 1})


def test_summarize_text() -> None:
    """A plain answer."""
    assert oracle.summarize(sse(text_stream())) == {
        "outcome": "answer",
        "content": "Hello w\u00f6rld",
        "reasoning": None,
        "refusal": None,
        "tool_calls": [],
        "tool_call_ids": [],
        "finish_reason": "stop",
        "usage": USAGE,
        "error": None,
        "partial": False,
    }


def test_summarize_tools() -> None:
    """Interleaved pieces are put together."""
    said = oracle.summarize(sse(tool_stream()))
    assert said["tool_calls"] == [
        {"name": "look", "arguments": '{"v":1}'},
        {"name": "find", "arguments": "{}"},
    ]
    assert said["tool_call_ids"] == ["a", "b"]
    assert said["finish_reason"] == "tool_calls"


def test_summarize_error() -> None:
    """An error after some text is partial, one at once is not."""
    said = oracle.summarize(sse([ROLE, chunk({"content": "Hel"}), ERROR]))
    assert (said["outcome"], said["partial"], said["content"]) == ("error", True, "Hel")
    assert said["error"] == ERROR["error"]
    assert oracle.summarize(sse([ROLE, ERROR]))["partial"] is False


def test_summarize_reasoning_and_refusal() -> None:
    """Both texts are collected."""
    said = oracle.summarize(sse(GOOD_STREAMS["reasoning"]))
    assert (said["reasoning"], said["content"]) == ("hm", "Hi")
    assert oracle.summarize(sse(GOOD_STREAMS["refusal"]))["refusal"] == "No"


@pytest.mark.parametrize("body", [x[2] for x in BAD_STREAMS] + [b"\xff\x00", b"data: 1", b"data: {}"])
def test_summaries_never_raise(body: bytes) -> None:
    """Broken bodies are summarized as far as they can be read."""
    assert set(oracle.summarize(body)) == set(oracle.summarize_completion(body))


def test_summarize_completion() -> None:
    """The same form for a completion."""
    said = oracle.summarize_completion(json.dumps(tool_completion()).encode())
    assert said["tool_calls"][0] == {"name": "look", "arguments": "{}"}
    assert (said["reasoning"], said["usage"], said["outcome"]) == ("hm", USAGE, "answer")
    assert oracle.summarize_completion(json.dumps(ERROR).encode())["outcome"] == "error"


@pytest.mark.parametrize(
    ("arguments", "body", "status"),
    [
        (["stream", "--include-usage"], RAW, 0),
        (["stream"], RAW, 1),
        (["stream", "--include-usage", "--summary"], RAW, 0),
        (["completion"], json.dumps(completion()).encode(), 0),
        (["completion"], b"{}", 1),
        (["error"], json.dumps(ERROR).encode(), 0),
        (["error"], b"{}", 1),
        (["models"], json.dumps(models()).encode(), 0),
        (["models"], b"{}", 1),
        (["model"], json.dumps(models()["data"][0]).encode(), 0),
    ],
)
def test_command_line(tmp_path: Path, arguments: list[str], body: bytes, status: int) -> None:
    """The exit status tells, and each violation is one line."""
    path = tmp_path / "body"
    path.write_bytes(body)
    done = subprocess.run(
        [sys.executable, "-m", "svir_proxy.conform.dialect", *arguments, str(path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == status, done.stderr
    lines = done.stdout.splitlines()
    if status:
        assert lines
        assert rules(lines) <= set(oracle.RULES)
    else:
        assert len(lines) == ("--summary" in arguments)
