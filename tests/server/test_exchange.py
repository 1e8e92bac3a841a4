"""What is asked of a server, how often, and what comes of it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any, Final

import httpx
import pytest

from svir_proxy.errors import ProxyError
from svir_proxy.server.answer import WholeAnswer
from svir_proxy.server.catalog import Route
from svir_proxy.server.exchange import Exchange
from svir_proxy.server.learned import Learned
from svir_proxy.server.upstream import Upstream
from svir_proxy.settings import Backend, LimitSettings
from tests.server.conftest import Clock
from tests.server.support import COMPLETION, DONE, FINISH, client_request, event, text
from tests.server.transport.raw_server import soon, until

pytestmark = pytest.mark.usefixtures("leaves_nothing")

TOOLS: Final = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]
REQUIRED: Final = {"tools": TOOLS, "tool_choice": "required"}
IGNORES_REQUIRED: Final = {"request": {"tool_choice": {"required": "ignored"}}}
CALLED: Final = {"tool_calls": [{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}]}


def completion(message: dict[str, Any], reason: str = "stop") -> httpx.Response:
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": reason}
    return httpx.Response(200, json={**COMPLETION, "choices": [choice]})


def rejection(message: str, status: int = 400) -> httpx.Response:
    return httpx.Response(status, json={"error": {"message": message}})


class Asked:
    """One request to a server that gives *answers* in order."""

    def __init__(
        self,
        *answers: httpx.Response,
        learned: Learned | None = None,
        backend: dict[str, Any] | None = None,
        **body: Any,
    ) -> None:
        self._answers = list(answers)
        self.bodies: list[Any] = []
        values = {"name": "b", "base_url": "http://server", **(backend or {})}
        self.upstream = Upstream(
            Backend.model_validate(values), LimitSettings(), httpx.MockTransport(self._answer_next)
        )
        self.request = client_request(**body)
        self.answer = WholeAnswer(self.request)
        self.exchange = Exchange(self.request, Route(self.upstream, "m"), learned or Learned())

    def _answer_next(self, request: httpx.Request) -> httpx.Response:
        self.bodies.append(json.loads(request.content))
        return self._answers.pop(0)

    async def run(self) -> ProxyError | None:
        error = await soon(self.exchange.run(self.answer))
        assert self._answers == [], "every answer was asked for"
        return error

    @property
    def message(self) -> Any:
        return json.loads(self.answer.body())["choices"][0]["message"]

    @property
    def notes(self) -> list[str]:
        return [*self.exchange.notes, *self.answer.notes]


async def test_asked_once() -> None:
    asked = Asked(httpx.Response(200, json=COMPLETION))
    assert await asked.run() is None
    assert asked.message["content"] == "one two"
    assert asked.bodies == [{"model": "m", "messages": [{"role": "user", "content": "hi"}]}]


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (rejection("no", 500), "upstream_failed"),
        (rejection("no such model: m", 404), "model_not_found"),
        (httpx.Response(200, content=b"<html>"), "upstream_bad_response"),
        (httpx.Response(204), "stream_truncated"),
        (httpx.Response(302, headers={"location": "http://elsewhere"}), "upstream_bad_response"),
        (httpx.Response(200, content=b"x", headers={"content-encoding": "identity, br"}), "upstream_bad_response"),
    ],
)
async def test_failures_are_results(answer: httpx.Response, kind: str) -> None:
    asked = Asked(answer, user="u")
    error = await asked.run()
    assert error is not None
    assert error.kind == kind


async def test_what_a_rejection_teaches_holds_for_the_next_request() -> None:
    learned = Learned()
    first = Asked(rejection("unknown field 'user'"), completion({"content": "x"}), learned=learned, user="u", seed=1)
    assert await first.run() is None
    assert ["user" in body for body in first.bodies] == [True, False]
    assert all("seed" in body for body in first.bodies)
    assert "retry.drop=user" in first.notes
    second = Asked(completion({"content": "x"}), learned=learned, user="u")
    assert await second.run() is None
    assert "user" not in second.bodies[0]
    assert "drop=user" in second.notes


async def test_a_second_rejection_ends_it_and_teaches_nothing() -> None:
    learned = Learned()
    asked = Asked(
        rejection("unknown field 'user'"), rejection("unknown field 'seed'"), learned=learned, user="u", seed=1
    )
    error = await asked.run()
    assert error is not None
    assert "'seed'" in error.message
    assert learned.facts("b", "m") == {}


async def test_nothing_is_asked_again_after_output() -> None:
    late = event({"error": {"message": "unknown field 'user'", "code": 400}})
    asked = Asked(httpx.Response(200, content=text("a") + late), user="u")
    error = await asked.run()
    assert error is not None
    assert error.status == 400


async def test_a_demand_that_is_met_at_once() -> None:
    asked = Asked(completion(CALLED, "tool_calls"), backend={"overrides": IGNORES_REQUIRED}, **REQUIRED)
    assert await asked.run() is None
    assert asked.message["tool_calls"][0]["function"]["name"] == "f"
    assert not [note for note in asked.notes if "unmet" in note or "again" in note]


async def test_a_demand_that_is_met_when_asked_again() -> None:
    asked = Asked(
        completion({"content": "I would rather not."}),
        completion(CALLED, "tool_calls"),
        backend={"overrides": IGNORES_REQUIRED},
        **REQUIRED,
    )
    assert await asked.run() is None
    assert asked.message["tool_calls"][0]["function"]["name"] == "f"
    assert asked.message["content"] is None, "nothing is left of the first answer"
    assert "tool_choice.required=asked_again" in asked.notes
    assert {"role": "assistant", "content": "I would rather not."} in asked.bodies[1]["messages"]


@pytest.mark.parametrize("strict", [False, True])
async def test_a_demand_that_is_not_met(strict) -> None:
    backend = {"overrides": IGNORES_REQUIRED, "strict": strict}
    asked = Asked(completion({"content": "no"}), completion({"content": "still no"}), backend=backend, **REQUIRED)
    error = await asked.run()
    if strict:
        assert error is not None
        assert (error.kind, error.param) == ("unsupported_parameter", "tool_choice")
        assert not asked.answer.has_output
    else:
        assert error is None
        assert asked.message["content"] == "still no"
        assert "tool_choice.required=unmet" in asked.notes


async def test_a_repeat_that_fails_leaves_the_first_answer() -> None:
    asked = Asked(
        completion({"content": "first"}), rejection("no", 500), backend={"overrides": IGNORES_REQUIRED}, **REQUIRED
    )
    assert await asked.run() is None
    assert asked.message["content"] == "first"
    assert "tool_choice.required=unmet" in asked.notes


async def test_an_answer_that_was_cut_short_is_not_asked_for_again() -> None:
    asked = Asked(completion({"content": "I wo"}, "length"), backend={"overrides": IGNORES_REQUIRED}, **REQUIRED)
    assert await asked.run() is None
    assert asked.message["content"] == "I wo"


async def test_a_held_answer_that_fails_keeps_its_status() -> None:
    broken = httpx.Response(200, content=text("some output") + event({"error": {"message": "died"}}))
    asked = Asked(broken, backend={"overrides": IGNORES_REQUIRED}, **REQUIRED)
    error = await asked.run()
    assert error is not None
    assert error.kind == "upstream_failed"
    assert not asked.answer.has_output


class Slow(httpx.AsyncByteStream):
    """A body that waits for the test before its last part."""

    def __init__(self) -> None:
        self.go_on = asyncio.Event()
        self.waits = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield text("no")
        self.waits = True
        await self.go_on.wait()
        yield FINISH + DONE


async def test_a_repeat_has_the_whole_time_again(clock: Clock) -> None:
    first, second = Slow(), Slow()
    backend = {"overrides": IGNORES_REQUIRED, "timeouts": {"first_output": 60, "idle": 5}}
    asked = Asked(httpx.Response(200, stream=first), httpx.Response(200, stream=second), backend=backend, **REQUIRED)
    running = asyncio.create_task(asked.run())
    await until(lambda: first.waits)
    clock.advance(4)
    first.go_on.set()
    await until(lambda: second.waits)
    clock.advance(4)
    second.go_on.set()
    assert await soon(running) is None
    assert "tool_choice.required=unmet" in asked.notes


@pytest.mark.parametrize(("listed", "asked"), [(True, ""), (False, "m")])
async def test_who_is_asked_for(listed, asked: str) -> None:
    upstream = Asked().upstream
    assert Exchange(client_request(), Route(upstream, "m", listed), Learned()).asked == asked


async def test_a_request_that_cannot_go_there_is_refused_at_once() -> None:
    parts = [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}]
    with pytest.raises(ProxyError) as caught:
        Asked(backend={"overrides": {"request": {"images": "rejected"}}}, messages=[{"role": "user", "content": parts}])
    assert caught.value.kind == "image_not_supported"
