"""Whether there are metrics, and what has to be said where others would see them."""

from __future__ import annotations

from typing import Any, Final

import pytest
from pydantic import ValidationError

from svir_proxy.settings import Settings
from svir_proxy.settings.problems import problems_of

PUBLIC: Final = {"server": {"host": "0.0.0.0"}, "auth": {"keys": ["sk-a"]}}


@pytest.mark.parametrize(
    ("metrics", "here", "elsewhere"),
    [
        ({}, True, False),
        ({"enabled": False}, False, False),
        ({"key": "sk-m"}, True, True),
        ({"key": ""}, True, False),
        ({"port": 9464}, True, True),
        ({"port": 0}, True, True),
        ({"enabled": True, "key": "sk-m"}, True, True),
        ({"enabled": True, "port": 9464}, True, True),
        ({"enabled": False, "port": 9464}, False, False),
    ],
)
def test_there_are_some_where_nobody_else_sees_them(metrics: dict[str, Any], here: bool, elsewhere: bool) -> None:
    assert Settings.model_validate({"metrics": metrics}).has_metrics == here
    assert Settings.model_validate({**PUBLIC, "metrics": metrics}).has_metrics == elsewhere


@pytest.mark.parametrize(
    ("document", "path", "text"),
    [
        (
            {**PUBLIC, "metrics": {"enabled": True}},
            "metrics.key",
            (
                "is missing, and other machines reach the bound address 0.0.0.0; set it (or key_file, or sha256), or "
                "metrics.port for a port of their own"
            ),
        ),
        (
            {"metrics": {"port": 8484}},
            "metrics.port",
            "is the proxy's own port; choose another, or leave it out to have /metrics there",
        ),
        ({"metrics": {"port": 65536}}, "metrics.port", "must be less than or equal to 65535"),
        ({"metrics": {"host": "a b"}}, "metrics.host", "must be a host name or an address, without scheme and port"),
        ({"metrics": {"ports": 1}}, "metrics.ports", "is unknown; did you mean port?"),
    ],
)
def test_what_is_wrong_is_told(document: dict[str, Any], path: str, text: str) -> None:
    with pytest.raises(ValidationError) as caught:
        Settings.model_validate(document)
    assert problems_of(caught.value, Settings) == [(path, text)]


def test_of_a_bad_address_only_that_is_told() -> None:
    with pytest.raises(ValidationError) as caught:
        Settings.model_validate({"server": {"port": -1}, "metrics": {"enabled": True}})
    assert [path for path, _ in problems_of(caught.value, Settings)] == ["server.port"]
