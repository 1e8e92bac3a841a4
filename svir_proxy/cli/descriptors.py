"""File descriptors: as many as the system allows, and shared out, so that no crowd of clients takes those for servers.

Each client that is served takes one, and one more to its server; each that is told to come back takes one for a moment.
"""

from __future__ import annotations

import contextlib
import logging
import resource
from typing import Final

_LOGGER: Final = logging.getLogger("svir_proxy")
_ENOUGH: Final = 65_536
"""As many as are asked for where there is no limit; some systems refuse an endless one."""
_KEPT: Final = 64
"""For everything else: the listening socket, the loop, files, model lists, images."""
_EACH: Final = 3


def make_room(connections: int) -> None:
    """Have the process open as many files as it may. Says so where that is too little for *connections* of clients."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _ENOUGH if hard == resource.RLIM_INFINITY else min(hard, _ENOUGH)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(ValueError, OSError):  # then it stays as it is
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    served, _ = share_out(connections)
    if served < connections:
        _LOGGER.warning(
            "server.max_connections: %d is more than the open files of this process allow (ulimit -n); it is %d",
            connections,
            served,
        )


def share_out(connections: int) -> tuple[int, int]:
    """Where *connections* are configured: clients that may be served at a time, and those that may be told to wait.

    Together they leave a descriptor for the server of each that is served.
    """
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        soft = _ENOUGH
    room = soft - _KEPT
    served = max(1, min(connections, room // _EACH))
    return served, max(served, room - 2 * served)
