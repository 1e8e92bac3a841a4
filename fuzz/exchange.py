"""Broken responses through a running proxy: real sockets on both sides, a scripted upstream, and the oracle.

An input is what an upstream writes, head included, behind the controls that choose the proxy's profile and the
client's request. Whatever it is, the client gets one canonical answer or one canonical error, properly ended, and the
proxy goes on.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections import Counter
from contextlib import AsyncExitStack
from pathlib import Path
from random import Random
from types import TracebackType
from typing import Any, Final, Self

import httpx

from fuzz.controls import Controls, chosen
from fuzz.targets.circumstances import PROFILES, REQUESTS, numbers, position_of_profile, position_of_request
from fuzz.targets.http import framed
from svir_proxy.conform.cases import Case, load_cases
from svir_proxy.conform.judge import Seen, form
from svir_proxy.conform.upstream import Answer, ScriptedUpstream, json_answer
from tests.support.core import AS_THE_MODEL_WROTE_THEM
from tests.support.mutations import broken
from tests.support.proxy import ask, running_proxy, settings_for

_STATUSES: Final = [200] * 24 + [100, 101, 201, 204, 206, 301, 304, 400, 401, 404, 422, 429, 500, 502, 503]
_TYPES: Final = ["text/event-stream", "application/json", "text/html", "text/plain; charset=utf-16", "", "x"]
_AT_ONCE: Final = 8
"""Exchanges under way at the same time."""
_WHOLE: Final = {"id": "c", "choices": [{"index": 0, "message": {"content": "well"}, "finish_reason": "stop"}]}
_GREETING: Final = {"model": "well", "messages": [{"role": "user", "content": "?"}]}
_CASES: Final = [case for case in load_cases() if len(case.body) < 12_000]
_BODIES: Final = [case.body for case in _CASES]


class Exchanges:
    """An upstream, and one proxy in front of it for each profile asked for. ``async with Exchanges(100) as them``.

    *names*: how many models there are. Each exchange has one of its own: what the proxy learns of a model is no
    help to another.
    """

    def __init__(self, names: int) -> None:
        self._names = iter([f"m-{number}" for number in range(names)])
        self._upstream = ScriptedUpstream({f"m-{number}": Answer() for number in range(names)})
        self._upstream.script["well"] = json_answer(_WHOLE)
        self._proxies: dict[int, asyncio.Task[str]] = {}
        self._stack = AsyncExitStack()
        self.complaints: list[dict[str, Any]] = []
        """What the loop reported: an exception that nobody took."""

    async def __aenter__(self) -> Self:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: self.complaints.append(context))
        await self._stack.__aenter__()
        await self._stack.enter_async_context(self._upstream)
        self._client = await self._stack.enter_async_context(httpx.AsyncClient(trust_env=False, timeout=60))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.__aexit__(kind, value, trace)

    async def problems(self, data: bytes) -> tuple[list[str], Seen]:
        """What is wrong with the client's answer where the upstream writes *data*; and that answer."""
        controls, wire = Controls.split(data)
        profile, request = controls.pick(range(len(PROFILES))), controls.pick(REQUESTS)
        name = next(self._names)
        self._upstream.script[name] = Answer(wire=wire)
        body = {**request.body, "model": name}
        seen = await ask(self._client, await self._proxy(profile), body)
        self._upstream.script[name] = Answer()
        found = [line for line in form(body, seen) if AS_THE_MODEL_WROTE_THEM not in line]
        if seen.status == 500:
            found.append(f"status 500: {seen.body!r}")
        return found, seen

    async def well(self) -> list[str]:
        """What is wrong with the proxies by now: each still answers, and nothing went unheard."""
        found = [f"the loop reported {complaint}" for complaint in self.complaints]
        for proxy in self._proxies.values():
            seen = await ask(
                self._client, await proxy, {"model": "well", "messages": [{"role": "user", "content": "?"}]}
            )
            if seen.status != 200 or b'"well"' not in seen.body or form(_GREETING, seen):
                found.append(f"a proxy is not well: {seen}")
        return found

    async def _proxy(self, profile: int) -> str:
        if profile not in self._proxies:
            self._proxies[profile] = asyncio.create_task(self._start(profile))
        return await self._proxies[profile]

    async def _start(self, profile: int) -> str:
        facts = PROFILES[profile].model_dump(include={"request", "response", "endpoint", "models"})
        settings = settings_for(self._upstream.base_url, "generic", facts)
        return await self._stack.enter_async_context(running_proxy(settings))


def an_input(number: int, seed: int, profiles: list[int] | None = None) -> bytes:
    """Input *number* of those that *seed* makes; with *profiles*, under one of these."""
    random = Random(f"{seed}/{number}")
    case = random.choice(_CASES)
    body = broken(random, case.body, [random.choice(_BODIES)], random.randrange(4))
    status = random.choice(_STATUSES) if random.randrange(3) == 0 else case.response["status"] or 200
    headers = (
        {"content-type": random.choice(_TYPES)} if random.randrange(3) == 0 else case.response.get("headers") or {}
    )
    wire = framed(random, status, headers, body)
    if random.randrange(4) == 0:
        wire = broken(random, wire, [wire], 1)
    return _controls(random, case, profiles) + wire


def _controls(random: Random, case: Case, profiles: list[int] | None) -> bytes:
    profile, request = position_of_profile(case), position_of_request(case)
    if random.randrange(2):
        request = random.randrange(len(REQUESTS))
    if profiles and profile not in profiles:
        profile = random.choice(profiles)
    return chosen(profile, *numbers(request))


async def exchange(count: int, seed: int, findings: Path) -> int:
    """Send *count* inputs through running proxies and print how they ended; the number of findings, which are kept."""
    logging.getLogger("svir_proxy").addHandler(logging.NullHandler())  # else each warning is printed
    ended: Counter[str] = Counter()
    numbers, found, began = iter(range(count)), 0, time.monotonic()
    async with Exchanges(count) as exchanges:

        async def work() -> None:
            nonlocal found
            for number in numbers:
                data = an_input(number, seed)
                problems, seen = await exchanges.problems(data)
                ended[outcome(seen)] += 1
                if problems:
                    found += 1
                    _keep(findings / f"{seed}-{number}", data)
                    print(f"input {number}: {problems[0]}", flush=True)

        async with asyncio.TaskGroup() as group:
            for _ in range(_AT_ONCE):
                group.create_task(work())
        for problem in await exchanges.well():
            found += 1
            print(problem)
    seconds = time.monotonic() - began
    print(f"{count} exchanges, {seconds:.0f} s, {count / seconds:.0f} a second, {found} findings")
    for word, times in ended.most_common():
        print(f"  {times:8} {word}")
    return found


def _keep(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def outcome(seen: Seen) -> str:
    """How an exchange ended, in a word or two."""
    if seen.status != 200:
        return f"{seen.status} {json.loads(seen.body)['error']['code']}"
    if b'\ndata: {"error"' in seen.body:
        return "an answer that failed on its way"
    return "an answer"
