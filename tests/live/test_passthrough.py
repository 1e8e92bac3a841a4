"""The endpoints beside chat, asked through the proxy of a real llama.cpp by the official SDK."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import httpx
import openai
import pytest

from tests.live.conftest import UPSTREAM_KEY
from tests.live.processes import llama_server

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager
    from pathlib import Path

pytestmark = pytest.mark.live

LENGTH = 8
ASKED: dict[str, Any] = {"prompt": "once upon a time", "max_tokens": LENGTH, "temperature": 0, "seed": 1}


@pytest.mark.parametrize("name", ["scripted", "short"])
def test_completions_are_the_servers_own(
    name: str, llama: str, client_of: Callable[..., AbstractContextManager[openai.OpenAI]]
) -> None:
    with (
        client_of(llama, models={"short": "scripted"}) as client,
        openai.OpenAI(base_url=f"{llama}/v1", api_key=UPSTREAM_KEY, max_retries=0) as direct,
    ):
        raw = client.completions.with_raw_response.create(model=name, **ASKED)
        passed, own = raw.parse(), direct.completions.create(model="scripted", **ASKED)
        streamed = "".join(
            chunk.choices[0].text for chunk in client.completions.create(model=name, stream=True, **ASKED)
        )
    assert passed.choices[0] == own.choices[0]
    assert passed.usage is not None
    assert passed.usage.completion_tokens == LENGTH
    assert streamed == own.choices[0].text
    assert raw.headers["x-svir-backend"] == "live"
    assert raw.headers.get("x-svir-rewrites") == (None if name == "scripted" else "model=alias")
    assert "server" not in raw.headers


def test_embeddings(model: Path, client_of: Callable[..., AbstractContextManager[openai.OpenAI]]) -> None:
    """openai-python asks for base64, and writes the model behind the inputs."""
    inputs = ["once upon a time" * (number + 1) for number in range(20)]
    with (
        llama_server(model, UPSTREAM_KEY, purpose="embeddings") as server,
        client_of(server.url, models={"short": "scripted"}) as client,
        openai.OpenAI(base_url=f"{server.url}/v1", api_key=UPSTREAM_KEY, max_retries=0) as direct,
    ):
        passed = client.embeddings.create(model="short", input=inputs)
        own = direct.embeddings.create(model="scripted", input=inputs)
    assert passed == own
    assert [item.index for item in passed.data] == list(range(20))
    assert len(passed.data[0].embedding) > 1


def test_what_this_server_was_not_started_for(client: openai.OpenAI) -> None:
    """llama.cpp without --embeddings: its own words, and no reason to ask again."""
    with pytest.raises(openai.BadRequestError, match="--embedding") as caught:
        client.embeddings.create(model="scripted", input="hello")
    assert caught.value.response.headers["x-should-retry"] == "false"


def test_what_this_server_cannot_do(client: openai.OpenAI) -> None:
    with pytest.raises(openai.InternalServerError, match=r"POST /v1/images/generations: .*no such path") as caught:
        client.images.generate(model="scripted", prompt="a cat")
    assert caught.value.code == "upstream_bad_response"


def test_a_request_that_it_does_not_understand(client: openai.OpenAI) -> None:
    response = httpx.post(
        f"{client.base_url}completions",
        headers={"authorization": f"Bearer {client.api_key}"},
        json={"model": "scripted", "prompt": {"no": "prompt"}},
    )
    assert response.status_code == 400
    assert set(response.json()["error"]) == {"message", "type", "param", "code"}
