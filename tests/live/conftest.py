"""A real llama.cpp with a scripted model, the proxy in front of it, and the official SDK as their client."""

from __future__ import annotations

import importlib.util
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import openai
import pytest
import yaml

from tests.live.processes import HERE, llama_server, proxy_server
from tests.live.script_model import write_model
from tests.live.scripts import SCRIPTS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

CLIENT_KEY = "client-key"
UPSTREAM_KEY = "upstream-key"


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The scripted model's file."""
    if importlib.util.find_spec("xllamacpp") is None:
        pytest.skip("there is no llama.cpp: pip install 'svir-proxy[test]'")
    path = tmp_path_factory.mktemp("model") / "scripted.gguf"
    write_model(path, SCRIPTS, (HERE / "tags.jinja").read_text(encoding="utf-8"))
    return path


@pytest.fixture(scope="session")
def llama(model: Path) -> Iterator[str]:
    """The URL of the model server that most tests share."""
    with llama_server(model, UPSTREAM_KEY) as server:
        yield server.url


@pytest.fixture(scope="session")
def client_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., AbstractContextManager[openai.OpenAI]]:
    """Starts a proxy in front of a model server: ``with client_of(url) as client``; more words set up its backend."""

    @contextmanager
    def start(upstream: str, api_key: str = UPSTREAM_KEY, **more: Any) -> Iterator[openai.OpenAI]:
        config = tmp_path_factory.mktemp("proxy") / "svir.yaml"
        backend = {"name": "live", "base_url": f"{upstream}/v1", "profile": "llama-cpp", "api_key": api_key, **more}
        config.write_text(yaml.safe_dump({"auth": {"keys": [CLIENT_KEY]}, "backends": [backend]}), encoding="utf-8")
        with (
            proxy_server(config) as proxy,
            openai.OpenAI(base_url=f"{proxy.url}/v1", api_key=CLIENT_KEY, max_retries=0) as client,
        ):
            yield client

    return start


@pytest.fixture(scope="session")
def client(llama: str, client_of: Callable[..., AbstractContextManager[openai.OpenAI]]) -> Iterator[openai.OpenAI]:
    """A client of the proxy that most tests share."""
    with client_of(llama) as client:
        yield client
