"""What a real MLX server trips over, made into what it takes, or refused before it is asked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import httpx
import openai
import pytest

from tests.live.answers import TOOLS, ask, prompt
from tests.live.mlx.scripts import HELLO

if TYPE_CHECKING:
    from tests.live.mlx.conftest import ProxyOf
    from tests.live.mlx.servers import MLXServer

pytestmark = [pytest.mark.live, pytest.mark.parametrize("streamed", [True, False], ids=["streamed", "plain"])]

NULLS: Any = {"max_tokens": None, "temperature": None, "top_p": None}
IMAGE: Any = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}
USER: Any = prompt("default")[0]


def test_nulls(client: openai.OpenAI, server: MLXServer, *, streamed: bool) -> None:
    body = {"model": server.model, "messages": [USER], "stream": streamed, **NULLS}
    assert httpx.post(f"{server.url}/v1/chat/completions", json=body).status_code in (400, 422)
    assert ask(client, "default", streamed=streamed, **NULLS).content == HELLO


def test_developer(client: openai.OpenAI, server: MLXServer, *, streamed: bool) -> None:
    messages = [{"role": "developer", "content": "Be brief."}, USER]
    assert ask(client, "", messages=messages, streamed=streamed).content == HELLO
    assert server.prompt().startswith("<|im_start|>system\nBe brief.")


def test_functions(client: openai.OpenAI, server: MLXServer, *, streamed: bool) -> None:
    functions = [tool["function"] for tool in TOOLS]
    answer = ask(client, "call", functions=functions, function_call="auto", streamed=streamed)
    assert answer.calls == [("open_locker", '{"id": 7}')]
    assert "get_weather" in server.prompt()


def test_empty_arguments(client: openai.OpenAI, server: MLXServer, *, streamed: bool) -> None:
    call = {"id": "call_1", "type": "function", "function": {"name": "open_locker", "arguments": ""}}
    result = {"role": "tool", "tool_call_id": "call_1", "content": [{"type": "text", "text": "It is open."}]}
    messages = [USER, {"role": "assistant", "tool_calls": [call]}, result]
    assert ask(client, "", messages=messages, tools=TOOLS, streamed=streamed).content == HELLO
    assert '{"name": "open_locker", "arguments": {}}' in server.prompt()


def test_a_refusal(client: openai.OpenAI, server: MLXServer, *, streamed: bool) -> None:
    refused = {"role": "assistant", "content": [{"type": "refusal", "refusal": "I cannot do that."}]}
    assert ask(client, "", messages=[USER, refused, USER], streamed=streamed).content == HELLO
    assert "<|im_start|>assistant\nI cannot do that.<|im_end|>" in server.prompt()


@pytest.mark.parametrize("overrides", [{}, {"request": {"late_system": "rejected"}}], ids=["learned", "known"])
def test_late_system(server: MLXServer, proxy_of: ProxyOf, overrides: dict[str, Any], *, streamed: bool) -> None:
    messages = [{"role": "system", "content": "Be brief."}, USER, {"role": "system", "content": "Be kind."}]
    with proxy_of(server, overrides=overrides) as client:
        assert ask(client, "", messages=messages, streamed=streamed).content == HELLO
    assert server.prompt().startswith("<|im_start|>system\nBe brief.\n\nBe kind.<|im_end|>")


def test_an_image(server: MLXServer, proxy_of: ProxyOf, kind: str, *, streamed: bool) -> None:
    # mlx-vlm, whose models mostly see, answers for one that does not as if there were no image
    overrides = {"request": {"images": "ignored"}} if kind == "mlx-vlm" else {}
    messages = [{"role": "user", "content": [{"type": "text", "text": "What is it?"}, IMAGE]}]
    with proxy_of(server, overrides=overrides) as client:
        before = server.requests()
        with pytest.raises(openai.BadRequestError) as caught:
            ask(client, "", messages=messages, streamed=streamed)
    assert (caught.value.code, caught.value.param) == ("image_not_supported", "messages")
    assert _posts(server) == before.count("POST /v1/chat/completions")


def test_an_unknown_model(client: openai.OpenAI, server: MLXServer, *, streamed: bool) -> None:
    before = _posts(server)
    for model in ("missing", f"{server.model}/../cache"):
        with pytest.raises(openai.NotFoundError) as caught:
            ask(client, "default", model=model, streamed=streamed)
        assert (caught.value.code, caught.value.param) == ("model_not_found", "model")
    assert _posts(server) == before  # it would have tried to load them


def test_the_models_own_name(client: openai.OpenAI, server: MLXServer, *, streamed: bool) -> None:
    assert {"scripted"} < {model.id for model in client.models.list().data}
    assert ask(client, "default", model=server.model, streamed=streamed).content == HELLO


def _posts(server: MLXServer) -> int:
    return server.requests().count("POST /v1/chat/completions")
