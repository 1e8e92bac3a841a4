"""Every scenario with every client: what it sees, how often it asks, and what the server is sent."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.clients.adapters import CLIENTS
from tests.clients.environments import Unavailable
from tests.clients.expectation import differences, expectation, history_differences, reaches
from tests.clients.history import problems_of
from tests.clients.run import jobs_of, name_of
from tests.clients.scenarios import SCENARIOS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.clients.client import Client
    from tests.clients.run import Runs, Seen

pytestmark = pytest.mark.asyncio(loop_scope="session")


def _params() -> Iterator[object]:
    for client in CLIENTS:
        for surface, scenario in jobs_of(client):
            reason = client.awaits(surface, scenario)
            marks = [pytest.mark.xfail(reason=reason)] if reason else []
            marks += [pytest.mark.live] if SCENARIOS[scenario].live else []
            yield pytest.param(client, surface, scenario, marks=marks, id=name_of(client, surface, scenario))


async def _seen(runs: Runs, client: Client, surface: str, scenario: str) -> Seen:
    try:
        seen = (await runs.of(client)).get(name_of(client, surface, scenario))
    except Unavailable as reason:
        pytest.skip(str(reason))
    if seen is None:
        pytest.skip("there is no llama.cpp: pip install 'svir-proxy[test]'")
    return seen


@pytest.mark.parametrize(("client", "surface", "scenario"), [*_params()])
async def test_a_client_sees_what_it_should(runs: Runs, client: Client, surface: str, scenario: str) -> None:
    seen = await _seen(runs, client, surface, scenario)
    expected = expectation(client, surface, scenario)
    found = differences(expected, seen)
    if not reaches(scenario, seen):
        found.append(f"{len(seen.received)} requests reached the server")
    found += [problem for body in seen.received for problem in problems_of(body)]
    if SCENARIOS[scenario].task == "tools" and len(seen.received) == 2:
        found += history_differences(expected, seen.received[1])
    assert not found, "\n".join(found)
