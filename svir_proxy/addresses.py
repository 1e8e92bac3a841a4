"""Which addresses and names are of the public internet, and which are of somebody's own network."""

from __future__ import annotations

import ipaddress
from typing import Final

_NAT64: Final = ipaddress.IPv6Network("64:ff9b::/96")
_OWN: Final = frozenset(
    {
        *("localhost", "local", "internal", "intranet", "private", "lan", "home", "corp", "mail", "test", "example"),
        *("invalid", "onion", "arpa"),
    }
)
"""Last parts of names that no public name server knows: RFC 2606, 6761, 6762, 7686, 8375, and what ICANN reserves."""


def is_public(address: str) -> bool:
    """Whether *address* is one of the public internet, also where it wraps an IPv4 address in an IPv6 one."""
    ip = ipaddress.ip_address(address)
    if isinstance(ip, ipaddress.IPv6Address):
        wrapped = ip.ipv4_mapped or ip.sixtofour or (ip.teredo[1] if ip.teredo else None)
        if wrapped is None and ip in _NAT64:
            wrapped = ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF)
        if wrapped is not None:
            ip = wrapped
    return ip.is_global and not ip.is_multicast


def may_be_public(host: str) -> bool:
    """Whether *host*, a name or an address, can be one of the public internet, as far as its spelling tells."""
    host = host.removeprefix("[").removesuffix("]").rstrip(".").lower()
    try:
        return is_public(host.partition("%")[0])
    except ValueError:
        last = host.rpartition(".")[2]
        return "." in host and last not in _OWN and not last[:1].isdigit()
