"""A proxy in the loop of whoever asks it."""

from __future__ import annotations

import httpx
import pytest

from svir_proxy.cli.in_process import running_proxy, settings_for
from svir_proxy.settings import SettingsError


async def test_it_serves_and_ends() -> None:
    async with running_proxy(settings_for("http://127.0.0.1:1")) as url, httpx.AsyncClient(trust_env=False) as client:
        assert (await client.get(f"{url}/healthz")).status_code == 200
    async with httpx.AsyncClient(trust_env=False) as client:
        with pytest.raises(httpx.ConnectError):
            await client.get(f"{url}/healthz")


def test_an_override_that_is_none_is_told() -> None:
    with pytest.raises(SettingsError):
        settings_for("http://127.0.0.1:1", overrides={"nonsense": 1})
