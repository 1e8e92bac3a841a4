"""What is public, and what is somebody's own."""

from __future__ import annotations

import pytest

from svir_proxy.addresses import is_public, may_be_public


@pytest.mark.parametrize(
    ("address", "public"),
    [
        ("93.184.216.34", True),
        ("2606:2800:220:1:248:1893:25c8:1946", True),
        ("10.1.2.3", False),
        ("100.64.0.1", False),
        ("0.0.0.0", False),
        ("224.0.0.1", False),
        ("::1", False),
        ("fe80::1", False),
        ("fd00::1", False),
        ("::ffff:127.0.0.1", False),
        ("::ffff:93.184.216.34", True),
        ("64:ff9b::7f00:1", False),
        ("2002:7f00:1::", False),
    ],
)
def test_public_addresses(address: str, public: bool) -> None:
    assert is_public(address) is public


@pytest.mark.parametrize(
    ("host", "public"),
    [
        ("api.openai.com", True),
        ("API.OPENAI.COM.", True),
        ("8.8.8.8", True),
        ("[2606:4700::1111]", True),
        ("127.0.0.1", False),
        ("10.0.0.5", False),
        ("[::1]", False),
        ("fe80::1%eth0", False),
        ("localhost", False),
        ("models.localhost", False),
        ("rack", False),
        ("host.docker.internal", False),
        ("nas.local", False),
        ("gpu.lan", False),
        ("vllm.ai.svc.cluster.local", False),
        ("router.home.arpa", False),
        # other ways to write an address
        ("127.1", False),
        ("0x7f.1", False),
        ("2130706433", False),
    ],
)
def test_a_host_by_its_spelling(host: str, public: bool) -> None:
    assert may_be_public(host) is public
