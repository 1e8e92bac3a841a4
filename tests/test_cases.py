"""Every recorded case through the running proxy, with the upstream's bytes whole, in random pieces, and byte by byte where it is not long."""

from __future__ import annotations

from contextlib import AsyncExitStack

import httpx
import pytest
import pytest_asyncio

from svir_proxy.cli.replay import OwnProxies
from svir_proxy.conform.cases import SPLITS, Case, Split, expected_failures, load_cases, load_model_lists
from svir_proxy.conform.replay import Player, chosen
from svir_proxy.conform.upstream import ScriptedUpstream

FAILURES = expected_failures()
LONG = 20_000
"""Bytes of a body beyond which it is not sent byte by byte here: six cases, and a third of the time of all."""


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def player():
    """One upstream for all cases, and one proxy in front of it for each profile with its overrides."""
    async with AsyncExitStack() as stack:
        upstream = await stack.enter_async_context(ScriptedUpstream())
        client = await stack.enter_async_context(httpx.AsyncClient(trust_env=False, timeout=None))
        player = Player(upstream, client, OwnProxies(upstream, stack))
        player.announce(chosen(load_cases(), ()))
        yield player


def _params():
    for case in load_cases():
        for split in SPLITS:
            if split == "byte" and len(case.body) > LONG:
                continue
            marks = [pytest.mark.xfail(reason=FAILURES[case.key], strict=True)] if case.key in FAILURES else []
            yield pytest.param(case, split, marks=marks, id=f"{case.key}-{split}")


@pytest.mark.asyncio(loop_scope="session")
@pytest.mark.parametrize(("case", "split"), [*_params()])
async def test_a_client_sees_what_the_case_says(player: Player, case: Case, split: Split) -> None:
    problems = (await player.play(case, split)).problems
    assert problems == [], "\n".join([case.meta["shows"], *(problems or ())])


def test_expected_failures_name_cases() -> None:
    known = {case.key for case in load_cases()} | {f"models/{listed.key}" for listed in load_model_lists()}
    assert set(FAILURES) <= known
