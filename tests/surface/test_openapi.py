"""The description of the HTTP surface is true: its paths, its statuses, and that answers are as it says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
import yaml
from jsonschema import Draft202012Validator

import svir_proxy
from svir_proxy.conform import dialect
from svir_proxy.errors import KINDS, ProxyError
from tests.faults.wire import DOCUMENT
from tests.surface.served import served

DESCRIPTION: Final[dict[str, Any]] = yaml.safe_load((Path(__file__).parents[2] / "docs/openapi.yaml").read_text())
OPERATIONS: Final = [(path, method) for path, item in DESCRIPTION["paths"].items() for method in item]
KEYS: Final = {"auth": {"keys": ["a-key-of-the-proxy"]}}


def resolved(node: Any) -> Any:
    """*node* with what it refers to in the place of references."""
    if isinstance(node, list):
        return [resolved(value) for value in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        found: Any = DESCRIPTION
        for key in node["$ref"].removeprefix("#/").split("/"):
            found = found[key]
        return resolved(found)
    return {key: resolved(value) for key, value in node.items()}


def problems(path: str, method: str, response: httpx.Response) -> list[str]:
    """What is wrong with *response* by the description."""
    described = resolved(DESCRIPTION["paths"][path][method]["responses"]).get(str(response.status_code))
    if described is None:
        return [f"{response.status_code} is not described: {response.text}"]
    found = []
    for name, header in described["headers"].items():
        value = response.headers.get(name)
        if value is None:
            found += [f"no {name}"] if header.get("required") else []
            continue
        typed = int(value) if header["schema"].get("type") == "integer" else value
        found += [error.message for error in Draft202012Validator(header["schema"]).iter_errors(typed)]
    media = response.headers.get("content-type", "").partition(";")[0]
    if media not in described["content"]:
        return [*found, f"{media} is not described"]
    if media == "application/json":
        schema = described["content"][media]["schema"]
        found += [error.message for error in Draft202012Validator(schema).iter_errors(response.json())]
    return found


_CHAT: Final = "/v1/chat/completions"
_HELLO: Final = [{"role": "user", "content": "hello"}]
_OTHER: Final = {"content-type": "text/plain"}
ANSWERS: Final[dict[str, tuple[str, str, int, dict[str, Any]]]] = {
    "whole": (_CHAT, "post", 200, {"json": {"messages": _HELLO}}),
    "stream": (_CHAT, "post", 200, {"json": {"messages": _HELLO, "stream": True}}),
    "no messages": (_CHAT, "post", 400, {"json": {}}),
    "empty messages": (_CHAT, "post", 400, {"json": {"messages": []}}),
    "messages that are none": (_CHAT, "post", 400, {"json": {"messages": ["hello"]}}),
    "a model that is none": (_CHAT, "post", 400, {"json": {"messages": _HELLO, "model": 1}}),
    "two answers": (_CHAT, "post", 400, {"json": {"messages": _HELLO, "n": 2}}),
    "no object": (_CHAT, "post", 400, {"json": []}),
    "no JSON": (_CHAT, "post", 400, {"content": b"{", "headers": {"content-type": "application/json"}}),
    "no key": (_CHAT, "post", 401, {"json": {"messages": _HELLO}, "headers": {"authorization": "Bearer another"}}),
    "another host": (_CHAT, "post", 403, {"json": {"messages": _HELLO}, "headers": {"host": "elsewhere"}}),
    "too large": (_CHAT, "post", 413, {"json": {"messages": _HELLO, "more": "x" * 5000}}),
    "another type": (_CHAT, "post", 415, {"content": b"hello", "headers": _OTHER}),
    "models": ("/v1/models", "get", 200, {}),
    "all models": ("/v1/models", "get", 200, {"params": {"all": "true"}}),
    "models without a key": ("/v1/models", "get", 401, {"headers": {"authorization": ""}}),
    "models of another host": ("/v1/models", "get", 403, {"headers": {"host": "elsewhere"}}),
    "a model": ("/v1/models/{id}", "get", 200, {"id": "m"}),
    "a model of an owner": ("/v1/models/{id}", "get", 200, {"id": "org/m2"}),
    "no model": ("/v1/models/{id}", "get", 404, {"id": "nothing"}),
    "a model without a key": ("/v1/models/{id}", "get", 401, {"id": "m", "headers": {"authorization": ""}}),
    "health": ("/healthz", "get", 200, {"headers": {"host": "elsewhere", "authorization": ""}}),
    "metrics": ("/metrics", "get", 200, {}),
    "metrics as OpenMetrics": ("/metrics", "get", 200, {"headers": {"accept": "application/openmetrics-text"}}),
    "metrics without a key": ("/metrics", "get", 401, {"headers": {"authorization": ""}}),
    "readiness": ("/readyz", "get", 200, {"headers": {"host": "elsewhere", "authorization": ""}}),
}


@pytest.mark.parametrize("name", ANSWERS)
async def test_an_answer_is_as_described(name: str) -> None:
    path, method, status, given = ANSWERS[name]
    asked = dict(given)
    target = path.replace("{id}", asked.pop("id", ""))
    headers = {"authorization": "Bearer a-key-of-the-proxy", **asked.pop("headers", {})}
    async with (
        served(**KEYS, server={"max_request_bytes": 4096}) as url,
        httpx.AsyncClient(base_url=url, trust_env=False) as client,
    ):
        response = await client.request(method, target, headers=headers, **asked)
        assert response.status_code == status, response.text
        assert problems(path, method, response) == []
        for other in {"get", "post", "put", "delete", "patch", "options"} - {method}:
            refused = await client.request(other, target, headers=headers)
            if target == path or response.status_code == 200:
                assert refused.status_code in (401, 403, 405)
        bare = await client.request(method, target.removeprefix("/v1"), headers=headers, **asked)
        assert bare.status_code == status


async def test_answers_for_want_of_a_server_are_as_described() -> None:
    nowhere = {"backends": [{"name": "a", "base_url": "http://127.0.0.1:9"}]}
    async with served(**nowhere) as url, httpx.AsyncClient(base_url=url, trust_env=False) as client:
        seen = {}
        for path, method in OPERATIONS:
            body = {"json": {"messages": _HELLO}} if method == "post" else {}
            response = await client.request(method, path.replace("{id}", "m"), **body)  # type: ignore[arg-type]
            assert problems(path, method, response) == []
            seen[path] = response.status_code
        models = {"/v1/models": 502, "/v1/models/{id}": 502}
        assert seen == {_CHAT: 502, **models, "/healthz": 200, "/metrics": 200, "/readyz": 503}


def test_every_operation_is_tried() -> None:
    assert {(path, method) for path, method, _, _ in ANSWERS.values()} == set(OPERATIONS)


def test_statuses_are_those_of_the_errors() -> None:
    """All that a client can see of chat: not 405, which is of other methods, and not 499, which nobody sees."""
    described = {int(status) for status in DESCRIPTION["paths"][_CHAT]["post"]["responses"]}
    assert described == {kind.status for kind in KINDS.values()} - {405, 499} | {200}
    for path, method in OPERATIONS:
        assert {int(status) for status in DESCRIPTION["paths"][path][method]["responses"]} <= described


def test_every_error_is_as_described() -> None:
    schema = Draft202012Validator(resolved(DESCRIPTION["components"]["schemas"]["Error"]))
    for kind in KINDS:
        envelope = ProxyError(kind, "a message", param="a").envelope()
        assert [error.message for error in schema.iter_errors(envelope)] == []
    types = DESCRIPTION["components"]["schemas"]["Error"]["properties"]["error"]["properties"]["type"]["enum"]
    assert set(types) == {kind.type for kind in KINDS.values()}
    assert dialect.check_error(ProxyError("internal_error", "a").body()) == []


def test_a_wrong_answer_is_found() -> None:
    def of(status: int, body: bytes = b"{}", **headers: str) -> list[str]:
        told = {"content-type": "application/json", "x-request-id": "a", "x-svir-backend": "a", **headers}
        return problems(_CHAT, "post", httpx.Response(status, headers=told, content=body))

    error = ProxyError("overloaded", "a").body()
    assert of(200, DOCUMENT) == []
    assert of(503, error, **{"retry-after": "1"}) == []
    assert of(200, b"{}")
    assert of(201, DOCUMENT)
    assert of(200, DOCUMENT, **{"content-type": "text/html"})
    assert of(200, DOCUMENT, **{"x-request-id": "a b"})
    assert of(503, error)
    assert of(503, error, **{"retry-after": "61"})
    assert of(500, error.replace(b'"param"', b'"parm"'))


def test_the_version_is_the_proxys() -> None:
    assert DESCRIPTION["info"]["version"] == svir_proxy.__version__
    assert re.fullmatch(r"3\.1\.\d", DESCRIPTION["openapi"])
