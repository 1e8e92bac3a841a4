"""``svir-proxy record`` in front of a real llama.cpp: the cases it writes replay green, however their bodies are cut."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

import httpx
import pytest

from svir_proxy.cli.replay import OwnProxies
from svir_proxy.conform.cases import cases_in
from svir_proxy.conform.replay import Player, chosen
from svir_proxy.conform.upstream import ScriptedUpstream
from tests.live.conftest import UPSTREAM_KEY
from tests.live.scripts import SCRIPTS

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.live

_PROMPTS = {"tools": "call", "calls": "two-calls", "length": "loop", "think": "think", "json": "json"}


def _record(url: str, into: Path, *more: str) -> subprocess.CompletedProcess[str]:
    prompts = [word for purpose, script in _PROMPTS.items() for word in ("--prompt", f"{purpose}=[[s:{script}]]")]
    command = [sys.executable, "-m", "svir_proxy", "record", url, "--api-key-env", "KEY", "--server", "llama.cpp"]
    return subprocess.run(
        [*command, "--into", str(into), "--context", "16384", *prompts, *more],
        env={**os.environ, "KEY": UPSTREAM_KEY}, capture_output=True, text=True, check=False,
    )  # fmt: skip


async def test_what_is_recorded_replays(llama: str, tmp_path: Path) -> None:
    done = _record(llama, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    cases = {case.key: case for case in cases_in(tmp_path)}
    assert {"plain", "stream", "tools", "tools-stream", "something-to-think-about-stream", "image", "too-long"} <= set(
        cases
    )
    assert cases["stream"].expect["content"] == SCRIPTS["default"]
    assert cases["tools-stream"].expect["tool_calls"] == [{"name": "open_locker", "arguments": '{"id": 7}'}]
    assert cases["something-to-think-about"].expect["reasoning"]
    assert cases["image"].expect["error"]["code"] == "image_not_supported"
    assert cases["too-long"].expect["error"]["code"] == "context_length_exceeded"
    assert b"timings" in cases["plain"].body  # the server's own bytes, not the proxy's
    async with AsyncExitStack() as stack:
        upstream = await stack.enter_async_context(ScriptedUpstream())
        client = await stack.enter_async_context(httpx.AsyncClient(trust_env=False, timeout=None))
        player = Player(upstream, client, OwnProxies(upstream, stack))
        short = [case for case in cases.values() if len(case.body) < 20_000]
        every = chosen(short, ())
        player.announce(every)
        played = [await player.play(case, split) for case, split in every]
    assert {f"{one.case.key} {one.split}": one.problems for one in played if one.problems} == {}


def test_a_request_of_ones_own(llama: str, tmp_path: Path) -> None:
    path = tmp_path / "hello.json"
    path.write_text(
        json.dumps({"model": "any", "messages": [{"role": "user", "content": f"my key is {UPSTREAM_KEY}"}]})
    )
    done = _record(llama, tmp_path / "into", "--request", str(path))
    assert done.returncode == 0, done.stdout + done.stderr
    (case,) = cases_in(tmp_path / "into")
    assert case.key == "hello"
    assert UPSTREAM_KEY not in json.dumps(case.meta) + case.body.decode() + done.stdout + done.stderr
    path.write_text("{}")
    odd = _record(llama, tmp_path / "odd", "--request", str(path))
    assert (odd.returncode, "hello.json: is no request" in odd.stderr) == (2, True)
    path.write_text('{"messages": [{"role": "user", "content": "Hello"}]}')
    again = _record(llama, tmp_path / "into", "--request", str(path))
    assert again.returncode == 2
    assert "is there already" in again.stderr
