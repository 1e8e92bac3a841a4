"""What a server is, where it is asked, and for which model; or why that cannot be found."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

import httpx
import pytest

from svir_proxy.probe.finding import NotInterviewed
from svir_proxy.probe.interview import Spent
from svir_proxy.probe.recognition import Introduction, introduce, is_private, kind_of
from svir_proxy.probe.wire import HTTPWire
from svir_proxy.profiles import load_profile
from svir_proxy.server.discovery import builtin_profiles
from tests.probe.simulated import Simulated

ROOT: Final = "http://127.0.0.1:1"
GENERIC: Final = load_profile("generic")
Paths = Mapping[str, tuple[int, Any]]


def _listed(*ids: str, **more: Any) -> tuple[int, Any]:
    return 200, {"object": "list", "data": [{"id": name, "object": "model", **more} for name in ids]}


def _transport(
    paths: Paths, *, chat: str = "/v1/chat/completions", key: str = "", header: str = "authorization"
) -> httpx.MockTransport:
    def handle(request: httpx.Request) -> httpx.Response:
        if key and request.headers.get(header) != key:
            return httpx.Response(401, json={"error": "no key"})
        if request.method == "GET":
            status, body = paths.get(request.url.path, (404, {"detail": "Not Found"}))
            return httpx.Response(status, json=body) if not isinstance(body, str) else httpx.Response(status, text=body)
        if request.url.path != chat:
            return httpx.Response(404, json={"detail": "Not Found"})
        answer = Simulated({"model": "any"}).answer(json.loads(request.content))
        return httpx.Response(answer.status or 500, content=answer.body)

    return httpx.MockTransport(handle)


async def _introduced(
    transport: httpx.AsyncBaseTransport, *, key: str | None = None, model: str | None = None, profile: str = "generic"
) -> tuple[Introduction, HTTPWire, Spent]:
    base, spent = load_profile(profile), Spent()
    async with httpx.AsyncClient(transport=transport) as client:
        wire = HTTPWire(client, ROOT, base.endpoint, key)
        return await introduce(wire, base, ROOT, model, spent), wire, spent


@pytest.mark.parametrize(
    ("ids", "asked", "model", "others"),
    [
        (("m",), None, "m", 0),
        (("a", "b", "c"), None, "a", 2),
        (("text-embedding-x", "b"), None, "b", 0),
        (("a", "b"), "b", "b", 1),
        (("a",), "of-mine", "of-mine", 1),
    ],
)
async def test_the_model(ids: tuple[str, ...], asked: str | None, model: str, others: int) -> None:
    known, _, spent = await _introduced(_transport({"/v1/models": _listed(*ids)}), model=asked)
    assert (known.subject.model, known.others, known.findings) == (model, others, ())
    assert (spent.requests, known.subject.local, known.subject.limit) == (1, True, "max_tokens")


@pytest.mark.parametrize(
    ("entry", "context"),
    [({}, None), ({"max_model_len": 4096}, 4096), ({"context_length": 8192}, 8192), ({"n_ctx": "many"}, None)],
)
async def test_how_long_a_prompt_may_be(entry: dict[str, Any], context: int | None) -> None:
    known, _, _ = await _introduced(_transport({"/v1/models": _listed("m", **entry)}))
    assert known.subject.context == context


async def test_paths_without_a_version() -> None:
    known, wire, _ = await _introduced(_transport({"/models": _listed("m")}, chat="/chat/completions"))
    assert {finding.fact: finding.value for finding in known.findings} == {
        "endpoint.models_path": "/models",
        "endpoint.chat_path": "/chat/completions",
    }
    assert wire.endpoint.chat_path == "/chat/completions"


@pytest.mark.parametrize(
    ("header", "shown", "auth"), [("authorization", "Bearer k", "bearer"), ("api-key", "k", "api-key")]
)
async def test_how_the_key_is_shown(header: str, shown: str, auth: str) -> None:
    transport = _transport({"/v1/models": _listed("m")}, key=shown, header=header)
    known, wire, _ = await _introduced(transport, key="k")
    assert wire.endpoint.auth == auth
    assert [finding.value for finding in known.findings] == ([] if auth == "bearer" else ["api-key"])


async def test_a_server_without_a_list_needs_a_model() -> None:
    transport = _transport({})
    with pytest.raises(NotInterviewed, match="--model"):
        await _introduced(transport)
    known, _, _ = await _introduced(transport, model="m")
    assert known.subject.model == "m"


@pytest.mark.parametrize(
    ("paths", "options", "words"),
    [
        ({"/v1/models": _listed()}, {}, "lists no model"),
        ({"/v1/models": _listed("text-embedding-x")}, {}, "lists no chat model"),
        ({"/v1/models": (200, "<html>Welcome</html>")}, {}, "no model server answered.*Welcome"),
        ({}, {}, "no model server answered.*404"),
        ({"/v1/models": (401, {})}, {}, "asks for a key.*--api-key-env"),
        ({"/v1/models": (401, {})}, {"key": "k"}, "refuses the key"),
        ({"/v1/models": (403, {})}, {"key": "k"}, "refuses the key"),
    ],
)
async def test_what_cannot_be_asked(paths: Paths, options: dict[str, Any], words: str) -> None:
    with pytest.raises(NotInterviewed, match=words):
        await _introduced(_transport(paths), **options)


async def test_nobody_is_there() -> None:
    def refuse(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("refused")

    with pytest.raises(NotInterviewed, match="no connection: refused; start the server"):
        await _introduced(httpx.MockTransport(refuse))


@pytest.mark.parametrize(
    ("paths", "kind"),
    [
        ({"/props": (200, {"default_generation_settings": {}})}, "llama-cpp"),
        ({"/": (200, "Ollama is running")}, "ollama"),
        ({"/v1/models": _listed("m", owned_by="vllm")}, "vllm"),
        ({"/v1/models": _listed("m")}, "generic"),
        ({}, None),
    ],
)
async def test_the_kind(paths: Paths, kind: str | None) -> None:
    async with httpx.AsyncClient(transport=_transport(paths)) as client:
        profile = await kind_of(client, ROOT, "k", builtin_profiles())
        assert "authorization" not in client.headers
    assert (profile.name if profile else None) == kind


@pytest.mark.parametrize(
    ("root", "private"),
    [
        ("http://127.0.0.1:1", True),
        ("http://localhost", True),
        ("http://[::1]:1", True),
        ("http://10.1.2.3", True),
        ("http://rack", True),
        ("http://rack.local:8000", True),
        ("https://api.example.com", False),
        ("http://8.8.8.8", False),
    ],
)
def test_what_is_near(root: str, *, private: bool) -> None:
    assert is_private(root) is private
