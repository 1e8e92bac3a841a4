"""Clients who ask as often as they like, whatever becomes of it, and what each of them saw."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from reliability.server import words
from svir_proxy.conform import dialect
from svir_proxy.conform.judge import Seen, form
from tests.faults.client import Client, HttpError
from tests.faults.upstream import Exchange

PATIENCE: Final = 5.0
"""Seconds after which a client gives up."""
_LONGEST_WAIT: Final = 60
"""Seconds that a refusal may tell a client to wait."""


@dataclass(slots=True)
class Outcome:
    """What a load came to.

    Attributes:
        asked: Requests.
        served: Seconds of every whole answer.
        refused: Seconds of every 503 with Retry-After.
        left: Clients who gave up.
        elapsed: Seconds from the first request to the last answer.
        problems: Answers that were wrong, or lost; one line for each.
        connections: The most that were open at a time.
    """

    asked: int = 0
    served: list[float] = field(default_factory=list)
    refused: list[float] = field(default_factory=list)
    left: int = 0
    elapsed: float = 0.0
    problems: list[str] = field(default_factory=list)
    connections: int = 0


@dataclass(frozen=True, slots=True)
class _Answer:
    body: dict[str, Any]
    seen: Seen | None
    """None: the client gave up."""
    seconds: float
    lost: str = ""


class Load:
    """Requests to the proxy at *port*. A connection that is free is used again; a new one is opened where none is."""

    def __init__(self, port: int, model: str = "m") -> None:
        self._port = port
        self._model = model
        self._free: list[Client] = []
        self._open = self._most = 0
        self._numbers = 0

    async def offer(self, rate: float, seconds: float, seed: int) -> Outcome:
        """Ask *rate* times a second on an average, at moments by chance; every second request is for a stream."""
        rng = random.Random(seed)
        loop = asyncio.get_running_loop()
        start = at = loop.time()
        tasks: list[asyncio.Task[_Answer]] = []
        while (at := at + rng.expovariate(rate)) < start + seconds:
            if (wait := at - loop.time()) > 0:
                await asyncio.sleep(wait)
            tasks.append(asyncio.create_task(self._ask(stream=len(tasks) % 2 > 0)))
        answers = await asyncio.gather(*tasks)
        elapsed = loop.time() - start
        outcome = self.examine(answers)
        outcome.elapsed = elapsed
        return outcome

    def together(self, count: int) -> list[asyncio.Task[_Answer]]:
        """Ask *count* times at once, each on a connection of its own."""
        return [asyncio.create_task(self._ask(stream=number % 2 > 0)) for number in range(count)]

    def examine(self, answers: Sequence[_Answer]) -> Outcome:
        """What became of them; judged afterwards, so that judging costs no client its time."""
        outcome = Outcome(len(answers), connections=self._most)
        self._most = self._open
        for answer in answers:
            name = answer.body["messages"][0]["content"]
            if answer.lost:
                outcome.problems.append(f"{name} lost: {answer.lost}")
            elif answer.seen is None:
                outcome.left += 1
            elif problems := _problems(name, answer.body, answer.seen):
                outcome.problems.append(f"{name} wrong: {problems}")
            else:
                (outcome.served if answer.seen.status == 200 else outcome.refused).append(answer.seconds)
        return outcome

    async def close(self) -> None:
        """Close all connections that are free."""
        for client in self._free:
            await _close(client)
            self._open -= 1
        self._free.clear()

    async def _ask(self, *, stream: bool) -> _Answer:
        self._numbers += 1
        body = {
            "model": self._model,
            "messages": [{"role": "user", "content": f"n{self._numbers}"}],
            "stream": stream,
        }
        loop = asyncio.get_running_loop()
        start = loop.time()
        client, seen, lost = None, None, ""
        try:
            async with asyncio.timeout(PATIENCE):
                client = await self._client()
                seen = await client.ask(body, Exchange((), stream))
        except TimeoutError:
            pass
        except (HttpError, OSError, EOFError) as exc:
            lost = repr(exc)
        answer = _Answer(body, seen, loop.time() - start, lost)
        if client is not None:
            if seen is not None and seen.clean and seen.headers.get("connection") != "close":
                self._free.append(client)
            else:
                await _close(client)
                self._open -= 1
        return answer

    async def _client(self) -> Client:
        if self._free:
            return self._free.pop()
        client = await Client(self._port).__aenter__()
        self._open += 1
        self._most = max(self._most, self._open)
        return client


async def _close(client: Client) -> None:
    with contextlib.suppress(OSError):  # it may be broken already
        await client.__aexit__()


def _problems(name: str, body: dict[str, Any], seen: Seen) -> list[str]:
    problems = form(body, seen)
    if seen.status == 200:
        said = (dialect.summarize if body["stream"] else dialect.summarize_completion)(seen.body)
        if said["content"] != "".join(words(name)) or said["error"] is not None:
            problems.append(f"said {said['content']!r}, {said['error']}")
    elif seen.status == 503:
        wait = seen.headers.get("retry-after", "")
        if not (wait.isdigit() and int(wait) <= _LONGEST_WAIT):
            problems.append(f"retry-after is {wait!r}")
        if b'"code":"overloaded"' not in seen.body:
            problems.append(f"{seen.body[:200]!r}")
    else:
        problems.append(f"status {seen.status}: {seen.body[:200]!r}")
    return problems
