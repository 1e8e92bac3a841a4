"""A real MLX server with a scripted model, the proxy in front of it, and the official SDK as their client.

Each test runs once for each MLX server that is installed: mlx-lm comes with ``pip install 'svir-proxy[live]'``; mlx-vlm
(a gigabyte) with ``pip install mlx-vlm`` on top.
"""

from __future__ import annotations

import importlib.util
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.live.mlx.servers import mlx_server

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    import openai

    from tests.live.mlx.servers import MLXServer

    ServerOf = Callable[[], AbstractContextManager[MLXServer]]
    ProxyOf = Callable[..., AbstractContextManager[openai.OpenAI]]

_INSTALLED: Final = [kind for kind in ("mlx-lm", "mlx-vlm") if importlib.util.find_spec(kind.replace("-", "_"))]


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "lm_only: what mlx-vlm does otherwise")


@pytest.fixture(scope="session", params=_INSTALLED or ["mlx-lm"])
def kind(request: pytest.FixtureRequest) -> str:
    """The server's name, which is also that of its profile."""
    if not _INSTALLED:
        pytest.skip("there is no MLX server: pip install 'svir-proxy[live]'")
    return str(request.param)


@pytest.fixture(autouse=True)
def _lm_only(request: pytest.FixtureRequest, kind: str) -> None:
    if request.node.get_closest_marker("lm_only") and kind != "mlx-lm":
        pytest.skip("mlx-vlm does it otherwise")


@pytest.fixture(scope="session")
def server_of(kind: str, tmp_path_factory: pytest.TempPathFactory) -> ServerOf:
    """Starts a model server of the test's own: ``with server_of() as server``."""
    return lambda: mlx_server(kind, tmp_path_factory.mktemp(kind))


@pytest.fixture(scope="session")
def server(server_of: ServerOf) -> Iterator[MLXServer]:
    """The model server that most tests share."""
    with server_of() as server:
        yield server


@pytest.fixture(scope="session")
def proxy_of(kind: str, client_of: ProxyOf) -> ProxyOf:
    """Starts a proxy: ``with proxy_of(server, strict=True) as client``; ``scripted`` names the server's model."""

    @contextmanager
    def start(server: MLXServer, **backend: Any) -> Iterator[openai.OpenAI]:
        with client_of(server.url, profile=kind, models={"scripted": server.model}, **backend) as client:
            yield client

    return start


@pytest.fixture(scope="session")
def client(server: MLXServer, proxy_of: ProxyOf) -> Iterator[openai.OpenAI]:
    """A client of the proxy that most tests share."""
    with proxy_of(server) as client:
        yield client
