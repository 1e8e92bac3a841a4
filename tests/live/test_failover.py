"""Three real llama.cpp servers behind one proxy, and one of them is killed while all of them are at work."""

from __future__ import annotations

import asyncio
import json
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Any, Final

import httpx
import pytest
import yaml

from svir_proxy.client_request import ClientRequest
from svir_proxy.conform.dialect import check_completion, check_stream
from svir_proxy.server.routing import conversation, in_order
from svir_proxy.settings import Backend
from tests.live.conftest import UPSTREAM_KEY
from tests.live.processes import PATIENCE, llama_server, proxy_server
from tests.live.test_disconnect import Slots

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.live.processes import Child

pytestmark = pytest.mark.live

NAMES: Final = ("one", "two", "three")
VICTIM: Final = "one"
SAID: Final = "Hello! How can I help you today?"
WORKERS: Final = 6
LONG: Final = {"max_tokens": 1200}
"""So long that the victim is killed in the middle of it."""


@dataclass
class Fleet:
    servers: dict[str, Child]
    proxy: Child
    backends: list[Backend]
    _numbers: Iterator[int] = field(default_factory=count)

    def body(self, script: str, at: str | None = None, **more: Any) -> dict[str, Any]:
        """A request of a conversation of its own, which is at home at the backend *at*."""
        while True:
            said = f"Request {next(self._numbers)}, please. [[s:{script}]]"
            body = {"model": "scripted", "messages": [{"role": "user", "content": said}], **more}
            key = conversation(ClientRequest.from_body(body, id="r", received=1))
            if at in (None, in_order(self.backends, lambda backend: backend, key)[0].name):
                return body


@dataclass
class Answered:
    """What became of a request."""

    status: int
    backend: str
    notes: str
    body: bytes

    def is_whole(self) -> bool:
        if self.body.startswith(b"data:"):
            assert check_stream(self.body, False) == []
            return self.body.endswith(b"data: [DONE]\n\n")
        assert check_completion(self.body) == [], self.body
        return True

    @property
    def text(self) -> str:
        if not self.body.startswith(b"data:"):
            return str(json.loads(self.body)["choices"][0]["message"]["content"])
        lines = [line[6:] for line in self.body.decode().splitlines() if line.startswith("data: {")]
        chunks = [json.loads(line).get("choices") or [{"delta": {}}] for line in lines]
        return "".join(choices[0]["delta"].get("content") or "" for choices in chunks)


@pytest.fixture
def fleet(model: Path, tmp_path: Path) -> Iterator[Fleet]:
    with ExitStack() as stack:
        servers = {name: stack.enter_context(llama_server(model, UPSTREAM_KEY)) for name in NAMES}
        backends = [
            {
                "name": name,
                "base_url": server.url,
                "profile": "llama-cpp",
                "api_key": UPSTREAM_KEY,
                "models": {"scripted": "scripted"},
            }
            for name, server in servers.items()
        ]
        config = tmp_path / "svir.yaml"
        config.write_text(yaml.safe_dump({"backends": backends}), encoding="utf-8")
        proxy = stack.enter_context(proxy_server(config))
        yield Fleet(servers, proxy, [Backend.model_validate(backend) for backend in backends])


async def ask(client: httpx.AsyncClient, body: dict[str, Any], begun: asyncio.Event | None = None) -> Answered:
    """The whole answer; *begun* is set with the first output of a stream."""
    async with client.stream("POST", "/v1/chat/completions", json=body) as response:
        data = b""
        async for part in response.aiter_bytes():
            data += part
            if begun is not None and b'"content":"r' in data:
                begun.set()
    headers = response.headers
    return Answered(response.status_code, headers["x-svir-backend"], headers.get("x-svir-rewrites", ""), data)


async def test_one_of_three_is_killed_in_mid_traffic(fleet: Fleet) -> None:
    before: list[Answered] = []
    after: list[Answered] = []
    all_at_work, killed = asyncio.Event(), asyncio.Event()

    async def work(client: httpx.AsyncClient, number: int) -> None:
        """Short requests one after the other, streamed and plain, for as long as it takes to see what happens."""
        left = 8
        for turn in count(number):
            began_after = killed.is_set()
            answered = await ask(client, fleet.body("default", NAMES[turn % 3], stream=turn % 2 == 0))
            (after if began_after else before).append(answered)
            if {answered.backend for answered in before} == set(NAMES):
                all_at_work.set()
            left -= began_after
            if not left:
                return

    limits = httpx.Limits(max_connections=None)
    async with (
        asyncio.timeout(PATIENCE),
        httpx.AsyncClient(base_url=fleet.proxy.url, timeout=PATIENCE, limits=limits) as client,
    ):
        workers = [asyncio.create_task(work(client, number)) for number in range(WORKERS)]
        await all_at_work.wait()
        begun = asyncio.Event()
        stream = asyncio.create_task(ask(client, fleet.body("loop", VICTIM, stream=True), begun))
        plain = [asyncio.create_task(ask(client, fleet.body("loop", VICTIM, **LONG))) for _ in range(2)]
        await begun.wait()
        slots = Slots(fleet.servers[VICTIM].url)
        await asyncio.to_thread(slots.wait_until, _three_generate)
        await asyncio.to_thread(fleet.servers[VICTIM].kill)
        killed.set()
        lost = await stream
        moved = await asyncio.gather(*plain)
        await asyncio.gather(*workers)
        later = [await ask(client, fleet.body("default", VICTIM, stream=streamed)) for streamed in (True, False)]

    # What had no output yet, and what nothing of was sent: not one of them failed.
    for answered in (*before, *after, *later):
        if answered.status == 200 and not answered.is_whole():
            assert answered in before
            assert answered.backend == VICTIM
            assert answered.text, "it had output when its server died"
            continue
        assert (answered.status, answered.text) == (200, SAID), answered
    assert {answered.backend for answered in (*after, *later)} == set(NAMES) - {VICTIM}
    assert any(f"failover={VICTIM}:" in answered.notes for answered in (*before, *after))
    for answered in moved:
        assert (answered.status, answered.is_whole()) == (200, True)
        assert answered.backend != VICTIM
        assert f"failover={VICTIM}:" in answered.notes
        assert answered.text.startswith("round and round")

    # What had output cannot be taken back: the stream ends with an error, once, and asks nobody else.
    assert (lost.status, lost.backend) == (200, VICTIM)
    assert not lost.is_whole()
    assert b'"code":"stream_truncated"' in lost.body.rpartition(b"data: ")[2]


def _three_generate(slots: list[dict[str, Any]]) -> bool:
    return sum(slot["is_processing"] and slot["next_token"][0]["n_decoded"] > 0 for slot in slots) >= 3
