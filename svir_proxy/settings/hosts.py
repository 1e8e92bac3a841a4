"""Host names and addresses: where something is bound, and under which names it may be asked."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Sequence
from typing import Final

_HOST: Final = re.compile(r"[A-Za-z0-9._-]+")
_LOOPBACK_NAMES: Final = frozenset({"localhost", "127.0.0.1", "[::1]"})


def host_name(value: str) -> str:
    """A host name or an address, IPv6 without brackets; ValueError where it is none."""
    host = value.removeprefix("[").removesuffix("]")
    try:
        if not _HOST.fullmatch(host):
            ipaddress.IPv6Address(host)
    except ValueError:
        raise ValueError("must be a host name or an address, without scheme and port") from None
    return host


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches the address *host*."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def accepted_hosts(host: str, allowed: Sequence[str]) -> frozenset[str] | None:
    """What a request's Host may be where *host* is bound: lower case, no port, IPv6 in brackets; None: anything.

    *allowed*, as the operator lists them; else, where only this machine reaches it, the names it has for itself.
    """
    if allowed:
        return frozenset(allowed)
    return _LOOPBACK_NAMES | {host_header(host)} if is_loopback(host) else None


def host_header(value: str) -> str:
    """A host as the Host header has it; ValueError where it is none."""
    host = host_name(value).lower()
    return f"[{host}]" if ":" in host else host
