"""The settings as a whole: who may reach the proxy, and that it never stands open to others."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from svir_proxy.settings.model import LimitSettings, RoutingSettings, ServerSettings, Settings, StreamingSettings
from svir_proxy.settings.problems import problems_of


def _lines(**given: Any) -> list[str]:
    with pytest.raises(ValidationError) as refused:
        Settings(**given)
    return [f"{path}: {text}" for path, text in problems_of(refused.value, Settings)]


def test_defaults() -> None:
    settings = Settings()
    assert (settings.server.host, settings.server.port, settings.server.workers) == ("127.0.0.1", 8484, 1)
    assert settings.backends == []
    assert settings.auth.hashed() == []
    assert settings.streaming == StreamingSettings(commit_after=5, keepalive=10)
    assert settings.routing == RoutingSettings(
        keep_conversations=True, failover_seconds=60, breaker_failures=5, breaker_seconds=30, health_seconds=None
    )
    assert settings.limits == LimitSettings(
        max_event_bytes=33554432, max_answer_bytes=67108864, error_body_bytes=65536, held_text_bytes=1048576
    )


def test_made_directly_it_reads_no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SVIR_SERVER__PORT", "1")
    assert Settings().server.port == 8484


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "localhost", "LOCALHOST", "::1", "[::1]"])
def test_open_on_this_machine(host: str) -> None:
    assert Settings(server={"host": host}).server.is_loopback


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.0.2", "example.org", "fe80::1%eth0"])
def test_not_open_to_others(host: str) -> None:
    [line] = _lines(server={"host": host})
    assert line == (
        f"auth.keys: are missing, and other machines reach the bound address {host}; "
        "set auth.keys, or bind server.host to 127.0.0.1"
    )
    assert Settings(server={"host": host}, auth={"keys": ["sk"]}).server.host == host


@pytest.mark.parametrize(
    ("given", "accepted"),
    [
        ({}, {"localhost", "127.0.0.1", "[::1]"}),
        ({"host": "127.0.0.2"}, {"localhost", "127.0.0.1", "[::1]", "127.0.0.2"}),
        ({"host": "0.0.0.0"}, None),
        ({"allowed_hosts": ["Proxy.Lan", "::1"]}, {"proxy.lan", "[::1]"}),
        ({"host": "0.0.0.0", "allowed_hosts": ["proxy.lan"]}, {"proxy.lan"}),
    ],
)
def test_accepted_hosts(given: dict[str, Any], accepted: set[str] | None) -> None:
    assert ServerSettings.model_validate(given).accepted_hosts == accepted


@pytest.mark.parametrize("port", [0, 1, 65535, "9000"])
def test_ports(port: Any) -> None:
    assert Settings(server={"port": port}).server.port == int(port)


@pytest.mark.parametrize(
    ("given", "lines"),
    [
        ({"routing": {"failover_seconds": -1}}, ["routing.failover_seconds: must be greater than or equal to 0"]),
        ({"routing": {"breaker_failures": 0}}, ["routing.breaker_failures: must be greater than or equal to 1"]),
        ({"routing": {"breaker_seconds": 0}}, ["routing.breaker_seconds: must be greater than 0"]),
        ({"routing": {"health_seconds": 0}}, ["routing.health_seconds: must be greater than 0"]),
        ({"routing": {"health": 5}}, ["routing.health: is unknown; did you mean health_seconds?"]),
        ({"server": {"port": 65536}}, ["server.port: must be less than or equal to 65535"]),
        ({"server": {"port": -1}}, ["server.port: must be greater than or equal to 0"]),
        ({"server": {"port": "http"}}, ["server.port: must be a whole number"]),
        ({"server": {"workers": 0}}, ["server.workers: must be greater than or equal to 1"]),
        ({"server": {"host": ""}}, ["server.host: must be a host name or an address, without scheme and port"]),
        ({"server": {"host": "http://h"}}, ["server.host: must be a host name or an address, without scheme and port"]),
        ({"server": {"host": "h:80"}}, ["server.host: must be a host name or an address, without scheme and port"]),
        (
            {"server": {"allowed_hosts": ["a", "a:80"]}},
            ["server.allowed_hosts[1]: must be a host name or an address, without scheme and port"],
        ),
        (
            {"server": {"cors_origins": ["*", "http://a:1", "localhost", "http://a/b"]}},
            [
                f"server.cors_origins[{i}]: must be an origin such as http://localhost:3000, without a path, or *"
                for i in (2, 3)
            ],
        ),
        ({"logging": {"format": "yaml"}}, ["logging.format: must be 'console' or 'json'"]),
        ({"limits": {"max_event_bytes": 0}}, ["limits.max_event_bytes: must be greater than 0"]),
        ({"backend": []}, ["backend: is unknown; did you mean backends?"]),
        ({"backends": [{}]}, ["backends[0].name: is missing; set it", "backends[0].base_url: is missing; set it"]),
        (
            {"backends": [{"name": n, "base_url": "http://h"} for n in ("a", "b", "a")]},
            ["backends[2].name: is the name of backends[0] too; give it another"],
        ),
    ],
)
def test_problems(given: dict[str, Any], lines: list[str]) -> None:
    assert _lines(**given) == lines


@pytest.mark.parametrize(
    ("host", "url", "is_itself"),
    [
        ("127.0.0.1", "http://127.0.0.1:8484", True),
        ("127.0.0.1", "http://LocalHost:8484/v1", True),
        ("localhost", "http://127.0.0.1:8484", True),
        ("::1", "http://[::1]:8484/v1/", True),
        ("127.0.0.2", "http://127.0.0.2:8484", True),
        ("0.0.0.0", "http://127.0.0.1:8484", True),
        ("::", "http://localhost:8484", True),
        ("Proxy.lan", "http://proxy.lan:8484", True),
        ("127.0.0.1", "http://127.0.0.1:8485", False),
        ("127.0.0.1", "http://127.0.0.1", False),
        ("127.0.0.1", "http://[::1]:8484", False),
        ("127.0.0.1", "http://10.0.0.1:8484", False),
        ("0.0.0.0", "http://model:8484", False),
    ],
)
def test_no_backend_is_the_proxy(host: str, url: str, is_itself: bool) -> None:
    given = {
        "server": {"host": host},
        "auth": {"keys": ["sk"]},
        "backends": [{"name": "a", "base_url": "http://h"}, {"name": "b", "base_url": url}],
    }
    if is_itself:
        [line] = _lines(**given)
        assert line.startswith("backends[1].base_url: is this proxy itself")
    else:
        assert len(Settings(**given).backends) == 2


def test_port_0_is_no_backends_port() -> None:
    assert Settings(server={"port": 0}, backends=[{"name": "a", "base_url": "http://127.0.0.1"}]).backends


def test_sections_that_are_null_have_their_defaults() -> None:
    assert Settings(server=None, auth=None, backends=None) == Settings()
