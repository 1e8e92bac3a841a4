"""Who gets in."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from svir_proxy.errors import ProxyError
from svir_proxy.server.gate import Gate
from svir_proxy.settings import Settings
from tests.server.support import http_scope

KEYS = {"keys": [{"name": "ana", "key": "key-of-ana"}, {"sha256": hashlib.sha256(b"key-of-bo").hexdigest()}]}


def gate(server: dict[str, Any] | None = None, auth: dict[str, Any] | None = None) -> Gate:
    return Gate(Settings.model_validate({"server": server or {}, "auth": auth or {}}))


LOOPBACK: dict[str, Any] = {}
LAN = {"host": "0.0.0.0"}
NAMED = {"host": "0.0.0.0", "allowed_hosts": ["Proxy.lan", "::1"]}
IPV6 = {"host": "::1"}


@pytest.mark.parametrize(
    ("server", "host", "enters"),
    [
        (LOOPBACK, "localhost", True),
        (LOOPBACK, "localhost:8484", True),
        (LOOPBACK, "LOCALHOST:1", True),
        (LOOPBACK, "127.0.0.1:8484", True),
        (LOOPBACK, "[::1]:8484", True),
        (LOOPBACK, "[::1]", True),
        (LOOPBACK, "evil.example", False),
        (LOOPBACK, "evil.example:8484", False),
        (LOOPBACK, "localhost.evil.example", False),
        (LOOPBACK, "192.168.1.2:8484", False),
        (LOOPBACK, "", False),
        (LOOPBACK, ":8484", False),
        (IPV6, "[::1]:80", True),
        (LAN, "anything", True),
        (LAN, "", True),
        (NAMED, "proxy.lan:8484", True),
        (NAMED, "[::1]:8484", True),
        (NAMED, "localhost", False),
    ],
)
def test_the_host_header(server: dict[str, Any], host: str, enters) -> None:
    own = gate(server, KEYS)
    scope = http_scope(host=host, authorization="Bearer key-of-ana")
    if enters:
        assert own.enter(scope) == "ana"
        return
    with pytest.raises(ProxyError) as caught:
        own.enter(scope)
    assert (caught.value.kind, caught.value.status) == ("forbidden_host", 403)
    assert "server.allowed_hosts" in caught.value.message
    # A probe asks under whatever name it has for the proxy.
    assert own.enter({**scope, "path": "/healthz"}) is None


@pytest.mark.parametrize(
    ("headers", "holder"),
    [
        ({"authorization": "Bearer key-of-ana"}, "ana"),
        ({"authorization": "bearer  key-of-ana "}, "ana"),
        ({"authorization": "Bearer key-of-bo"}, "keys[1]"),
        ({"x_api_key": "key-of-ana"}, "ana"),
        ({"api_key": "key-of-bo"}, "keys[1]"),
        ({"authorization": "Bearer placeholder", "x_api_key": "key-of-ana"}, "ana"),
        ({"authorization": "Bearer placeholder", "api_key": "key-of-ana"}, "ana"),
        ({"authorization": "Bearer", "api_key": "key-of-ana"}, "ana"),
        ({}, None),
        ({"authorization": "Bearer "}, None),
        ({"authorization": "Bearer key-of-an"}, None),
        ({"authorization": "Bearer key-of-anaa"}, None),
        ({"authorization": "key-of-ana"}, None),
        ({"authorization": "Basic key-of-ana"}, None),
        ({"cookie": "key-of-ana"}, None),
        ({"authorization": f"Bearer {hashlib.sha256(b'key-of-bo').hexdigest()}"}, None),
        ({"authorization": "Bearer \xff\xfe"}, None),
    ],
)
def test_keys(headers: dict[str, str], holder: str | None) -> None:
    scope = http_scope("/chat/completions", **headers)
    if holder is not None:
        assert gate(auth=KEYS).enter(scope) == holder
        return
    with pytest.raises(ProxyError) as caught:
        gate(auth=KEYS).enter(scope)
    assert (caught.value.kind, caught.value.status) == ("invalid_api_key", 401)
    assert not any(value.partition(" ")[2] in caught.value.message for value in headers.values() if " " in value[:-1])


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
def test_a_health_check_needs_no_key(path: str) -> None:
    assert gate(auth=KEYS).enter(http_scope(path)) is None


def test_without_keys_it_is_open() -> None:
    assert gate().enter(http_scope("/models", authorization="Bearer whatever")) is None
