"""A side that goes away: the client in mid-answer, and the server in mid-answer."""

from __future__ import annotations

import asyncio
import time
from itertools import islice
from typing import TYPE_CHECKING, Any

import httpx
import openai
import pytest

from tests.live.answers import Answer, ask, prompt
from tests.live.conftest import UPSTREAM_KEY
from tests.live.processes import PATIENCE, llama_server

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from contextlib import AbstractContextManager
    from pathlib import Path

    ClientOf = Callable[..., AbstractContextManager[openai.OpenAI]]

pytestmark = pytest.mark.live

ENDLESS: dict[str, Any] = {"model": "scripted", "messages": prompt("loop")}


class Slots:
    """What a model server says it is working on."""

    def __init__(self, url: str) -> None:
        self._url = url

    def wait_until(self, holds: Callable[[list[dict[str, Any]]], bool]) -> list[dict[str, Any]]:
        """The first answer for which *holds*. Each look is a request, so the loop needs no pause."""
        end = time.monotonic() + PATIENCE
        while True:
            response = httpx.get(f"{self._url}/slots", headers={"authorization": f"Bearer {UPSTREAM_KEY}"})
            slots: list[dict[str, Any]] = response.raise_for_status().json()
            if holds(slots):
                return slots
            assert time.monotonic() < end, slots


def generating(slots: list[dict[str, Any]]) -> bool:
    return any(slot["is_processing"] and slot["next_token"][0]["n_decoded"] > 0 for slot in slots)


def idle(slots: list[dict[str, Any]]) -> bool:
    return not any(slot["is_processing"] for slot in slots)


def cut_short(slots: list[dict[str, Any]]) -> bool:
    """Whether the latest task was stopped: one that came to its own end has no next token."""
    latest = max(slots, key=lambda slot: slot.get("id_task", -1))
    return bool(latest["next_token"][0]["has_next_token"])


@pytest.fixture
async def async_client(client: openai.OpenAI) -> AsyncIterator[openai.AsyncOpenAI]:
    async with openai.AsyncOpenAI(base_url=client.base_url, api_key=client.api_key, max_retries=0) as async_client:
        yield async_client


def test_an_answer_that_nobody_leaves_is_not_cut_short(client: openai.OpenAI, llama: str) -> None:
    assert ask(client, "default", streamed=True).finish_reason == "stop"
    assert not cut_short(Slots(llama).wait_until(idle))


def test_the_client_of_a_stream_leaves(client: openai.OpenAI, llama: str) -> None:
    with client.chat.completions.create(**ENDLESS, stream=True) as stream:
        next(stream)
        Slots(llama).wait_until(generating)
    assert cut_short(Slots(llama).wait_until(idle))


async def test_the_client_of_a_plain_request_leaves(async_client: openai.AsyncOpenAI, llama: str) -> None:
    waiting = asyncio.create_task(async_client.chat.completions.create(**ENDLESS))
    await asyncio.to_thread(Slots(llama).wait_until, generating)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert cut_short(await asyncio.to_thread(Slots(llama).wait_until, idle))


def test_the_server_of_a_stream_dies(model: Path, client_of: ClientOf) -> None:
    answer = Answer()
    with llama_server(model, UPSTREAM_KEY) as server, client_of(server.url) as client:
        with client.chat.completions.create(**ENDLESS, stream=True) as stream:
            answer.take(islice(stream, 20))
            server.kill()
            with pytest.raises(openai.APIError) as caught:
                answer.take(stream)
        with pytest.raises(openai.InternalServerError) as after:
            ask(client, "default", streamed=True)
    assert caught.value.code == "stream_truncated"
    assert answer.content.startswith("round and round")
    assert answer.finish_reason is None
    assert (after.value.status_code, after.value.code) == (502, "upstream_unreachable")


async def test_the_server_of_a_plain_request_dies(model: Path, client_of: ClientOf) -> None:
    with llama_server(model, UPSTREAM_KEY) as server, client_of(server.url) as client:
        waiting = asyncio.create_task(asyncio.to_thread(ask, client, "loop", streamed=False))
        await asyncio.to_thread(Slots(server.url).wait_until, generating)
        server.kill()
        with pytest.raises(openai.InternalServerError) as caught:
            await waiting
    assert (caught.value.status_code, caught.value.code) == (502, "stream_truncated")
