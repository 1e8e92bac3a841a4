"""Runs an MLX server on a free loopback port, in a process of its own.

Arguments: mlx_lm or mlx_vlm, then the server's own options. Prints the URL once it accepts connections; ends when its
input ends, so that it never outlives the tests.
"""

from __future__ import annotations

import importlib
import os
import sys
import threading
from http.server import ThreadingHTTPServer
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


def main(package: str, *options: str) -> None:
    """Serves with the main function of *package*'s own command."""
    threading.Thread(target=_end_with_the_input, daemon=True).start()
    ThreadingHTTPServer.server_activate = _telling(ThreadingHTTPServer.server_activate)  # type: ignore[method-assign]
    sys.argv = [f"{package}.server", "--host", "127.0.0.1", "--port", "0", *options]
    if package == "mlx_vlm":
        importlib.import_module("tests.live.mlx.cpu_mask").install()
    importlib.import_module(f"{package}.server").main()


def _telling(activate: Callable[[ThreadingHTTPServer], None]) -> Callable[[ThreadingHTTPServer], None]:
    """mlx-lm logs the port that it was asked for: 0."""

    def activate_and_tell(server: ThreadingHTTPServer) -> None:
        activate(server)
        print(f"Running on http://127.0.0.1:{server.server_port}", flush=True)  # noqa: T201 -- the parent reads it

    return activate_and_tell


def _end_with_the_input() -> None:
    sys.stdin.buffer.read()
    os._exit(0)  # its threads know no other end


if __name__ == "__main__":
    main(*sys.argv[1:])
