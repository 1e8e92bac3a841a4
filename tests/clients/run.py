"""Lets a client do all its jobs at a proxy of its own, and keeps what it saw and what the server was sent."""

from __future__ import annotations

import asyncio
import json
import logging
from collections import Counter
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from tests.clients.environments import ROOT, command, environment
from tests.clients.job import Job, plan_of
from tests.clients.scenarios import SCENARIOS
from tests.support.proxy import running_proxy, settings_for

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

    from svir_proxy.conform.upstream import Answer, ScriptedUpstream
    from tests.clients.client import Client

KEY: Final = "client-key"
PROFILE: Final = "lm-studio"
"""The strictest of the local servers, see `tests.clients.history`."""
LIVE_MODEL: Final = "scripted"
PATIENCE: Final = 120.0
"""Seconds that all jobs of a client may take together."""
AT_ONCE: Final = 3
"""Clients that run at a time."""


@dataclass(frozen=True, slots=True)
class Seen:
    """One job, done.

    Attributes:
        outcome: A `tests.clients.job.Outcome`, as a dictionary.
        requests: How often the proxy was asked.
        received: The bodies that reached the scripted upstream, in order.
    """

    outcome: Mapping[str, Any]
    requests: int
    received: list[dict[str, Any]]


def name_of(client: Client, surface: str, scenario: str) -> str:
    """The id of a job, and the model that it asks for."""
    return f"{client.name}.{surface}.{scenario}"


def jobs_of(client: Client) -> list[tuple[str, str]]:
    """Surface and scenario of everything that the client can do."""
    able = [name for name, scenario in SCENARIOS.items() if scenario.task not in client.lacks]
    return [(surface, scenario) for surface in client.surfaces for scenario in able]


class Runs:
    """What *clients* saw, each of which runs once: some at a time, as most of a run is waiting.

    *live* is the URL of a real server, if there is one. Made in the loop, and to be closed there.
    """

    def __init__(  # noqa: PLR0917 - what a run needs
        self,
        clients: Iterable[Client],
        upstream: ScriptedUpstream,
        live: str | None,
        requests: Mapping[str, int],
        cache: Path,
        folder: Path,
    ) -> None:
        self._upstream = upstream
        self._live = live
        self._requests = requests
        self._cache = cache
        self._folder = folder
        places = asyncio.Semaphore(AT_ONCE)
        self._runs = {client.name: asyncio.create_task(self._run(client, places)) for client in clients}

    async def of(self, client: Client) -> dict[str, Seen]:
        """What one client saw, by job; Unavailable where it cannot run, AssertionError where its process failed."""
        return await self._runs[client.name]

    async def aclose(self) -> None:
        """End what nobody has waited for."""
        for run in self._runs.values():
            run.cancel()
        await asyncio.gather(*self._runs.values(), return_exceptions=True)

    async def _run(self, client: Client, places: asyncio.Semaphore) -> dict[str, Seen]:
        async with places, AsyncExitStack() as stack:
            arguments = await asyncio.to_thread(command, client, self._cache)
            scripted = await stack.enter_async_context(_proxy(self._upstream.base_url, PROFILE))
            # No answer is as quick as this, so every stream begins before it.
            hasty = await stack.enter_async_context(_proxy(self._upstream.base_url, PROFILE, commit_after=1e-9))
            live = self._live and await stack.enter_async_context(_proxy(self._live, "llama-cpp"))
            jobs = []
            for surface, scenario in jobs_of(client):
                row = SCENARIOS[scenario]
                if base_url := live if row.live else hasty if row.hasty else scripted:
                    jobs.append(_job(client, surface, scenario, base_url))
            outcomes = await self._do(client, arguments, jobs)
        return {
            job.id: Seen(outcomes[job.id], self._requests[job.id], _received(self._upstream.script.get(job.model)))
            for job in jobs
        }

    async def _do(self, client: Client, arguments: list[str], jobs: list[Job]) -> dict[str, Any]:
        plan, result = self._folder / f"{client.name}.plan.json", self._folder / f"{client.name}.json"
        plan.write_text(plan_of(jobs), "utf-8")
        process = await asyncio.create_subprocess_exec(
            *arguments,
            str(plan),
            str(result),
            cwd=ROOT,
            env=environment(),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        try:
            async with asyncio.timeout(PATIENCE):
                said, _ = await process.communicate()
        except TimeoutError:
            process.kill()
            said, _ = await process.communicate()
        finally:
            if process.returncode is None:
                process.kill()
        assert process.returncode == 0, f"{client.name} ended with {process.returncode}:\n{said.decode()[-4000:]}"
        outcomes: dict[str, Any] = json.loads(result.read_text("utf-8"))
        return outcomes


def _proxy(base_url: str, profile: str, **streaming: float) -> AbstractAsyncContextManager[str]:
    return running_proxy(settings_for(base_url, profile, auth={"keys": [KEY]}, streaming=streaming))


def _job(client: Client, surface: str, scenario: str, base_url: str) -> Job:
    row, name = SCENARIOS[scenario], name_of(client, surface, scenario)
    return Job(
        id=name,
        surface=surface,
        model=LIVE_MODEL if row.live else name,
        key="another-key" if row.wrong_key else KEY,
        task=row.task,
        base_url=f"{base_url}/v1",
        prompt=f"What do you say? [[s:{row.upstream}]]" if row.live else "What do you say?",
    )


def _received(answer: Answer | None) -> list[dict[str, Any]]:
    bodies = []
    while answer is not None:
        bodies += [received.json() for received in answer.received]
        answer = answer.then
    return bodies


@contextmanager
def requests_counted() -> Iterator[Counter[str]]:
    """Counts the lines of the proxy's log of requests by the id that the client gave."""
    counted: Counter[str] = Counter()

    class Count(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            counted[getattr(record, "told", {}).get("request_id")] += 1

    logger, counter = logging.getLogger("svir_proxy.requests"), Count()
    level = logger.level
    logger.addHandler(counter)
    logger.setLevel(logging.INFO)
    try:
        yield counted
    finally:
        logger.setLevel(level)
        logger.removeHandler(counter)
