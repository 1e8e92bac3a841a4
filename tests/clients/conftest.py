"""The upstreams that all clients share, and what they saw of it through the proxy."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio

from svir_proxy.conform.judge import UPSTREAM_KEY
from svir_proxy.conform.upstream import ScriptedUpstream
from tests.clients.adapters import CLIENTS
from tests.clients.run import Runs, jobs_of, name_of, requests_counted
from tests.clients.scenarios import SCENARIOS, SCRIPTS
from tests.live.processes import HERE, llama_server

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator


@pytest.fixture(scope="session")
def client_cache(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where environments of clients are kept from run to run, as far as pytest keeps anything."""
    kept = getattr(pytestconfig, "cache", None)
    return Path(kept.mkdir("clients")) if kept is not None else tmp_path_factory.mktemp("clients")


@pytest.fixture(scope="session")
def live_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str | None]:
    """The URL of a real llama.cpp, None where it is not installed."""
    if importlib.util.find_spec("xllamacpp") is None:
        yield None
        return
    from tests.live.script_model import write_model

    path = tmp_path_factory.mktemp("model") / "scripted.gguf"
    write_model(path, SCRIPTS, (HERE / "tags.jinja").read_text(encoding="utf-8"))
    with llama_server(path, UPSTREAM_KEY) as server:
        yield server.url


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def runs(
    request: pytest.FixtureRequest,
    live_server: str | None,
    client_cache: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> AsyncIterator[Runs]:
    """Lets each client that is asked for run once."""
    chosen = {item.callspec.params["client"].name for item in request.session.items if item.path == request.path}
    clients = [client for client in CLIENTS if client.name in chosen]
    script = {
        name_of(client, surface, scenario): make()
        for client in clients
        for surface, scenario in jobs_of(client)
        if not isinstance(make := SCENARIOS[scenario].upstream, str)
    }
    with requests_counted() as requests:
        async with ScriptedUpstream(script) as upstream:
            runs = Runs(clients, upstream, live_server, requests, client_cache, tmp_path_factory.mktemp("plans"))
            yield runs
            await runs.aclose()
