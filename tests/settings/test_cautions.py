"""What is not wrong, but surely not meant."""

from __future__ import annotations

from typing import Any

import pytest

from svir_proxy.settings import Settings, cautions

TWO: dict[str, Any] = {"workers": 2}
LIMITS: dict[str, Any] = {"limits": {"requests_per_day": 1}}


@pytest.mark.parametrize(
    ("server", "auth", "said"),
    [
        ({}, {}, {}),
        ({}, LIMITS, {}),
        (TWO, {}, {}),
        (TWO, {"keys": [{"key": "k", "models": ["m"]}]}, {}),
        (TWO, LIMITS | {"store": "redis://127.0.0.1:1"}, {}),
        (TWO, LIMITS, {"auth.store": "each of the 2 workers counts for itself, and a holder may have up to 2 times its"}),
        (TWO, {"keys": [{"key": "k", **LIMITS}]}, {"auth.store": "set it to the URL of a Redis or Valkey server"}),
        ({}, {"keys": ["a", {"key": "k", "expires": "2020-02-29"}]},
         {"auth.keys[1].expires": "is past (2020-02-29T23:59:59Z), so the key is refused"}),
        ({}, {"keys": [{"key": "k", "expires": "2999-01-01"}]}, {}),
    ],
)  # fmt: skip
def test_cautions(server: dict[str, Any], auth: dict[str, Any], said: dict[str, str]) -> None:
    found = dict(cautions(Settings.model_validate({"server": server, "auth": auth})))
    assert found.keys() == said.keys()
    assert all(words in found[path] for path, words in said.items())
