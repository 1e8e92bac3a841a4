"""What is counted in several processes, told by any of them; and an address that has nothing but metrics."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, Final

import httpx
from prometheus_client.parser import text_string_to_metric_families

from tests.cli.processes import Serving, serve
from tests.cli.test_life_cycle import EACH, begun, configure, model_server
from tests.server.support import DONE, FINISH, LAST_PIECE, piece, text
from tests.server.transport.raw_server import RawServer, soon

if TYPE_CHECKING:
    from pathlib import Path

COUNTED: Final = "svir_request_duration_seconds_count"


async def scraped(url: str) -> dict[str, float]:
    """The sums of all samples by name, from whichever worker answers."""
    async with httpx.AsyncClient(trust_env=False) as client:
        response = await client.get(url, timeout=20)
    assert response.status_code == 200, response.text
    sums: dict[str, float] = {}
    for metric in text_string_to_metric_families(response.text):
        for sample in metric.samples:
            if sample.labels.get("endpoint") != "metrics":
                sums[sample.name] = sums.get(sample.name, 0) + sample.value
    return sums


async def until_told(url: str, **wanted: float) -> dict[str, float]:
    """Wait until a scrape says so: a worker tells the others after a second."""
    async with asyncio.timeout(60):
        while True:
            sums = await scraped(url)
            if {name: sums.get(name) for name in wanted} == wanted:
                return sums
            await asyncio.sleep(0.05)


async def streamed(serving: Serving, server: RawServer) -> None:
    """A stream from beginning to end, on a connection of its own."""
    async with serving.client() as client:
        peer = await begun(client, server)
        await peer.send(piece(FINISH) + piece(DONE) + LAST_PIECE)
        await client.rest()
        peer.end()


@EACH
async def test_any_worker_tells_what_all_have_counted(tmp_path: Path, workers: int) -> None:
    config = tmp_path / "svir.json"
    async with model_server() as server, AsyncExitStack() as stack:
        configure(config, server)
        async with serve(config, workers) as serving:
            url = f"{serving.base_url}/metrics"
            for _ in range(8):
                await streamed(serving, server)
            for _ in range(5):
                client = await stack.enter_async_context(serving.client())
                await begun(client, server)
            await until_told(url, **{COUNTED: 8, "svir_open_streams": 5, "svir_workers": workers})
            serving.signal(signal.SIGKILL)


async def test_counters_never_fall_when_a_worker_is_killed(tmp_path: Path) -> None:
    config = tmp_path / "svir.json"
    async with model_server() as server, AsyncExitStack() as stack:
        configure(config, server)
        async with serve(config, 2) as serving:
            url = f"{serving.base_url}/metrics"
            for _ in range(6):
                await streamed(serving, server)
            # Streams on many connections: some are at either worker.
            for _ in range(12):
                client = await stack.enter_async_context(serving.client())
                await begun(client, server)
            await until_told(url, **{COUNTED: 6, "svir_open_streams": 12})
            os.kill(serving.workers[0], signal.SIGKILL)
            worst = 6.0
            seen: list[float] = []
            while len(seen) < 10 or worst < 7:
                try:
                    sums = await soon(scraped(url))
                except httpx.TransportError:
                    continue  # the connection was the dead worker's
                seen.append(sums[COUNTED])
                assert sums[COUNTED] >= worst, seen
                worst = sums[COUNTED]
                if len(seen) == 5:
                    await serving.said(r"takes its place")
                    await serving.said(r"worker \d+ serves")
                    await streamed(serving, server)
            sums = await until_told(url, svir_workers=2)
            assert sums["svir_open_streams"] < 12, "those of the dead are gone"


async def test_an_address_of_their_own_has_nothing_else(tmp_path: Path) -> None:
    config = tmp_path / "svir.json"
    async with model_server() as server:
        configure(config, server, metrics={"port": 0}, server={"max_connections": 1})
        async with serve(config, 2) as serving:
            url = await _apart(serving)
            async with AsyncExitStack() as stack:
                for _ in range(4):  # as many as there may be, and more: Prometheus still gets in
                    await stack.enter_async_context(serving.client())
                assert (await scraped(url))["svir_workers"] == 2
            async with httpx.AsyncClient(trust_env=False) as client:
                assert (await client.get(url.replace("/metrics", "/healthz"))).json() == {"status": "ok"}
                assert (await client.get(url.replace("/metrics", "/v1/models"))).status_code == 404
                keeps = await client.get(url)
                assert keeps.status_code == 200
                serving.signal(signal.SIGTERM)  # while that connection is open
                status, _ = await serving.ended()
                assert status == 0


async def _apart(serving: Serving) -> str:
    """Where the metrics are; it may have been said already."""
    told = [line.split()[-1] for line in serving.lines if line.startswith("metrics on ")]
    return told[0] if told else (await serving.said(r"metrics on (\S+)"))[1]


@EACH
async def test_an_address_that_is_taken_is_told(tmp_path: Path, workers: int) -> None:
    config = tmp_path / "svir.json"
    async with model_server() as server:
        configure(config, server, metrics={"port": server.port})
        process = await asyncio.create_subprocess_exec(*_command(config, workers), stderr=asyncio.subprocess.PIPE)
        _, said = await soon(process.communicate())
    assert process.returncode == 1
    assert said.decode() == (
        f"cannot listen on http://127.0.0.1:{server.port}: address already in use; choose another with metrics.host or"
        " metrics.port\n"
    )


def _command(config: Path, workers: int) -> list[Any]:
    return [sys.executable, "-m", "svir_proxy", "serve", "--config", config, "--port", "0", "--workers", str(workers)]


async def test_a_reload_keeps_the_address_and_the_counts(tmp_path: Path) -> None:
    config = tmp_path / "svir.json"
    async with model_server() as server:
        configure(config, server, metrics={"port": 0})
        async with serve(config) as serving:
            url = await _apart(serving)
            async with serving.client() as client:
                await client.ask(b"", path="/nothing", method="GET")
                assert await client.status() == 404
            configure(config, server, metrics={"port": 1, "enabled": False}, streaming={"keepalive": 1})
            serving.signal(signal.SIGHUP)
            await serving.said(r"metrics\.port: 1 needs a restart; until then it is 0")
            await serving.said(r"metrics\.enabled: False needs a restart; until then it is not set")
            await serving.said("the configuration was reloaded")
            assert (await scraped(url))[COUNTED] == 1


async def test_one_stream_is_measured_as_it_came(tmp_path: Path) -> None:
    config = tmp_path / "svir.json"
    async with model_server() as server:
        configure(config, server)
        async with serve(config) as serving:
            async with serving.client() as client:
                peer = await begun(client, server)
                await peer.send(piece(text("b")))
                await client.piece()
                usage = b'data: {"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":5,"total_tokens":12}}\n\n'
                await peer.send(piece(FINISH) + piece(usage) + piece(DONE) + LAST_PIECE)
                await client.rest()
                peer.end()
            sums = await until_told(f"{serving.base_url}/metrics", svir_input_tokens_total=7)
    assert sums["svir_output_tokens_total"] == 5
    assert sums["svir_time_to_first_token_seconds_count"] == 1
    assert sums["svir_time_to_first_token_seconds_sum"] <= sums["svir_request_duration_seconds_sum"]
