"""Host names and addresses, as they are written, bound and asked for."""

from __future__ import annotations

import pytest

from svir_proxy.settings.hosts import accepted_hosts, host_header, host_name, is_loopback

OWN = {"localhost", "127.0.0.1", "[::1]"}


@pytest.mark.parametrize(
    ("written", "name", "header", "loopback"),
    [
        ("127.0.0.1", "127.0.0.1", "127.0.0.1", True),
        ("127.9.9.9", "127.9.9.9", "127.9.9.9", True),
        ("LocalHost", "LocalHost", "localhost", True),
        ("::1", "::1", "[::1]", True),
        ("[::1]", "::1", "[::1]", True),
        ("0.0.0.0", "0.0.0.0", "0.0.0.0", False),
        ("::", "::", "[::]", False),
        ("Svir.lan", "Svir.lan", "svir.lan", False),
    ],
)
def test_a_host(written: str, name: str, header: str, loopback: bool) -> None:
    assert host_name(written) == name
    assert host_header(written) == header
    assert is_loopback(name) == loopback


@pytest.mark.parametrize("written", ["", "http://localhost", "localhost:80", "a b", "[::1]:80", ":::"])
def test_what_is_none(written: str) -> None:
    with pytest.raises(ValueError, match="without scheme and port"):
        host_name(written)


@pytest.mark.parametrize(
    ("host", "allowed", "accepted"),
    [
        ("127.0.0.1", [], OWN),
        ("127.0.0.5", [], OWN | {"127.0.0.5"}),
        ("0.0.0.0", [], None),
        ("0.0.0.0", ["svir.lan"], {"svir.lan"}),
        ("127.0.0.1", ["svir.lan"], {"svir.lan"}),
    ],
)
def test_the_names_that_it_may_be_asked_under(host: str, allowed: list[str], accepted: set[str] | None) -> None:
    assert accepted_hosts(host, allowed) == accepted
