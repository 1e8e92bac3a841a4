"""A real Prometheus scrapes two real proxies, one of them with two workers, and answers queries about them."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import shutil
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

import httpx
import pytest

from tests.cli.processes import serve
from tests.cli.test_life_cycle import begun, configure, model_server
from tests.server.support import DONE, FINISH, LAST_PIECE, piece
from tests.server.transport.raw_server import soon

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from pathlib import Path

KEY: Final = "a-key-for-prometheus"
PATIENCE: Final = 60.0


class Prometheus:
    """The server, and questions to it."""

    def __init__(self, url: str) -> None:
        self._client = httpx.AsyncClient(base_url=url, trust_env=False, timeout=20)

    async def get(self, path: str, **params: str) -> Any:
        answer = (await self._client.get(path, params=params)).json()
        assert answer["status"] == "success", answer
        return answer["data"]

    async def query(self, text: str) -> dict[str, float]:
        """The values of *text* now, by job."""
        found = await self.get("/api/v1/query", query=text)
        return {entry["metric"].get("job", ""): float(entry["value"][1]) for entry in found["result"]}

    async def until(self, text: str, wanted: dict[str, float]) -> None:
        """Wait until *text* has these values."""
        async with asyncio.timeout(PATIENCE):
            while await self.query(text) != wanted:  # noqa: ASYNC110 - it is asked, and tells nothing by itself
                await asyncio.sleep(0.1)

    async def close(self) -> None:
        await self._client.aclose()


@asynccontextmanager
async def prometheus(
    folder: Path, targets: dict[str, tuple[str, dict[str, Any]]], rules: Sequence[Path] = ()
) -> AsyncIterator[Prometheus]:
    """One that scrapes *targets*: address and more settings, by job; and evaluates the *rules* of these files."""
    program = shutil.which("prometheus")
    if program is None:
        pytest.skip("there is no prometheus: apt-get install prometheus")
    jobs = [
        {"job_name": job, "static_configs": [{"targets": [address]}], **more}
        for job, (address, more) in targets.items()
    ]
    config = folder / "prometheus.yml"
    often = {"scrape_interval": "200ms", "evaluation_interval": "200ms"}
    config.write_text(json.dumps({"global": often, "scrape_configs": jobs, "rule_files": list(map(str, rules))}))
    process = await asyncio.create_subprocess_exec(
        program,
        f"--config.file={config}",
        f"--storage.tsdb.path={folder / 'data'}",
        "--web.listen-address=127.0.0.1:0",
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stderr is not None
    try:
        async with asyncio.timeout(PATIENCE):
            while (
                found := re.search(rb'"Listening on" address=(\S+:[1-9]\d*)', await process.stderr.readline())
            ) is None:
                assert process.returncode is None
        rest = asyncio.create_task(process.stderr.read())  # a full pipe would stop it
        made = Prometheus(f"http://{found[1].decode()}")
        try:
            yield made
        finally:
            await made.close()
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        await soon(process.wait())
    await soon(rest)


async def test_prometheus_answers_what_two_proxies_have_done(tmp_path: Path) -> None:
    if shutil.which("prometheus") is None:
        pytest.skip("there is no prometheus: apt-get install prometheus")
    (tmp_path / "key").write_text(KEY)
    one, two = tmp_path / "one.json", tmp_path / "two.json"
    async with model_server() as server, AsyncExitStack() as stack:
        configure(one, server, metrics={"key_file": str(tmp_path / "key")})
        configure(two, server)
        proxies = [await stack.enter_async_context(serve(config, workers)) for config, workers in ((one, 1), (two, 2))]
        shown = {"authorization": {"credentials_file": str(tmp_path / "key")}}
        addresses = [proxy.base_url.removeprefix("http://") for proxy in proxies]
        targets = {"one": (addresses[0], shown), "two": (addresses[1], {}), "refused": (addresses[0], {})}
        server_of = await stack.enter_async_context(prometheus(tmp_path, targets))

        for proxy, times in zip(proxies, (2, 5), strict=True):
            for _ in range(times):
                async with proxy.client() as client:
                    peer = await begun(client, server)
                    usage = b'data: {"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":5}}\n\n'
                    await peer.send(piece(FINISH) + piece(usage) + piece(DONE) + LAST_PIECE)
                    await client.rest()
                    peer.end()
        open_client = await stack.enter_async_context(proxies[1].client())
        await begun(open_client, server)

        requests = 'sum by (job) (svir_requests_total{endpoint="chat/completions", status="200"})'
        await server_of.until(requests, {"one": 2, "two": 5})
        await server_of.until("sum by (job) (svir_output_tokens_total)", {"one": 10, "two": 25})
        await server_of.until("sum by (job) (svir_open_streams)", {"one": 0, "two": 1})
        await server_of.until("sum by (job) (svir_workers)", {"one": 1, "two": 2})
        await server_of.until("up", {"one": 1, "two": 1, "refused": 0})
        quantile = "histogram_quantile(0.9, sum by (job, le) (svir_time_to_first_token_seconds_bucket))"
        assert set(await server_of.query(quantile)) == {"one", "two"}
        kinds = await server_of.get("/api/v1/metadata")
        assert kinds["svir_request_duration_seconds"][0]["type"] == "histogram"
