"""Every fact of the schema, and every value that it can have, is told in words, and the words are true."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, Literal, get_args, get_origin

import pytest
from pydantic import BaseModel

from docs.generate.facts import AREAS, FACTS, OPTIONAL_FIELD, SENT
from svir_proxy.client_request import ClientRequest
from svir_proxy.errors import ProxyError
from svir_proxy.profiles import builtin_names, load_profile
from svir_proxy.profiles.schema import Fact, Profile
from svir_proxy.request.pipeline import UpstreamRequest, rewrite_request
from tests.test_fact_matrix import CALL, RESULT, ROWS, TOOLS, USER, ask

ELSEWHERE: Final = {
    "name", "extends", "server", "provider", "notes", "observed", "evidence", "discovery.ports", "discovery.signatures", "errors",
}  # fmt: skip
"""What is no fact about requests and answers, or has a place of its own on the page."""


def _leaves(model: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """The dotted path and the type of each field that holds no other fields."""
    for name, field in model.model_fields.items():
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            yield from _leaves(kind, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", kind


LEAVES: Final = dict(_leaves(Profile))


def test_each_fact_of_the_schema_is_told_and_no_other() -> None:
    assert set(FACTS) == set(LEAVES) - ELSEWHERE
    assert set(LEAVES) >= ELSEWHERE


def _values(kind: Any) -> list[Any] | None:
    """All values of a type that has few; None for others."""
    if kind is bool:
        return [True, False]
    return list(get_args(kind)) if get_origin(kind) is Literal else None


@pytest.mark.parametrize("path", FACTS)
def test_each_value_is_told(path: str) -> None:
    fact, values = FACTS[path], _values(LEAVES[path])
    assert fact.area in AREAS
    if values is None:
        assert callable(fact.told)
        values = [load_profile(name).fact(path) for name in builtin_names()]
    else:
        assert not callable(fact.told)
        assert set(fact.told) == set(values)
    for value in values:
        told = fact.of(value)
        for text in (told.server, told.proxy):
            assert text
            assert not text.endswith(".")


# ----------------------------------------------------------------- the words are true

REQUESTS: Final = {f"request.{row.fact}": row.request for row in ROWS} | {
    "request.tools": ask(tools=TOOLS),
    "request.legacy_functions": ask(functions=[TOOLS[0]["function"]], function_call="auto"),
    "request.missing_content": ask(USER, {"role": "assistant", "tool_calls": [CALL]}, RESULT),
    "request.stop": ask(stop=["."]),
    "request.stream_with_tools": ask(tools=TOOLS, stream=True),
    "request.stream_logprobs": ask(logprobs=True, stream=True),
    "request.stream_logprobs_with_tools": ask(logprobs=True, stream=True, tools=TOOLS),
    "request.unknown_fields": ask(top_k=1),
}
"""A request that each fact is about; those of the matrix of facts, and those that it has not."""


def _becomes(path: str, value: str) -> object:
    """What becomes of the request that a fact is about: the body, what is told, what is expected; or the refusal."""
    overrides: dict[str, Any] = {}
    inner = overrides
    *folders, name = path.split(".")
    for folder in folders:
        inner = inner.setdefault(folder, {})
    inner[name] = value
    request = ClientRequest.from_body(REQUESTS[path], id="facts", received=1)
    try:
        return rewrite_request(request, load_profile("generic", overrides), "m")
    except ProxyError as refusal:
        return refusal.kind


@pytest.mark.parametrize("path", [path for path, kind in LEAVES.items() if kind == Fact])
def test_each_fact_of_the_four_words_has_a_request(path: str) -> None:
    assert path in REQUESTS


@pytest.mark.parametrize("value", ["ignored", "rejected", "unknown"])
@pytest.mark.parametrize("path", REQUESTS)
def test_what_the_proxy_is_said_to_do_is_what_it_does(path: str, value: str) -> None:
    proxy = FACTS.get(path, OPTIONAL_FIELD).of(value).proxy
    kept, becomes = _becomes(path, "kept"), _becomes(path, value)
    assert (proxy == SENT or proxy.startswith(f"{SENT}, and the refusal back")) == (becomes == kept)
    assert isinstance(becomes, str) == proxy.startswith("refuses")
    if isinstance(becomes, str):
        assert f"`{becomes}`" in proxy
    elif isinstance(becomes, UpstreamRequest):
        assert ("asks once more" in proxy) == (becomes.expectation is not None)


def test_a_field_is_told_by_its_name() -> None:
    assert {value for value in get_args(Fact) if OPTIONAL_FIELD.of(value).proxy} == set(get_args(Fact))
