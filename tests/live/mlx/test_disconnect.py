"""A client that leaves in mid-answer: the generation stops, whichever way the client had asked."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

import openai
import pytest

from tests.live.answers import ask, prompt
from tests.live.processes import PATIENCE

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from tests.live.mlx.servers import MLXServer

pytestmark = pytest.mark.live

ENDLESS: dict[str, Any] = {"model": "scripted", "messages": prompt("endless"), "max_tokens": 1_000_000}


class Generation:
    """The endless answers of a server: whether it still works on one."""

    def __init__(self, server: MLXServer, client: openai.OpenAI) -> None:
        self._server = server
        self._client = client

    def runs(self) -> bool:
        """Whether a token of it comes with those of another answer: a server generates all its answers in step."""
        before = self._server.tokens("endless")
        ask(self._client, "default", streamed=True)
        return self._server.tokens("endless") > before

    def wait_until(self, holds: Callable[[Generation], bool]) -> None:
        """Each look is a whole answer, so the loop needs no pause."""
        end = time.monotonic() + PATIENCE
        while not holds(self):
            assert time.monotonic() < end


def stopped(generation: Generation) -> bool:
    return not generation.runs()


@pytest.fixture
def generation(server: MLXServer, client: openai.OpenAI) -> Generation:
    return Generation(server, client)


@pytest.fixture
async def async_client(client: openai.OpenAI) -> AsyncIterator[openai.AsyncOpenAI]:
    async with openai.AsyncOpenAI(base_url=client.base_url, api_key=client.api_key, max_retries=0) as async_client:
        yield async_client


def test_the_client_of_a_stream_leaves(client: openai.OpenAI, generation: Generation) -> None:
    with client.chat.completions.create(**ENDLESS, stream=True) as stream:
        next(stream)
        generation.wait_until(Generation.runs)
    generation.wait_until(stopped)


async def test_the_client_of_a_plain_request_leaves(async_client: openai.AsyncOpenAI, generation: Generation) -> None:
    waiting = asyncio.create_task(async_client.chat.completions.create(**ENDLESS))
    await asyncio.to_thread(generation.wait_until, Generation.runs)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await asyncio.to_thread(generation.wait_until, stopped)
