"""What the kernel knows of a connection's other end, whichever process has it; Linux only."""

from __future__ import annotations

import socket
import struct
from typing import Final

_OPEN: Final = frozenset({1, 4, 5})
"""States in which the other end has not closed: ESTABLISHED, FIN_WAIT1, FIN_WAIT2."""
_SOCK_DIAG: Final = 4
_BY_FAMILY: Final = 20
_REQUEST: Final = 1
_ANY: Final = 0xFFFFFFFF
_INFO: Final = 2
_INFO_WANTED: Final = 1 << (_INFO - 1)
_MESSAGE: Final = 16 + 72
"""Bytes of an answer's headers; attributes follow."""
_UNREAD: Final = 16 + 56
"""Where in them the bytes are that arrived and were not read."""
_BYTES_RECEIVED: Final = 128
"""Where ``struct tcp_info`` has ``tcpi_bytes_received``, 64 bits."""


def has_left(sock: socket.socket) -> bool:
    """Whether the other end of *sock* has closed."""
    return sock.fileno() < 0 or sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] not in _OPEN


def has_read(sock: socket.socket, count: int) -> bool:
    """Whether the other end of *sock* has read the *count* bytes that were sent to it, or has closed."""
    if has_left(sock):
        return True
    found = _look_up(sock.getpeername(), sock.getsockname())
    return found is None or (found[0] >= count and found[1] == 0)


def _look_up(here: tuple[str, int], there: tuple[str, int]) -> tuple[int, int] | None:
    """Bytes that arrived at the end *here* of a connection, and those that wait there; None: there is no such end."""
    asked = struct.pack("=BBBBI", socket.AF_INET, socket.IPPROTO_TCP, _INFO_WANTED, 0, _ANY)
    asked += struct.pack("!HH", here[1], there[1])
    asked += b"".join(socket.inet_aton(host).ljust(16, b"\0") for host, _ in (here, there))
    asked += struct.pack("=III", 0, _ANY, _ANY)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _SOCK_DIAG) as kernel:
        kernel.send(struct.pack("=IHHII", 16 + len(asked), _BY_FAMILY, _REQUEST, 1, 0) + asked)
        answer = kernel.recv(8192)
    if struct.unpack_from("=H", answer, 4)[0] != _BY_FAMILY:
        return None
    at = _MESSAGE
    while at + 4 <= len(answer):
        size, kind = struct.unpack_from("=HH", answer, at)
        if kind == _INFO:
            arrived = struct.unpack_from("=Q", answer, at + 4 + _BYTES_RECEIVED)[0]
            return int(arrived), int(struct.unpack_from("=I", answer, _UNREAD)[0])
        at += (size + 3) & ~3
    return None
