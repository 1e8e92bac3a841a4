"""A real llama.cpp under an operator's rules: what it says in many small pieces comes in one, as the rules leave it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import httpx
import pytest
import yaml

from svir_proxy.conform.dialect import check_completion, check_stream
from tests.live.conftest import UPSTREAM_KEY
from tests.live.processes import NO_TLS, PATIENCE, proxy_server

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.live

RULES: Final = [
    {"name": "no-rocks", "pattern": "ragged rock", "action": "block"},
    {"name": "colors", "pattern": "(?i)blue", "action": "redact", "replacement": "a color"},
    {"name": "lockers", "pattern": "^(9|12)$|Locker nine", "action": "redact", "replacement": "?"},
]
TOOLS: Final = [{"type": "function", "function": {"name": "open_locker", "parameters": {"type": "object"}}}]


@pytest.fixture(scope="module")
def proxy(llama: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    config = tmp_path_factory.mktemp("rules") / "svir.yaml"
    backend = {"name": "live", "base_url": llama, "profile": "llama-cpp", "api_key": UPSTREAM_KEY}
    rules = {"answers": RULES, "deprecated": {"scripted": "successor"}}
    config.write_text(yaml.safe_dump({"backends": [backend], "rules": rules}), encoding="utf-8")
    with proxy_server(config) as served:
        yield served.url


def said(body: bytes, *, stream: bool) -> dict[str, Any]:
    """The message and the finish reason of an answer in the dialect."""
    if not stream:
        assert check_completion(body) == []
        choice = json.loads(body)["choices"][0]
        return {**choice["message"], "finish": choice["finish_reason"]}
    assert check_stream(body, False) == []
    told: dict[str, Any] = {}
    for line in body.decode().splitlines():
        if line.startswith("data: {"):
            choice = json.loads(line[6:])["choices"][0]
            for key in ("content", "reasoning_content"):
                told[key] = told.get(key, "") + choice["delta"].get(key, "")
            for call in choice["delta"].get("tool_calls", ()):
                told["arguments"] = told.get("arguments", "") + call["function"]["arguments"]
            told["finish"] = choice["finish_reason"] or told.get("finish")
    return told


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
@pytest.mark.parametrize(
    ("script", "note", "content", "reasoning", "arguments"),
    [
        ("default", None, "Hello! How can I help you today?", None, None),
        ("think", "colors=redacted", "a color.", "The user asks for a color. a color fits.", None),
        ("loop", "no-rocks=blocked", "", None, None),
        ("think-call", "lockers=redacted", None, "? is meant.", {"id": "?"}),
    ],
)
def test_what_a_real_server_says(  # noqa: PLR0917 - a row of the table
    proxy: str,
    stream: bool,
    script: str,
    note: str | None,
    content: str | None,
    reasoning: str | None,
    arguments: dict[str, Any] | None,
) -> None:
    body = {
        "model": "scripted",
        "messages": [{"role": "user", "content": f"Please. [[s:{script}]]"}],
        "stream": stream,
        "max_tokens": 60,
        **({"tools": TOOLS} if arguments else {}),
    }
    response = httpx.post(f"{proxy}/v1/chat/completions", json=body, timeout=PATIENCE, verify=NO_TLS)
    assert response.status_code == 200
    assert response.headers["x-ai-model-deprecated"] == "successor"
    notes = [found for found in response.headers.get("x-svir-rewrites", "").split(", ") if found.startswith("rules.")]
    assert notes == ([] if note is None else [f"rules.{note}"])
    told = said(response.content, stream=stream)
    assert (told.get("content") or "").strip() == (content or "")
    assert (told.get("reasoning_content") or "").strip() == (reasoning or "")
    if arguments is not None:
        [call] = [told["arguments"]] if stream else [c["function"]["arguments"] for c in told["tool_calls"]]
        assert json.loads(call) == arguments
    assert (told["finish"] == "content_filter") == (note == "no-rocks=blocked")


def test_the_endpoint_that_would_pass_unread_is_shut(proxy: str) -> None:
    body = {"model": "scripted", "prompt": "[[s:loop]]", "max_tokens": 8}
    response = httpx.post(f"{proxy}/v1/completions", json=body, timeout=PATIENCE, verify=NO_TLS)
    assert (response.status_code, response.json()["error"]["code"]) == (403, "endpoint_not_allowed")
