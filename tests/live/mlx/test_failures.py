"""A computation that fails in mid-answer. In mlx-lm it takes the server's only generation thread with it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import openai
import pytest

from tests.live.answers import Answer, ask, prompt
from tests.live.mlx.scripts import HELLO

if TYPE_CHECKING:
    from tests.live.mlx.conftest import ProxyOf, ServerOf

pytestmark = pytest.mark.live

DOOMED: dict[str, Any] = {"model": "scripted", "messages": prompt("doomed")}


@pytest.mark.parametrize("streamed", [True, False], ids=["streamed", "plain"])
def test_the_computation_fails(server_of: ServerOf, proxy_of: ProxyOf, kind: str, *, streamed: bool) -> None:
    answer = Answer()
    with server_of() as server, proxy_of(server) as client:
        if streamed:
            with pytest.raises(openai.APIError) as caught, client.chat.completions.create(**DOOMED, stream=True) as it:
                answer.take(it)
            assert not isinstance(caught.value, openai.APIStatusError)  # the status was 200
            assert answer.content
            assert HELLO.startswith(answer.content)
            assert answer.finish_reason is None
        else:
            with pytest.raises(openai.InternalServerError) as caught:
                client.chat.completions.create(**DOOMED)
            assert caught.value.response.status_code == 502
        assert caught.value.code == {"mlx-lm": "stream_truncated", "mlx-vlm": "upstream_failed"}[kind]
        if kind == "mlx-vlm":
            assert ask(client, "default", streamed=streamed).content == HELLO
            return
        with pytest.raises(openai.InternalServerError, match="generation thread died") as after:
            ask(client, "default", streamed=streamed)
        assert (after.value.status_code, after.value.code) == (502, "upstream_failed")
