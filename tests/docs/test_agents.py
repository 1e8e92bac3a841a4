"""Agents, where they are installed: each with the very file that its page gives, once, against the proxy.

They are programs of their own that come as hundreds of megabytes, so nothing installs them here.
"""

from __future__ import annotations

import asyncio
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from svir_proxy.conform.upstream import Answer, ScriptedUpstream
from tests.clients.answers import SAID, odd, reasoning_tags
from tests.clients.environments import environment
from tests.docs.pages import page
from tests.support.proxy import running_proxy, settings_for

PATIENCE: Final = 180.0
"""Seconds that an agent may take for one answer."""


@dataclass(frozen=True, slots=True)
class Agent:
    """One agent.

    Attributes:
        page: Its page below docs/clients.
        language: The language of the file that the page gives.
        file: The file's name in the folder that the agent works in.
        command: What asks it to say hello; the first is the program, whose place is looked for.
        install: How to get it.
    """

    page: str
    language: str
    file: str
    command: tuple[str, ...]
    install: str


AGENTS: Final = (
    Agent("opencode", "json", "opencode.json", ("opencode", "run", "Hello"), "npm install -g opencode-ai"),
    Agent(
        "aider",
        "yaml",
        ".aider.conf.yml",
        ("aider", "--no-git", "--yes-always", "--no-check-update", "--analytics-disable", "--message", "Hello"),
        "pip install aider-chat",
    ),
    Agent(
        "continue",
        "yaml",
        "config.yaml",
        ("cn", "--config", "config.yaml", "-p", "Hello"),
        "npm install -g @continuedev/cli",
    ),
)
ANSWERS: Final = {"odd": odd, "reasoning": reasoning_tags}


@pytest.mark.parametrize("answer", ANSWERS)
@pytest.mark.parametrize("agent", AGENTS, ids=lambda agent: agent.page)
async def test_an_agent_says_what_the_model_says(agent: Agent, answer: str, tmp_path: Path) -> None:
    program = shutil.which(agent.command[0])
    if program is None:
        pytest.skip(f"there is no {agent.command[0]}: {agent.install}")
    said, asked = await _run(agent, program, ANSWERS[answer](), tmp_path)
    assert SAID.split()[0] in said
    assert "<think>" not in said
    assert 0 < asked < 10, "it asks again and again"


async def _run(agent: Agent, program: str, answer: Answer, folder: Path) -> tuple[str, int]:
    """What the agent says, and how often the server was asked for an answer."""
    home = folder / "home"
    home.mkdir()
    places = {"HOME": home, "XDG_CONFIG_HOME": home / "config", "XDG_DATA_HOME": home / "data", "PWD": folder}
    variables = environment() | {name: str(place) for name, place in places.items()} | {"SVIR_KEY": "unused"}
    async with (
        ScriptedUpstream({"MODEL": answer}) as upstream,
        running_proxy(settings_for(upstream.base_url, "lm-studio")) as url,
    ):
        text = page(f"docs/clients/{agent.page}.md").blocks(agent.language)[0]
        (folder / agent.file).write_text(text.replace("http://127.0.0.1:8484", url), "utf-8")
        process = await asyncio.create_subprocess_exec(
            program,
            *agent.command[1:],
            cwd=folder,
            env=variables,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        try:
            async with asyncio.timeout(PATIENCE):
                said, _ = await process.communicate()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        return said.decode(errors="replace"), len(answer.received)
