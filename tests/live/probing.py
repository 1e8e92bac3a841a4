"""Probes a live server from the command line, and serves what was written."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import openai
import yaml

from svir_proxy.profiles import Profile, load_profile
from tests.live.processes import proxy_server

if TYPE_CHECKING:
    from pathlib import Path

KEY: Final = "upstream-key"
_PATIENCE: Final = 280


@dataclass(frozen=True)
class Probed:
    """What the probe said of a server."""

    report: dict[str, Any]
    profile: Profile
    written: Path
    progress: str

    @property
    def found(self) -> dict[str, Any]:
        """Every fact that was learned."""
        return {each["fact"]: each["verdict"] for each in self.report["facts"] if each["verdict"] != "unknown"}

    @property
    def disagreements(self) -> dict[str, tuple[Any, Any]]:
        """What the shipped profile says otherwise: each fact with what that says, and what was found."""
        return {
            each["fact"]: (each["said"], each["found"])
            for each in self.report["differences"]
            if each["verdict"] == "disagrees"
        }


def probe(url: str, folder: Path, shipped: str) -> Probed:
    """Probe the server at *url*, write into *folder*, and compare with the profile *shipped*."""
    written = folder / "learned.yaml"
    command = [sys.executable, "-m", "svir_proxy", "probe", url, "--api-key-env", "UPSTREAM_KEY"]
    command += [
        "--write",
        str(written),
        "--diff",
        shipped,
        "--json",
        "--question-seconds",
        "240",
        "--max-seconds",
        "240",
    ]
    done = subprocess.run(
        command, env={"UPSTREAM_KEY": KEY}, capture_output=True, text=True, timeout=_PATIENCE, check=False
    )
    assert done.returncode == 0, done.stderr
    assert KEY not in done.stdout + done.stderr + written.read_text("utf-8")
    return Probed(json.loads(done.stdout), load_profile(str(written)), written, done.stderr)


def checked_and_served(probed: Probed, url: str, folder: Path, model: str) -> str:
    """The answer to a greeting through a proxy that has the written profile, which `check` accepts before."""
    config = folder / "svir.yaml"
    backend = {"name": "learned", "base_url": url, "profile": str(probed.written), "api_key": KEY}
    config.write_text(yaml.safe_dump({"backends": [backend]}), encoding="utf-8")
    command = [sys.executable, "-m", "svir_proxy", "check", "--config", str(config)]
    checked = subprocess.run(command, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stderr
    with proxy_server(config) as proxy, openai.OpenAI(base_url=proxy.url, api_key="none", max_retries=0) as client:
        answer = client.chat.completions.create(model=model, messages=[{"role": "user", "content": "Say hello."}])
    return answer.choices[0].message.content or ""
