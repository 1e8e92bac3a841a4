"""The spans of a real llama.cpp's answers: what they count is what the server counted."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import openai
import pytest
import yaml

from tests.live.conftest import UPSTREAM_KEY
from tests.live.processes import proxy_server
from tests.support.collector import SpanCollector

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.live

ASKED: dict[str, Any] = {
    "model": "short", "messages": [{"role": "user", "content": "plain"}], "max_tokens": 64, "temperature": 0,
}  # fmt: skip


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
def test_what_a_span_counts_is_what_the_server_counted(
    stream: bool, llama: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "50")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    backend = {
        "name": "live",
        "base_url": llama,
        "profile": "llama-cpp",
        "api_key": UPSTREAM_KEY,
        "models": {"short": "scripted"},
    }
    config = tmp_path / "svir.yaml"
    with SpanCollector() as collector:
        config.write_text(yaml.safe_dump({"backends": [backend], "tracing": {"endpoint": collector.url}}))
        with (
            proxy_server(config) as proxy,
            openai.OpenAI(base_url=f"{proxy.url}/v1", api_key="unused", max_retries=0) as client,
        ):
            if stream:
                chunks = list(
                    client.chat.completions.create(stream=True, stream_options={"include_usage": True}, **ASKED)
                )
                usage, identity = chunks[-1].usage, chunks[0].id
            else:
                answer = client.chat.completions.create(**ASKED)
                usage, identity = answer.usage, answer.id
            server, attempt = asyncio.run(collector.has(2))
    assert usage is not None
    assert (server.kind, attempt.kind, attempt.name) == ("SERVER", "CLIENT", "chat scripted")
    assert attempt.parent_id == server.span_id
    told = attempt.attributes
    assert told["gen_ai.provider.name"] == "llama-cpp"
    assert told["gen_ai.usage.input_tokens"] == usage.prompt_tokens > 0
    assert told["gen_ai.usage.output_tokens"] == usage.completion_tokens > 0
    assert told["gen_ai.response.id"] == identity
    assert told["gen_ai.response.finish_reasons"] in (["stop"], ["length"])
    assert told["gen_ai.request.stream"] is True, "a local server is always asked to stream"
    assert 0 < told["gen_ai.response.time_to_first_chunk"] <= told["svir.time_to_first_output"]
    assert not attempt.failed
