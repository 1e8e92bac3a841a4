"""``svir-proxy conform`` against a real llama.cpp, and against the proxy in front of it: less, and full marks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.live.conftest import CLIENT_KEY, UPSTREAM_KEY

if TYPE_CHECKING:
    import openai

pytestmark = pytest.mark.live

_PROMPTS: Final = {"tools": "call", "calls": "two-calls", "length": "loop", "think": "think", "json": "json"}
"""What makes the scripted model show a rule, by purpose."""
_HIDDEN: Final = {"end-error", "error-wait"}
"""What only a failure in the middle of a stream, and a server too busy, would show."""


def _report(url: str, key: str) -> tuple[int, dict[str, Any]]:
    prompts = [
        word for purpose, script in _PROMPTS.items() for word in ("--prompt", f"{purpose}=Please. [[s:{script}]]")
    ]
    command = [
        sys.executable,
        "-m",
        "svir_proxy",
        "conform",
        url,
        "--api-key-env",
        "KEY",
        "--context",
        "16384",
        "--json",
    ]
    done = subprocess.run(
        [*command, *prompts], env={**os.environ, "KEY": key}, capture_output=True, text=True, check=False
    )
    assert done.returncode in (0, 1), done.stderr
    assert key not in done.stdout + done.stderr
    return done.returncode, json.loads(done.stdout)


def _names(report: dict[str, Any], verdict: str) -> set[str]:
    return {rule["name"] for rule in report["rules"] if rule["verdict"] == verdict}


def test_the_proxy_has_full_marks(client: openai.OpenAI) -> None:
    status, report = _report(str(client.base_url), CLIENT_KEY)
    broken = {rule["name"]: rule["evidence"] for rule in report["rules"] if rule["verdict"] == "broken"}
    assert (status, broken) == (0, {})
    assert _names(report, "not shown") == _HIDDEN


def test_a_raw_llama_cpp_has_less(llama: str) -> None:
    status, report = _report(llama, UPSTREAM_KEY)
    assert status == 1
    assert {
        "answer-foreign", "chunk-foreign", "delta-first", "choice-named", "error-shape", "image", "too-long-code",
    } <= _names(report, "broken")  # fmt: skip
    assert {"finish-calls", "tool-arguments", "json-schema", "usage-total", "role-once"} <= _names(report, "kept")
