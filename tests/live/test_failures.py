"""Failures of a real llama.cpp, before and after output began, as the SDK's exceptions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import openai
import pytest

from tests.live.answers import TOOLS, Answer, ask, prompt
from tests.live.conftest import UPSTREAM_KEY
from tests.live.processes import HERE, llama_server

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    ClientOf = Callable[..., AbstractContextManager[openai.OpenAI]]

pytestmark = pytest.mark.live

both_ways = pytest.mark.parametrize("streamed", [True, False], ids=["streamed", "plain"])

IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}


@pytest.fixture(scope="module")
def failing(model: Path, client_of: ClientOf) -> Iterator[openai.OpenAI]:
    """A client of a server whose template has another form of calls than the model: its parser fails on them."""
    with llama_server(model, UPSTREAM_KEY, HERE / "bare_json.jinja") as server, client_of(server.url) as client:
        yield client


@both_ways
@pytest.mark.parametrize(
    ("content", "code", "message"),
    [
        # the server says 500 for this one
        ([IMAGE], "image_not_supported", "image input is not supported"),
        ("word " * 20_000, "context_length_exceeded", "maximum context length"),
    ],
    ids=["image", "context"],
)
def test_a_request_that_can_never_work(
    client: openai.OpenAI, content: Any, code: str, message: str, *, streamed: bool
) -> None:
    with pytest.raises(openai.BadRequestError, match=message) as caught:
        ask(client, "", streamed=streamed, messages=[{"role": "user", "content": content}])
    assert (caught.value.code, caught.value.type) == (code, "invalid_request_error")
    assert caught.value.response.headers["x-should-retry"] == "false"


@both_ways
def test_a_schema_the_server_cannot_read(client: openai.OpenAI, *, streamed: bool) -> None:
    schema = {"name": "answer", "schema": {"type": "object", "properties": {"city": {"$ref": "#/$defs/missing"}}}}
    with pytest.raises(openai.BadRequestError, match="JSON schema error"):
        ask(client, "json", streamed=streamed, response_format={"type": "json_schema", "json_schema": schema})


@both_ways
def test_a_failure_before_output(failing: openai.OpenAI, *, streamed: bool) -> None:
    with pytest.raises(openai.InternalServerError, match="does not match the expected") as caught:
        ask(failing, "json", streamed=streamed, tools=TOOLS)
    assert (caught.value.status_code, caught.value.code) == (502, "upstream_failed")


def test_a_failure_after_output(failing: openai.OpenAI) -> None:
    answer = Answer()
    request: dict[str, Any] = {"model": "scripted", "messages": prompt("say-call"), "tools": TOOLS, "stream": True}
    with (
        pytest.raises(openai.APIError, match="does not match the expected") as caught,
        failing.chat.completions.create(**request) as stream,
    ):
        answer.take(stream)
    assert not isinstance(caught.value, openai.APIStatusError)  # the status was 200
    assert caught.value.code == "upstream_failed"
    assert answer.content.startswith("I will open it.\n")
    assert answer.finish_reason is None


def test_a_failure_after_output_of_a_plain_request(failing: openai.OpenAI) -> None:
    with pytest.raises(openai.InternalServerError, match="does not match the expected") as caught:
        ask(failing, "say-call", streamed=False, tools=TOOLS)
    assert (caught.value.status_code, caught.value.code) == (502, "upstream_failed")


@both_ways
def test_a_wrong_key_of_the_client(client: openai.OpenAI, *, streamed: bool) -> None:
    with pytest.raises(openai.AuthenticationError) as caught:
        ask(client.with_options(api_key="wrong"), "default", streamed=streamed)
    assert (caught.value.status_code, caught.value.code) == (401, "invalid_api_key")


def test_a_wrong_key_of_the_proxy(llama: str, client_of: ClientOf) -> None:
    with client_of(llama, api_key="wrong-upstream-key") as client:
        for streamed in (True, False):
            with pytest.raises(openai.InternalServerError) as caught:
                ask(client, "default", streamed=streamed)
            assert (caught.value.status_code, caught.value.code) == (502, "upstream_auth_failed")
            assert "wrong-upstream-key" not in caught.value.response.text
