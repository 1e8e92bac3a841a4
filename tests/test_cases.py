"""Every recorded case through the running proxy, with the upstream's bytes whole, in random pieces, and byte by byte."""

from __future__ import annotations

import json
from contextlib import AsyncExitStack

import httpx
import pytest
import pytest_asyncio

from svir_proxy.conform.cases import SPLITS, Case, Split, cut, expected_failures, load_cases, load_model_lists
from svir_proxy.conform.judge import Seen, judge
from svir_proxy.conform.upstream import Answer, ScriptedUpstream
from tests.support.proxy import ask, running_proxy, settings_for

FAILURES = expected_failures()
MODELS = {
    (case.key, split): f"case-{number:04d}-{split}" for number, case in enumerate(load_cases()) for split in SPLITS
}
"""A model of its own for each: what the proxy learns of one must not help another."""


class Exchanges:
    """One upstream for all cases, and one proxy in front of it for each profile with its overrides."""

    def __init__(self, upstream: ScriptedUpstream, client: httpx.AsyncClient, stack: AsyncExitStack) -> None:
        self._upstream = upstream
        self._client = client
        self._stack = stack
        self._proxies: dict[str, str] = {}

    async def run(self, case: Case, split: Split) -> tuple[Seen, bool]:
        """The proxy's answer, and whether the upstream was asked."""
        model = MODELS[case.key, split]
        answer = self._upstream.script[model]
        answer.pieces = cut(case.body, split, case.key)
        seen = await ask(self._client, await self._proxy(case), {**case.request, "model": model})
        return seen, bool(answer.received)

    async def _proxy(self, case: Case) -> str:
        key = json.dumps([case.profile, case.overrides], sort_keys=True)
        if key not in self._proxies:
            settings = settings_for(self._upstream.base_url, case.profile, case.overrides)
            self._proxies[key] = await self._stack.enter_async_context(running_proxy(settings))
        return self._proxies[key]


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def exchanges():
    async with AsyncExitStack() as stack:
        script = {MODELS[case.key, split]: Answer.recorded(case.response) for case in load_cases() for split in SPLITS}
        upstream = await stack.enter_async_context(ScriptedUpstream(script))
        client = await stack.enter_async_context(httpx.AsyncClient(trust_env=False, timeout=None))
        yield Exchanges(upstream, client, stack)


def _params():
    for case in load_cases():
        for split in SPLITS:
            marks = [pytest.mark.xfail(reason=FAILURES[case.key], strict=True)] if case.key in FAILURES else []
            yield pytest.param(case, split, marks=marks, id=f"{case.key}-{split}")


@pytest.mark.asyncio(loop_scope="session")
@pytest.mark.parametrize(("case", "split"), [*_params()])
async def test_a_client_sees_what_the_case_says(exchanges: Exchanges, case: Case, split: Split) -> None:
    seen, reached = await exchanges.run(case, split)
    problems = judge(case, seen, reached=reached)
    assert not problems, "\n".join([case.meta["shows"], *problems])


def test_expected_failures_name_cases() -> None:
    known = {case.key for case in load_cases()} | {f"models/{listed.key}" for listed in load_model_lists()}
    assert set(FAILURES) <= known
