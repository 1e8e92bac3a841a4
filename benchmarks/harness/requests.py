"""The request side of the proxy, for the microbenchmarks: bodies read and rewritten, a line logged."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr
from dataclasses import dataclass
from typing import Any, Final, Literal

from svir_proxy.client_request import ClientRequest
from svir_proxy.profiles import load_profile
from svir_proxy.request import rewrite_request
from svir_proxy.response.json_text import dumps
from svir_proxy.server.logs import set_up_logging
from svir_proxy.server.request_log import write_line
from svir_proxy.server.request_record import RequestRecord
from svir_proxy.settings import LoggingSettings

_BYTES: Final = 2_000_000
"""How much of long bodies is enough to be measured."""


@dataclass(frozen=True, slots=True)
class RequestWork:
    """Something that is done once for each request: *what* it is in words, and doing it *times* times."""

    what: str
    work: Callable[[], object]
    times: int


def request_works(times: int) -> Iterator[tuple[str, RequestWork]]:
    """What there is to measure, by name; *times* for what is short."""
    for name, what, profile, body in _bodies():
        count = max(1, min(times, _BYTES // len(body)))
        yield f"request: {name}", RequestWork(what, _rewriting(body, profile, count), count)
    yield "line: console", RequestWork("the line in the log, for people", _logging("console", times), times)
    yield "line: json", RequestWork("the line in the log, for machines", _logging("json", times), times)


def _rewriting(body: bytes, server: str, times: int) -> Callable[[], None]:
    """Reading, rewriting and writing a request."""
    profile = load_profile(server)

    def work() -> None:
        for _ in range(times):
            request = ClientRequest.from_json(body, id="b" * 24, received=1700000000)
            content = dumps(rewrite_request(request, profile, request.model).body)
            if request.blobs is not None:
                request.blobs.fill(content)

    return work


def _logging(style: Literal["console", "json"], times: int) -> Callable[[], None]:
    """Writing the line of a request into a file."""

    def work() -> None:
        with tempfile.TemporaryFile("w", buffering=1) as file, redirect_stderr(file):
            set_up_logging(LoggingSettings(format=style))
            for _ in range(times):
                record = RequestRecord("b" * 32, "POST", "/v1/chat/completions", model="m", backend="local")
                record.status, record.notes = 200, ("stream=always",)
                write_line(record)

    return work


def _bodies() -> Iterator[tuple[str, str, str, bytes]]:
    """Requests to read and rewrite: name, what it is, the server that it goes to, the body."""
    question = {"role": "user", "content": "Say hello."}
    small = {"model": "m", "messages": [{"role": "system", "content": "You help."}, question], "max_tokens": 512}
    yield "small", "two messages", "vllm", _body({**small, "stream": True})
    yield "plain", "the same without a stream, to OpenAI", "openai", _body({**small, "temperature": 0.7})
    call = {
        "id": "call_%d",
        "type": "function",
        "function": {"name": "edit", "arguments": '{"path": "a.py", "line": 3}'},
    }
    history: list[dict[str, Any]] = [{"role": "system", "content": "You edit files. " * 40}]
    for i in range(33):
        identity = f"call_{i}"
        history += [
            {"role": "user", "content": [{"type": "text", "text": "Now the next one, please. " * 10}]},
            {"role": "assistant", "content": None, "tool_calls": [call | {"id": identity}]},
            {"role": "tool", "tool_call_id": identity, "content": "def f():\n    return 1\n" * 20},
        ]
    tools = [
        {"type": "function", "function": {"name": f"tool_{i}", "description": "Does it. " * 20, "parameters": {
            "type": "object", "properties": {name: {"type": "string"} for name in "abcdef"}, "required": ["a"]}}}
        for i in range(20)
    ]  # fmt: skip
    long = {"model": "m", "messages": history, "tools": tools, "stream": True}
    yield "history", "100 messages with calls, 20 tools", "vllm", _body(long)
    url = {"url": "data:image/png;base64," + "iVBORw0K" * (20 * 1024 * 1024 // 8)}
    image = {
        "role": "user",
        "content": [{"type": "text", "text": "What is it?"}, {"type": "image_url", "image_url": url}],
    }
    yield "image", "an image of 20 MB", "vllm", _body({"model": "m", "messages": [image], "stream": True})


def _body(fields: dict[str, Any]) -> bytes:
    return json.dumps(fields).encode()
