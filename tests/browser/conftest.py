"""A browser, and a real llama.cpp behind the proxy whose page it looks at."""

from __future__ import annotations

import importlib.util
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from tests.browser.chromium import Page, chromium, find_chromium, new_page
from tests.live.processes import HERE, Child, llama_server, proxy_server
from tests.live.script_model import write_model
from tests.live.scripts import SCRIPTS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

UPSTREAM_KEY = "key-of-the-upstream"


@pytest.fixture(scope="session")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of the model server."""
    if importlib.util.find_spec("xllamacpp") is None:
        pytest.skip("there is no llama.cpp: pip install 'svir-proxy[test]'")
    model = tmp_path_factory.mktemp("model") / "scripted.gguf"
    write_model(model, SCRIPTS, (HERE / "tags.jinja").read_text(encoding="utf-8"))
    with llama_server(model, UPSTREAM_KEY) as server:
        yield server.url


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    program = find_chromium()
    if program is None:
        pytest.skip("there is no Chromium: apt-get install chromium")
    with chromium(program, tmp_path_factory.mktemp("browser")) as started:
        yield started


@pytest.fixture
def looking(
    llama: str, browser: Any, tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., AbstractContextManager[tuple[str, Page, Child, Path]]]:
    """Starts a proxy: ``with looking(key="k") as (url, page, process, config)``, with the settings of the inspector.

    The model ``smart`` is llama.cpp's; ``team`` is that of a server which is not there, and then llama.cpp's.
    """

    @contextmanager
    def start(sections: dict[str, Any] | None = None, **inspector: Any) -> Iterator[tuple[str, Page, Child, Path]]:
        gone = {"name": "rack", "base_url": "http://127.0.0.1:9", "profile": "vllm", "models": {"team": "x"}}
        desk = {
            "name": "desk", "base_url": llama, "profile": "llama-cpp", "api_key": UPSTREAM_KEY, "priority": 1,
            "max_requests": 4, "models": {"smart": "scripted", "team": "scripted"},
        }  # fmt: skip
        config = tmp_path_factory.mktemp("proxy") / "svir.yaml"
        config.write_text(
            yaml.safe_dump({"backends": [gone, desk], "inspector": inspector, **(sections or {})}), "utf-8"
        )
        with proxy_server(config) as proxy:
            page = new_page(browser)
            try:
                yield proxy.url, page, proxy, config
            finally:
                page.close()

    return start
