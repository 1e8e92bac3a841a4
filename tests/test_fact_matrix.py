"""Every fact x every form of request that it is about, against a server that behaves as the fact says.

The server here has a will of its own: it answers in prose unless it is told to call or to give JSON in so many words.
It keeps, ignores or rejects one thing, and what a client sees through the proxy must be what it asked for, or say that
it is not - whatever the profile says, if what it says is true; and where it says ``unknown``, a rejection is learned.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest

from tests.server.support import serving, settings

USER = {"role": "user", "content": "Where is it?"}
IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
REMOTE = {"type": "image_url", "image_url": {"url": "https://pics.example/a.png"}}
AUDIO = {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}}
FILE = {"type": "file", "file": {"filename": "a.txt", "file_data": "data:text/plain;base64,aGk="}}
TEXT = {"type": "text", "text": "Where is it?"}
TOOLS = [
    {"type": "function", "function": {"name": name, "parameters": {"type": "object"}}} for name in ("look", "wait")
]
SCHEMA = {"type": "object", "properties": {"hall": {"type": "string"}}, "required": ["hall"]}
CALL = {"id": "call_of_a_long_kind", "type": "function", "function": {"name": "look", "arguments": "{}"}}
RESULT = {"role": "tool", "tool_call_id": CALL["id"], "content": "found"}

Body = dict[str, Any]
Has = Callable[[Body], bool]


def ask(*messages: Body, **fields: Any) -> Body:
    return {"model": "m", "messages": [*messages] or [USER], **fields}


def history(**changes: Any) -> Body:
    return ask(USER, {"role": "assistant", "content": "", "tool_calls": [CALL], **changes}, RESULT)


def without(message: Body, key: str) -> Body:
    return {name: value for name, value in message.items() if name != key}


def parts(kind: str) -> Has:
    return lambda body: any(
        part.get("type") == kind
        for message in body["messages"]
        for part in (message.get("content") if isinstance(message.get("content"), list) else [])
    )


def messages(test: Callable[[Body], Any]) -> Has:
    return lambda body: any(test(message) for message in body["messages"])


def choice(form: str) -> Has:
    def has(body: Body) -> bool:
        said = body.get("tool_choice")
        if isinstance(said, dict):
            return form == ("allowed_tools" if said.get("type") == "allowed_tools" else "named")
        return said == form

    return has


def response_format(kind: str) -> Has:
    return lambda body: (body.get("response_format") or {}).get("type") == kind


def sequence(body: Body) -> list[str]:
    return [message["role"] for message in body["messages"]]


@dataclass
class Row:
    """One fact, a request it is about, how to see the thing in a body, and how a server words its refusal."""

    fact: str
    request: Body
    has: Has
    refusal: str
    param: str | None = None
    refused_as: str | None = None
    """The error a client gets where the thing cannot be had; None: it gets an answer."""
    demand: str = ""
    """``call``, ``call:NAME``, ``no call`` or ``json``: what the answer has to be."""
    told: bool = True
    """Whether a change has to be told (a thing that only repeats a default has not)."""


ROWS = [
    Row("tool_choice.none", ask(tools=TOOLS, tool_choice="none"), choice("none"), "Invalid tool_choice: none", "tool_choice", demand="no call"),
    Row("tool_choice.auto", ask(tools=TOOLS, tool_choice="auto"), choice("auto"), "Invalid tool_choice: auto", "tool_choice"),
    Row("tool_choice.required", ask(tools=TOOLS, tool_choice="required"), choice("required"), "Invalid tool_choice: required", "tool_choice", demand="call"),
    Row(
        "tool_choice.named",
        ask(tools=TOOLS, tool_choice={"type": "function", "function": {"name": "wait"}}),
        choice("named"),
        "Invalid tool_choice type: 'object'. Supported string values: none, auto, required",
        demand="call:wait",
    ),
    Row(
        "tool_choice.allowed_tools",
        ask(tools=TOOLS, tool_choice={"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": TOOLS[1:]}}),
        choice("allowed_tools"),
        "Invalid tool_choice type: 'object'.",
    ),
    Row("response_format.json_object", ask(response_format={"type": "json_object"}), response_format("json_object"), "'response_format.type' must be 'json_schema' or 'text'", demand="json"),
    Row(
        "response_format.json_schema",
        ask(response_format={"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA}}),
        response_format("json_schema"),
        "This response_format type is unavailable now",
        demand="json",
    ),
    Row("images", ask({"role": "user", "content": [TEXT, IMAGE]}), parts("image_url"), "This model does not support image input", refused_as="image_not_supported"),
    Row("remote_images", ask({"role": "user", "content": [TEXT, REMOTE]}), parts("image_url"), "image URLs are not supported, use base64", refused_as="image_url_not_allowed"),
    Row("audio", ask({"role": "user", "content": [TEXT, AUDIO]}), parts("input_audio"), "audio input is not supported", refused_as="audio_not_supported"),
    Row("files", ask({"role": "user", "content": [TEXT, FILE]}), parts("file"), "unsupported content[].type file"),
    Row("content_parts", ask({"role": "user", "content": [TEXT]}), messages(lambda m: isinstance(m["content"], list)), "'messages.0.content' : value must be a string"),
    Row("tool_content_parts", ask(USER, {"role": "assistant", "content": "", "tool_calls": [CALL]}, RESULT | {"content": [{"type": "text", "text": "found"}]}), messages(lambda m: m["role"] == "tool" and isinstance(m["content"], list)), "messages.2.content: tool content must be a string"),
    Row("null_content", history(content=None), messages(lambda m: "content" in m and m["content"] is None), "messages.1.content: Input should be a valid string, not null"),
    Row("developer_role", ask({"role": "developer", "content": "Be brief."}, USER), messages(lambda m: m["role"] == "developer"), "Unexpected message role."),
    Row("late_system", ask(USER, {"role": "system", "content": "Be brief."}), lambda b: "system" in sequence(b)[1:], "System message must be at the beginning."),
    Row("consecutive_roles", ask(USER, USER), lambda b: any(a == c for a, c in zip(sequence(b), sequence(b)[1:], strict=False)), "Conversation roles must alternate user/assistant/user/assistant/..."),
    Row("tool_strict", ask(tools=[{"type": "function", "function": {**TOOLS[0]["function"], "strict": True}}]), lambda b: "strict" in b["tools"][0]["function"], "tools.0.function.strict: Extra inputs are not permitted", "tools.0.function.strict"),
    Row("empty_parameters", ask(tools=[{"type": "function", "function": {"name": "look"}}]), lambda b: not b["tools"][0]["function"].get("parameters"), "tools.0.function.parameters: schema must be of type object"),
    Row("refusal_parts", ask(USER, {"role": "assistant", "content": [{"type": "refusal", "refusal": "No."}]}, USER), parts("refusal"), "unsupported content[].type: refusal"),
    Row("empty_arguments", history(tool_calls=[CALL | {"function": {"name": "look", "arguments": ""}}]), messages(lambda m: any(c["function"]["arguments"] == "" for c in m.get("tool_calls", []))), "Failed to parse tool call arguments as JSON"),
    Row("empty_tools", ask(tools=[], tool_choice="auto"), lambda b: "tools" in b or "tool_choice" in b, "`tools` must not be an empty array.", "tools"),
    *(
        Row(f"optional_fields.{name}", ask(**{name: value}), lambda b, name=name: name in b, f"Unrecognized request argument supplied: {name}", name)  # type: ignore[misc]
        for name, value in (("seed", 7), ("reasoning_effort", "low"), ("store", True), ("user", "u"), ("frequency_penalty", 0.5))
    ),
]  # fmt: skip


@dataclass
class Willed:
    """A server that keeps, ignores or rejects one thing, with a model that calls and writes JSON only if told to."""

    row: Row
    behaviour: str
    asked: list[Body] = field(default_factory=list)

    def __call__(self, request: httpx.Request) -> httpx.Response:
        body = json.loads(request.content)
        self.asked.append(body)
        has = self.row.has(body)
        if has and self.behaviour == "rejected":
            return httpx.Response(400, json={"error": {"message": self.row.refusal, "param": self.row.param}})
        message = self._answer(body, kept=has and self.behaviour == "kept")
        reason = "tool_calls" if "tool_calls" in message else "stop"
        return httpx.Response(
            200,
            json={"id": "c", "model": "m", "choices": [{"index": 0, "message": message, "finish_reason": reason}]},
        )

    def _answer(self, body: Body, *, kept: bool) -> Body:
        tools = [tool["function"]["name"] for tool in body.get("tools") or []]
        told = " ".join(str(message.get("content")) for message in body["messages"])
        said = body.get("tool_choice")
        if kept and self.row.fact.startswith("response_format"):
            return _json()
        if kept and isinstance(said, dict) and said.get("type") == "function":
            return _call(said["function"]["name"])
        if said == "required" and (kept or self.row.fact != "tool_choice.required"):
            return _call(tools[0])
        if tools and "You must now call" in told:
            return _call(tools[-1])
        if tools and self.row.demand == "no call" and not kept:
            return _call(tools[0])  # this model would rather call
        if (body.get("response_format") or {}).get(
            "type"
        ) == "json_schema" and self.row.fact != "response_format.json_schema":
            return _json()
        return _json() if "JSON" in told else {"role": "assistant", "content": "It is in hall B."}


def _json() -> Body:
    return {"role": "assistant", "content": '{"hall": "B"}'}


def _call(name: str) -> Body:
    function = {"name": name, "arguments": "{}"}
    return {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "c1", "type": "function", "function": function}],
    }


def met(demand: str, message: Body) -> bool:
    names = [call["function"]["name"] for call in message.get("tool_calls") or []]
    if demand == "json":
        return isinstance(json.loads(message["content"]), dict)
    if demand == "no call":
        return not names
    return not demand or (bool(names) and demand in ("call", f"call:{names[0]}"))


def overrides(row: Row, value: str) -> Body:
    facts: Any = value
    for name in reversed(row.fact.split(".")):
        facts = {name: facts}
    return {"request": facts}


def _cases() -> Any:
    for row in ROWS:
        for behaviour in ("kept", "ignored", "rejected"):
            for said in dict.fromkeys((behaviour, "unknown")):
                yield pytest.param(row, said, behaviour, id=f"{row.fact}: {said}, is {behaviour}")


@pytest.mark.parametrize(("row", "said", "behaviour"), [*_cases()])
async def test_a_client_gets_what_it_asked_for_or_hears_that_it_does_not(row: Row, said: str, behaviour: str) -> None:
    server = Willed(row, behaviour)
    # The server is on this machine: it gets URLs to fetch only where the operator says so.
    backend = {"overrides": overrides(row, said), "remote_images": "pass"}
    async with serving(settings(backend=backend, profile="generic"), server) as client:
        first = await client.post("/v1/chat/completions", json=row.request)
        asked_first = len(server.asked)
        second = await client.post("/v1/chat/completions", json=row.request)
    assert first.status_code == second.status_code
    if row.refused_as and (behaviour == "rejected" or said in ("ignored", "rejected")):
        error = first.json()["error"]
        assert first.status_code == 400, first.text
        assert error["code"] == row.refused_as or (said == "unknown" and row.refused_as == "image_url_not_allowed")
        if said != "unknown":
            assert server.asked == []  # refused before the server is asked
        return
    assert first.status_code == 200, first.text
    notes = first.headers.get("x-svir-rewrites", "")
    if said != "unknown" or behaviour == "rejected":
        message = first.json()["choices"][0]["message"]
        assert met(row.demand, message) or "=unmet" in notes
        if behaviour == "rejected":
            assert not row.has(server.asked[asked_first - 1])
            assert notes or not row.told
    if said == behaviour == "kept":
        assert row.has(server.asked[0])
    if said == "unknown" and asked_first > 1:
        assert "retry" in notes
        assert len(server.asked) - asked_first == 1  # learned: the second request does not trip again
