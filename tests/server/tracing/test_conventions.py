"""The names, as tables; and that whatever clients and servers say becomes something a span can tell."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.semconv._incubating.attributes import gen_ai_attributes
from opentelemetry.semconv.attributes import http_attributes, server_attributes, url_attributes

from svir_proxy.profiles import builtin_names, load_profile
from svir_proxy.server.tracing import conventions
from svir_proxy.server.tracing.conventions import cut, method_of, of_request, of_usage, operation_of, route_of
from tests.docs.pages import page

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
)  # fmt: skip


@pytest.mark.parametrize(
    ("path", "route", "operation"),
    [
        ("/chat/completions", "/v1/chat/completions", "chat"),
        ("/responses", "/v1/responses", "chat"),
        ("/completions", "/v1/completions", "text_completion"),
        ("/embeddings", "/v1/embeddings", "embeddings"),
        ("/rerank", "/v1/rerank", "rerank"),
        ("/moderations", "/v1/moderations", "moderations"),
        ("/audio/speech", "/v1/audio/{endpoint}", "audio"),
        ("/images/made/up-by-a-client", "/v1/images/{endpoint}", "images"),
        ("/models", "/v1/models", "models"),
        ("/models/a/b", "/v1/models/{id}", "models"),
        ("/made-up", None, "made-up"),
        ("/", None, ""),
    ],
)
def test_routes_and_operations_are_few(path: str, route: str | None, operation: str) -> None:
    assert (route_of(path), operation_of(path)) == (route, operation)


def test_methods_are_few() -> None:
    assert [method_of(method) for method in ("POST", "post", "X" * 99)] == ["POST", "_OTHER", "_OTHER"]


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ({}, {}),
        ({"max_completion_tokens": 5, "top_p": 1}, {"max_tokens": 5, "top_p": 1.0}),
        ({"seed": 2**63, "temperature": "hot", "max_tokens": True, "stream": 1}, {}),
        ({"stream": True, "presence_penalty": -1}, {"stream": True, "presence_penalty": -1.0}),
    ],
)
def test_a_request_in_numbers(body: dict[str, Any], told: dict[str, Any]) -> None:
    assert of_request(body) == {f"gen_ai.request.{name}": value for name, value in told.items()}


@pytest.mark.parametrize(("kind", "told"), [("json_schema", "json"), ("json_object", "json"), ("text", "text")])
def test_the_output_that_is_asked_for(kind: str, told: str) -> None:
    assert of_request({"response_format": {"type": kind}}) == {"gen_ai.output.type": told}


def test_counts_that_are_not_there_are_not_told() -> None:
    assert of_usage({"prompt_tokens": 1, "completion_tokens_details": None}) == {"gen_ai.usage.input_tokens": 1}


@given(st.dictionaries(st.sampled_from([*conventions._NUMBERS, "stream", "response_format"]), VALUES))
def test_whatever_a_client_says_can_be_told(body: dict[str, Any]) -> None:
    span = TracerProvider(shutdown_on_exit=False).get_tracer("t").start_span("s")
    told = of_request(body)
    span.set_attributes(told)
    assert dict(span.attributes) == told  # type: ignore[attr-defined]
    json.dumps(told)


@given(st.text(alphabet=st.characters()))
def test_a_text_is_cut_and_can_be_sent(text: str) -> None:
    assert len(cut(text)) <= 200
    cut(text + "\ud800").encode()


def test_names_are_those_of_the_conventions() -> None:
    """Of the package that holds them, as far as it has them; theirs says 'moved' of all that is for generative AI."""
    modules = (gen_ai_attributes, http_attributes, server_attributes, url_attributes)
    known = {value for module in modules for value in vars(module).values() if isinstance(value, str)}
    told = of_request(dict.fromkeys(conventions._NUMBERS, 1) | {"stream": True, "response_format": {"type": "text"}})
    details = {"prompt_tokens_details": {"cached_tokens": 1}, "completion_tokens_details": {"reasoning_tokens": 1}}
    told |= of_usage({"prompt_tokens": 1, "completion_tokens": 1, **details})
    assert set(told) <= known
    operations = {value.value for value in gen_ai_attributes.GenAiOperationNameValues}
    assert set(conventions._OPERATIONS.values()) <= operations


def test_providers_are_called_as_the_conventions_call_them() -> None:
    known = {value.value for value in gen_ai_attributes.GenAiProviderNameValues}
    called = {name: profile.provider or name for name in builtin_names() for profile in [load_profile(name)]}
    assert {name for name, provider in called.items() if provider in known} == {
        *("azure", "deepseek", "gemini", "groq", "mistral", "openai", "perplexity", "xai"),
    }
    assert all(provider == name or provider in known for name, provider in called.items())


def test_the_page_has_each_attribute() -> None:
    literal = re.compile(r'"((?:gen_ai|http|url|server|network|user_agent|error|svir)\.[a-z_.]+[a-z])"')
    sources = Path(conventions.__file__).parent.glob("*.py")
    used = {name for source in sources for name in literal.findall(source.read_text("utf-8"))}
    used.remove("svir.path")  # of the scope
    used |= {f"gen_ai.request.{name}" for name, _ in conventions._NUMBERS.values()}
    details = {"prompt_tokens_details": {"cached_tokens": 1}, "completion_tokens_details": {"reasoning_tokens": 1}}
    used |= set(of_usage({"prompt_tokens": 1, "completion_tokens": 1, **details}))
    rows = page("docs/operations/tracing.md").rows("| attribute |")
    assert sorted(name for cells in rows for name in re.findall(r"`([^`]+)`", cells[0])) == sorted(used)
