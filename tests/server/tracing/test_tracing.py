"""Spans of real requests through a real proxy process, as a collector gets them over OTLP."""

from __future__ import annotations

import json
import logging
import os
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from svir_proxy.conform.upstream import Answer, ScriptedUpstream, json_answer
from svir_proxy.server.tracing.tracing import Tracing
from svir_proxy.settings import TracingSettings, load_settings
from tests.cli.processes import Serving, serve
from tests.server.support import CHAT, COMPLETION, FINISH, STREAM, STREAM_HEAD, Client, piece, proxied, text
from tests.server.transport.raw_server import soon, until
from tests.support.collector import SeenSpan, SpanCollector
from tests.support.proxy import running_proxy

TRACE: Final = "0af7651916cd43dd8448eb211c80319c"
PARENT: Final = "b7ad6b7169203331"
CONTEXT: Final = {"traceparent": f"00-{TRACE}-{PARENT}-01", "tracestate": "vendor=1,other=2"}
SSE: Final = {"content-type": "text/event-stream"}
USAGE: Final = {
    "prompt_tokens": 7,
    "completion_tokens": 3,
    "total_tokens": 10,
    "prompt_tokens_details": {"cached_tokens": 5},
    "completion_tokens_details": {"reasoning_tokens": 2},
}


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spans go out soon; nothing is as whoever runs the tests has it."""
    for name in list(os.environ):
        if name.startswith(("OTEL_", "SVIR_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "50")


def _config(folder: Path, collector: SpanCollector | None, *base_urls: str, **more: Any) -> Path:
    backends = [
        {"name": f"b{n}", "base_url": url, "profile": "openai", "api_key": "sk-upstream", "priority": n}
        | {"models": {"alias": "m"}}
        for n, url in enumerate(base_urls)
    ]
    document = {"backends": backends, "logging": {"format": "json"}, **more}
    if collector is not None:
        document["tracing"] = {"endpoint": collector.url, "headers": {"x-collector-key": "sk-collector"}}
    path = folder / "svir.yaml"
    path.write_text(yaml.safe_dump(document))
    return path


def _plain(**more: Any) -> Answer:
    return json_answer({**COMPLETION, "usage": USAGE, **more})


@asynccontextmanager
async def _traced(folder: Path, collector: SpanCollector, *base_urls: str) -> AsyncIterator[Client]:
    """A connection to a proxy in this process."""
    async with running_proxy(load_settings(_config(folder, collector, *base_urls))) as base_url:
        client = await Client.connect(base_url)
        try:
            yield client
        finally:
            await client.close()


async def _line(serving: Serving, path: str = "chat/completions") -> dict[str, Any]:
    """What the log tells of the next request."""
    found = await serving.said(rf"^.*\"logger\":\"svir_proxy.requests\".*{path}.*$")
    told: dict[str, Any] = json.loads(found[0])
    return told


def _one(spans: list[SeenSpan], kind: str) -> SeenSpan:
    (span,) = [span for span in spans if span.kind == kind]
    return span


async def test_a_request_and_its_attempt_are_spans_of_the_clients_trace(tmp_path: Path) -> None:
    with SpanCollector() as collector:
        async with (
            ScriptedUpstream({"m": _plain()}) as upstream,
            serve(_config(tmp_path, collector, upstream.base_url)) as serving,
            serving.client() as client,
        ):
            body = {
                **CHAT,
                "model": "alias",
                "temperature": 0.5,
                "max_tokens": 9,
                "response_format": {"type": "text"},
            }
            status, _ = await client.answer(body, path="/v1/chat/completions?secret=1", **CONTEXT)
            assert status == 200
            spans = await collector.has(2)
            told = await _line(serving)
        (asked,) = upstream.script["m"].received
    host, port = asked.headers["host"].split(":")
    server, attempt = _one(spans, "SERVER"), _one(spans, "CLIENT")
    assert (server.name, server.trace_id, server.parent_id) == ("POST /v1/chat/completions", TRACE, PARENT)
    assert (attempt.name, attempt.trace_id, attempt.parent_id) == ("chat m", TRACE, server.span_id)
    assert asked.headers["traceparent"] == f"00-{TRACE}-{attempt.span_id}-01"
    assert asked.headers["tracestate"] == server.state == "vendor=1,other=2"
    assert server.began <= attempt.began <= attempt.ended <= server.ended
    assert not server.failed
    assert not attempt.failed
    assert told["trace_id"] == TRACE
    assert attempt.attributes == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "m",
        "gen_ai.request.temperature": 0.5,
        "gen_ai.request.max_tokens": 9,
        "gen_ai.output.type": "text",
        "gen_ai.response.id": "c",
        "gen_ai.response.model": "m",
        "gen_ai.response.finish_reasons": ["stop"],
        "gen_ai.usage.input_tokens": 7,
        "gen_ai.usage.output_tokens": 3,
        "gen_ai.usage.cache_read.input_tokens": 5,
        "gen_ai.usage.reasoning.output_tokens": 2,
        "http.response.status_code": 200,
        "server.address": host,
        "server.port": int(port),
        "svir.backend": "b0",
        "svir.rewrites": ["model=alias", "max_tokens=max_completion_tokens"],
    }
    assert {name: server.attributes[name] for name in sorted(server.attributes) if not name.startswith("server.")} == {
        "http.request.method": "POST",
        "http.response.status_code": 200,
        "http.route": "/v1/chat/completions",
        "network.protocol.version": "1.1",
        "svir.backend": "b0",
        "svir.model": "alias",
        "svir.request_id": told["request_id"],
        "svir.rewrites": attempt.attributes["svir.rewrites"],
        "url.path": "/v1/chat/completions",
        "url.scheme": "http",
    }
    assert server.resource["service.name"] == "svir-proxy"
    assert collector.paths == ["/v1/traces"] * len(collector.paths)
    assert {headers["x-collector-key"] for headers in collector.headers} == {"sk-collector"}
    assert not re.search(r"sk-|secret|hi\b|one two", repr(spans)), "nothing of keys, queries, prompts or answers"


async def test_a_stream_tells_how_long_its_beginning_took(tmp_path: Path) -> None:
    usage = b'data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[],"usage":%b}\n\n'
    pieces = [text("one"), text(" two"), FINISH, usage % json.dumps(USAGE).encode(), b"data: [DONE]\n\n"]
    with SpanCollector() as collector:
        async with (
            ScriptedUpstream({"m": Answer(headers=SSE, pieces=pieces)}) as upstream,
            _traced(tmp_path, collector, upstream.base_url) as client,
        ):
            await client.ask({**STREAM, "model": "alias"}, user_agent="a client/1.0")
            assert await client.status() == 200
            assert b"[DONE]" in await client.rest()
            spans = await collector.has(2)
    server, attempt = _one(spans, "SERVER"), _one(spans, "CLIENT")
    assert server.parent_id == ""
    assert server.attributes["user_agent.original"] == "a client/1.0"
    told = attempt.attributes
    assert told["gen_ai.request.stream"] is True
    assert told["gen_ai.response.finish_reasons"] == ["stop"]
    assert told["gen_ai.usage.output_tokens"] == 3
    seconds = (attempt.ended - attempt.began) / 1e9
    assert 0 < told["gen_ai.response.time_to_first_chunk"] <= told["svir.time_to_first_output"] <= seconds


async def test_each_attempt_is_a_span_when_one_fails(tmp_path: Path) -> None:
    """Failover, and a retry without what was refused: three requests upstream, one below."""
    refused = json_answer({"error": {"message": "Unrecognized request argument supplied: seed", "param": "seed"}}, 400)
    refused.then = _plain()
    with SpanCollector() as collector:
        async with (
            ScriptedUpstream({"m": json_answer({"error": {"message": "no: hi"}}, 503)}) as first,
            ScriptedUpstream({"m": refused}) as second,
        ):
            config = _config(tmp_path, collector, first.base_url, second.base_url)
            async with serve(config) as serving, serving.client() as client:
                status, _ = await client.answer({**CHAT, "model": "alias", "seed": 1}, **CONTEXT)
                assert status == 200
                spans = await collector.has(4)
        received = [request for server in (first, second) for request in server.received if request.method == "POST"]
    server = _one(spans, "SERVER")
    attempts = [span for span in spans if span.kind == "CLIENT"]
    assert {span.parent_id for span in attempts} == {server.span_id}
    sent = [request.headers["traceparent"].split("-")[2] for request in received]
    assert sent == [span.span_id for span in attempts]
    assert [span.attributes["svir.backend"] for span in attempts] == ["b0", "b1", "b1"]
    assert [span.attributes["http.response.status_code"] for span in attempts] == [503, 400, 200]
    assert [span.attributes.get("http.request.resend_count") for span in attempts] == [None, 1, 2]
    assert [span.failed for span in attempts] == [True, True, False]
    assert attempts[0].attributes["error.type"] == "upstream_unavailable"
    assert "retry.drop=seed" in attempts[2].attributes["svir.rewrites"]
    assert not server.failed
    assert server.attributes["svir.backend"] == "b1"
    assert server.attributes["svir.rewrites"][0] == "failover=b0:upstream_unavailable"
    assert "no: hi" not in repr(spans), "a server's words may repeat the prompt"


@pytest.mark.parametrize(
    ("answer", "status", "kind", "failed"),
    [
        (json_answer({"error": {"message": "This model's maximum context length is 5 tokens."}}, 400), 400, "context_length_exceeded", False),
        (json_answer({"error": {"message": "broken"}}, 500), 502, "upstream_failed", True),
        (Answer(headers=SSE, pieces=[text("one")], cut=True), 502, "stream_truncated", True),
    ],
)  # fmt: skip
async def test_what_fails_is_told_by_its_kind(
    tmp_path: Path, answer: Answer, status: int, kind: str, failed: bool
) -> None:
    with SpanCollector() as collector:
        async with (
            ScriptedUpstream({"m": answer}) as upstream,
            _traced(tmp_path, collector, upstream.base_url) as client,
        ):
            assert (await client.answer({**CHAT, "model": "alias"}))[0] == status
            spans = await collector.has(2)
    server, attempt = _one(spans, "SERVER"), _one(spans, "CLIENT")
    assert attempt.failed
    assert attempt.attributes["error.type"] == kind
    assert (server.failed, server.attributes["svir.error"]) == (failed, kind)
    assert server.attributes.get("error.type") == (kind if failed else None)
    assert server.attributes["http.response.status_code"] == status


async def test_a_client_that_leaves_is_no_failure(tmp_path: Path) -> None:
    with SpanCollector() as collector:
        tracing = {"endpoint": collector.url}
        async with proxied(tracing=tracing) as proxy:
            async with proxy.client() as client:
                await client.ask(STREAM)
                peer = await proxy.server.accept()
                await peer.answer(STREAM_HEAD + piece(text("one")))
                assert await client.status() == 200
                await client.piece()
                client.leave()
                await peer.gone()
            spans = await collector.has(2)
    server, attempt = _one(spans, "SERVER"), _one(spans, "CLIENT")
    assert (server.failed, attempt.failed) == (False, False)
    assert server.attributes["svir.error"] == "client_closed"
    assert attempt.attributes["svir.error"] == "cancelled"
    assert attempt.attributes["http.response.status_code"] == 200


@pytest.mark.parametrize(
    ("path", "name", "operation"),
    [
        ("/v1/embeddings", "POST /v1/embeddings", "embeddings"),
        ("/v1/completions", "POST /v1/completions", "text_completion"),
        ("/responses", "POST /v1/responses", "chat"),
        ("/v1/images/generations", "POST /v1/images/{endpoint}", "images"),
    ],
)
@pytest.mark.parametrize("large", [False, True], ids=["held", "streamed"])
async def test_what_passes_through_is_traced(tmp_path: Path, path: str, name: str, operation: str, large: bool) -> None:
    body = {"model": "alias", "input": "x" * (200_000 if large else 1)}
    with SpanCollector() as collector:
        async with (
            ScriptedUpstream({"m": json_answer({"data": []})}) as upstream,
            _traced(tmp_path, collector, upstream.base_url) as client,
        ):
            await client.ask(body, path=path, **CONTEXT)
            assert await client.status() == 200
            spans = await collector.has(2)
        (asked,) = upstream.script["m"].received
    server, attempt = _one(spans, "SERVER"), _one(spans, "CLIENT")
    assert (server.name, server.parent_id) == (name, PARENT)
    assert (attempt.name, attempt.parent_id) == (f"{operation} m", server.span_id)
    assert asked.headers["traceparent"] == f"00-{TRACE}-{attempt.span_id}-01"
    assert attempt.attributes["gen_ai.operation.name"] == operation
    assert attempt.attributes["http.response.status_code"] == 200


@pytest.mark.parametrize(
    ("path", "name"),
    [("/v1/models", "GET /v1/models"), ("/v1/models/alias", "GET /v1/models/{id}"), ("/nothing/of/it", "GET")],
)
async def test_the_other_routes_are_traced_and_probes_are_not(tmp_path: Path, path: str, name: str) -> None:
    with SpanCollector() as collector:
        async with (
            ScriptedUpstream({"m": _plain()}) as upstream,
            _traced(tmp_path, collector, upstream.base_url) as client,
        ):
            await client.answer(b"", path="/healthz", method="GET")
            await client.answer(b"", path=path, method="GET")
            (span,) = await collector.has(1)
    assert span.name == name


async def test_a_trace_that_is_not_sampled_goes_on_and_is_not_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "svir_proxy.requests")
    with SpanCollector() as collector:
        async with (
            ScriptedUpstream({"m": _plain()}) as upstream,
            _traced(tmp_path, collector, upstream.base_url) as client,
        ):
            body = {**CHAT, "model": "alias"}
            await client.answer(body, traceparent=f"00-{TRACE}-{PARENT}-00")
            await client.answer(body, traceparent="00-nonsense-1-1")
            spans = await collector.has(2)
        received = upstream.script["m"].received
    assert caplog.records[0].told["trace_id"] == TRACE
    assert re.fullmatch(rf"00-{TRACE}-[0-9a-f]{{16}}-00", received[0].headers["traceparent"])
    assert TRACE not in {span.trace_id for span in spans}


async def test_what_disables_opentelemetry_disables_no_trace_of_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    with SpanCollector() as collector:
        async with (
            ScriptedUpstream({"m": _plain()}) as upstream,
            _traced(tmp_path, collector, upstream.base_url) as client,
        ):
            for context in (CONTEXT, {}):
                assert (await client.answer({**CHAT, "model": "alias"}, **context))[0] == 200
    assert collector.spans == []
    first, second = upstream.script["m"].received
    assert {name: first.headers.get(name) for name in CONTEXT} == CONTEXT
    assert "traceparent" not in second.headers


async def test_variables_say_the_rest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_SERVICE_NAME", "gateway")
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test")
    with SpanCollector() as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
        monkeypatch.setenv("SVIR_TRACING__ENABLED", "true")
        async with ScriptedUpstream({"m": _plain()}) as upstream:
            config = _config(tmp_path, None, upstream.base_url)
            async with serve(config, workers=2) as serving:
                for _ in range(20):  # each a connection, which either of them may take
                    async with serving.client() as client:
                        await client.answer({**CHAT, "model": "alias"})
                spans = await collector.has(40)
                workers = set(serving.workers)
    resources = [span.resource for span in spans]
    assert {resource["service.name"] for resource in resources} == {"gateway"}
    assert {resource["deployment.environment.name"] for resource in resources} == {"test"}
    assert {resource["process.pid"] for resource in resources} <= workers, "each worker sends its own"
    instances = {(resource["process.pid"], resource["service.instance.id"]) for resource in resources}
    assert len(instances) == len({instance for _, instance in instances}) == len({pid for pid, _ in instances})


def test_variables_alone_switch_nothing_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And what is not on is not loaded: it would cost memory and time at every start."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
    code = (
        "import asyncio, sys\n"
        "from svir_proxy.settings import load_settings\n"
        "from svir_proxy.server.app import Proxy\n"
        "from svir_proxy.server.metrics.metrics import Metrics\n"
        "async def main():\n"
        "    proxy = Proxy(load_settings(), None, None, Metrics())\n"
        "    assert proxy.tracing is None\n"
        "    await proxy.close()\n"
        "asyncio.run(main())\n"
        "print([name for name in sys.modules if name.partition('.')[0] in ('opentelemetry', 'google', 'requests')])\n"
    )
    monkeypatch.setenv("SVIR_CONFIG", str(_config(tmp_path, None, "http://127.0.0.1:1")))
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=Path(__file__).parents[3]
    )
    assert done.stdout.strip() == "[]"


# ----------------------------------------------------------------- a collector that is down, slow or not willing


@asynccontextmanager
async def _asked(
    folder: Path, monkeypatch: pytest.MonkeyPatch, tracing: Mapping[str, Any], **variables: str
) -> AsyncIterator[tuple[Serving, ScriptedUpstream]]:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    async with ScriptedUpstream({"m": _plain()}) as upstream:
        config = _config(folder, None, upstream.base_url, tracing=tracing)
        async with serve(config) as serving:
            yield serving, upstream


async def _ask(serving: Serving, count: int) -> None:
    async with serving.client() as client:
        for _ in range(count):
            assert (await client.answer({**CHAT, "model": "alias"}))[0] == 200


async def test_a_collector_that_is_away_is_told_once_and_fails_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    variables = {
        "OTEL_EXPORTER_OTLP_TIMEOUT": "1",
        "OTEL_BSP_MAX_QUEUE_SIZE": "8",
        "OTEL_BSP_MAX_EXPORT_BATCH_SIZE": "8",
    }
    tracing = {"endpoint": "http://127.0.0.1:1/"}
    async with _asked(tmp_path, monkeypatch, tracing, **variables) as (serving, _):
        await _ask(serving, 30)
        said = await serving.said("traces do not reach the collector")
        assert "http://127.0.0.1:1/v1/traces (it does not answer)" in said.string
        await _ask(serving, 30)
        serving.signal(signal.SIGTERM)
        status, rest = await serving.ended()
    assert status == 0
    lines = [json.loads(line) for line in (*serving.lines, *rest.splitlines()) if line.startswith("{")]
    assert sum("do not reach" in line["event"] for line in lines) == 1
    assert "Transient" not in rest


async def test_it_is_told_when_spans_arrive_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with SpanCollector() as collector:
        collector.status = 401
        async with _asked(tmp_path, monkeypatch, {"endpoint": collector.url}) as (serving, _):
            await _ask(serving, 1)
            said = await serving.said("traces do not reach the collector")
            assert "(it answers 401)" in said.string
            collector.status = 200
            await _ask(serving, 1)
            await serving.said("traces reach the collector")
            await collector.has(2)


async def test_a_collector_that_does_not_answer_delays_neither_requests_nor_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with SpanCollector() as collector:
        collector.answers.clear()
        async with _asked(tmp_path, monkeypatch, {"endpoint": collector.url}) as (serving, _):
            await _ask(serving, 1)
            await until(collector.asked.is_set)
            await _ask(serving, 20)
            serving.signal(signal.SIGTERM)
            status, rest = await serving.ended()  # the exporter alone would try for ten seconds
        assert status == 0
        assert "the last traces did not reach the collector" in rest


async def test_the_last_spans_go_out_at_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with SpanCollector() as collector:
        variables = {"OTEL_BSP_SCHEDULE_DELAY": "600000"}
        async with _asked(tmp_path, monkeypatch, {"endpoint": collector.url}, **variables) as (serving, _):
            await _ask(serving, 3)
            assert collector.spans == []
            serving.signal(signal.SIGTERM)
            assert (await serving.ended())[0] == 0
        assert len(collector.spans) == 6


async def test_a_reload_goes_on_with_the_same_or_with_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with SpanCollector() as one, SpanCollector() as two:
        async with _asked(tmp_path, monkeypatch, {"endpoint": one.url}) as (serving, upstream):
            for collector in (one, two):
                _config(
                    tmp_path,
                    None,
                    upstream.base_url,
                    tracing={"endpoint": collector.url},
                    routing={"failover_seconds": 1},
                )
                serving.signal(signal.SIGHUP)
                await serving.said("was reloaded")
                await _ask(serving, 1)
                await collector.has(2)
            _config(tmp_path, None, upstream.base_url, tracing={"endpoint": two.url, "enabled": False})
            serving.signal(signal.SIGHUP)
            await serving.said("was reloaded")
            await _ask(serving, 1)
            serving.signal(signal.SIGTERM)
            assert (await serving.ended())[0] == 0
        assert (len(one.spans), len(two.spans)) == (2, 2)
        assert len({span.resource["service.instance.id"] for span in one.spans}) == 1


async def test_who_shares_it_keeps_it(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "svir_proxy")
    with SpanCollector() as collector:
        tracing = Tracing(TracingSettings(endpoint=collector.url))
        assert tracing.share() is tracing
        await soon(tracing.give_back())
        scope = {"type": "http", "method": "B\xe4D", "path": "/x\ud800", "svir.path": "/x\ud800", "headers": []}
        trace = tracing.begin(scope, "r")
        assert trace is not None
        trace._span.end()
        await soon(tracing.give_back())
        (span,) = await collector.has(1)
    assert span.name == "HTTP"
    assert span.attributes["http.request.method"] == "_OTHER"
    assert span.attributes["url.path"] == "/x?"
    assert caplog.records == []
