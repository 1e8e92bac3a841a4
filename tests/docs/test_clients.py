"""What the pages for clients give to copy works: programs are run at the proxy, files are read and lead to it."""

from __future__ import annotations

import asyncio
import importlib.util
import re
import shutil
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from svir_proxy.conform.upstream import ScriptedUpstream
from tests.clients.adapters import ai_sdk, openai_node
from tests.clients.answers import SAID, THOUGHT, reasoning_tags
from tests.clients.environments import Unavailable, command, environment
from tests.docs.pages import page, pages
from tests.support.proxy import running_proxy, settings_for

SHOWN: Final = "http://127.0.0.1:8484"
"""Where the pages have the proxy listen."""
PATIENCE: Final = 120.0
"""Seconds that one program may take."""
PAGES: Final = [name for name in pages("docs/clients/*.md") if not name.endswith("README.md")]

_MODULES: Final = {
    "README.md": "openai",
    "docs/clients/openai.md": "openai",
    "docs/clients/langchain.md": "langchain_openai",
    "docs/clients/pydantic-ai.md": "pydantic_ai",
    "docs/clients/litellm.md": "litellm",
}
"""What the Python of a page imports."""
_NODE: Final = {"docs/clients/openai.md": openai_node.CLIENT, "docs/clients/ai-sdk.md": ai_sdk.CLIENT}
"""Whose packages the JavaScript of a page imports."""


# ----------------------------------------------------------------- programs


def _programs() -> Iterator[tuple[str, str, int]]:
    """Page, language and number of each program that asks the proxy for a stream."""
    for name in ("README.md", *pages("docs/clients/*.md")):
        for language in ("python", "js", "sh"):
            for number, text in enumerate(page(name).blocks(language)):
                if SHOWN in text and (language != "sh" or '"stream": true' in text):
                    yield name, language, number


def _command(name: str, language: str, program: str, folder: Path, cache: Path) -> list[str]:
    """What runs *program*; skips where its client is missing."""
    if language == "sh":
        if shutil.which("curl") is None:
            pytest.skip("there is no curl: apt-get install curl")
        return ["bash", "-euc", program]
    if language == "python":
        if importlib.util.find_spec(_MODULES[name]) is None:
            pytest.skip(f"{_MODULES[name]} is not installed: pip install 'svir-proxy[clients]'")
        file = folder / "program.py"
        file.write_text(program, "utf-8")
        return [sys.executable, str(file)]
    try:
        node, adapter = command(_NODE[name], cache)
    except Unavailable as reason:
        pytest.skip(str(reason))
    file = Path(adapter).with_name(f"{folder.name}.mjs")  # beside the packages that it imports
    file.write_text(program, "utf-8")
    return [node, str(file)]


async def _output(arguments: list[str], variables: dict[str, str]) -> str:
    """What a program prints, which ends well and in time."""
    process = await asyncio.create_subprocess_exec(
        *arguments, env=variables, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    try:
        async with asyncio.timeout(PATIENCE):
            said, complaints = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode == 0, said.decode() + complaints.decode()
    return said.decode()


@pytest.mark.parametrize(("name", "language", "number"), [*_programs()])
async def test_a_program_says_what_the_model_says(
    name: str, language: str, number: int, tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    kept = getattr(pytestconfig, "cache", None)
    cache = Path(kept.mkdir("clients")) if kept is not None else tmp_path
    async with (
        ScriptedUpstream({"MODEL": reasoning_tags()}) as upstream,
        running_proxy(settings_for(upstream.base_url, "lm-studio")) as url,
    ):
        program = page(name).blocks(language)[number].replace(SHOWN, url)
        arguments = await asyncio.to_thread(_command, name, language, program, tmp_path, cache)
        text = await _output(arguments, environment())
    assert "<think>" not in text
    if language == "sh":  # the stream as it is
        assert text.endswith("data: [DONE]\n\n")
        return
    assert SAID.strip() in text
    if name == "docs/clients/openai.md":
        assert THOUGHT in text
        assert "tokens" in text


# ----------------------------------------------------------------- files

_URL_KEYS: Final = {
    "baseURL", "api_base", "base_url", "api_url", "apiBase", "openai-api-base", "openAiBaseUrl", "OPENAI_API_BASE_URL",
}  # fmt: skip


def _files() -> Iterator[tuple[str, str, int]]:
    """Page, language and number of each file of settings that is a client's; not those of the proxy itself."""
    for name in PAGES:
        for language in ("json", "yaml", "toml"):
            for number, text in enumerate(page(name).blocks(language)):
                if language != "yaml" or "backends" not in yaml.safe_load(text):
                    yield name, language, number


def _leaves(value: Any, key: str = "") -> Iterator[tuple[str, Any]]:
    """Each value that holds no other, with the key that it stands under."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _leaves(inner, name)
    elif isinstance(value, list):
        for inner in value:
            yield from _leaves(inner, key)
    else:
        yield key, value


@pytest.mark.parametrize(("name", "language", "number"), [*_files()])
def test_a_file_leads_to_the_proxy(name: str, language: str, number: int) -> None:
    text = page(name).blocks(language)[number]
    document = tomllib.loads(text) if language == "toml" else yaml.safe_load(text)  # YAML reads JSON, too
    leaves = list(_leaves(document))
    urls = [value for key, value in leaves if key in _URL_KEYS]
    if "max_input_tokens" in text and not urls:
        return  # about the model only
    (url,) = urls
    assert re.fullmatch(r"http://(127\.0\.0\.1|host\.docker\.internal):8484/v1", url)
    assert not any(isinstance(value, str) and re.fullmatch(r"(sk|key)-.*", value) for _, value in leaves)


@pytest.mark.parametrize("name", PAGES)
def test_a_page_names_a_model_and_says_where_it_is_from(name: str) -> None:
    text = page(name).text
    assert "\nSeen in: " in text
    assert "MODEL" in text or "list" in text
    assert f"({Path(name).name})" in page("docs/clients/README.md").text


def test_paths_of_chat_are_left_to_the_client() -> None:
    for name in PAGES:
        assert "/chat/completions" not in page(name).text


# ----------------------------------------------------------------- LiteLLM as a gateway in front


_ROUTE: Final = """
import sys, yaml, litellm
entries = yaml.safe_load(open(sys.argv[1]))["model_list"]
answer = litellm.Router(model_list=entries).completion(
    model=entries[0]["model_name"], messages=[{"role": "user", "content": "Hello"}]
)
print(answer.choices[0].message.content)
"""


async def test_litellm_takes_the_proxy_as_a_deployment(tmp_path: Path) -> None:
    if importlib.util.find_spec("litellm") is None:
        pytest.skip("litellm is not installed: pip install 'svir-proxy[clients]'")
    async with (
        ScriptedUpstream({"MODEL": reasoning_tags()}) as upstream,
        running_proxy(settings_for(upstream.base_url, "lm-studio")) as url,
    ):
        config = tmp_path / "config.yaml"
        config.write_text(page("docs/clients/litellm.md").block("yaml", "model_list").replace(SHOWN, url), "utf-8")
        said = await _output([sys.executable, "-c", _ROUTE, str(config)], environment() | {"SVIR_KEY": "unused"})
    assert SAID.strip() in said
