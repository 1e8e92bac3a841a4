"""The model server of the demo: llama.cpp in a process of its own. Both ends of the pipe to it are here.

A process, because llama.cpp's threads know nothing of Python's signals, and a crash in native code takes its process
along. The child gets its order as one line of JSON on standard input and answers with its URL. It ends when that input
ends, which the kernel sees to however the parent goes: no orphan stays behind with a model in memory.
"""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
import tempfile
import threading
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CONTEXT: Final = 8192
"""Tokens, shared by the requests that run at the same time."""
SLOTS: Final = 4
"""Requests that run at the same time."""
STOP_SECONDS: Final = 5.0
LOG_LINES: Final = 3
"""Lines of llama.cpp's log that tell why it did not start: the reason comes first, its consequences after."""


class DemoServerError(Exception):
    """llama.cpp did not start; the text has its own words."""


@dataclass(frozen=True, slots=True)
class DemoServer:
    """A llama.cpp that answers.

    Attributes:
        url: Without ``/v1``.
        api_key: Made for this one process: without a key llama.cpp answers any web page open on this machine.
        process: The child.
    """

    url: str
    api_key: str
    process: subprocess.Popen[str]


@contextmanager
def running(model: Path, name: str, port: int) -> Iterator[DemoServer]:
    """Serves the GGUF *model* as *name* on a loopback *port* (0: a free one) until the context ends.

    Raises:
        DemoServerError: It could not be started.
    """
    api_key = secrets.token_urlsafe(32)
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as log, _child(log) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            with suppress(BrokenPipeError):  # it is gone already; its log says why
                order = {"model": str(model), "name": name, "port": port, "api_key": api_key}
                process.stdin.write(json.dumps(order) + "\n")
                process.stdin.flush()
            url = process.stdout.readline().strip()
            if not url:
                process.wait()
                raise DemoServerError(f"llama.cpp does not serve {model}: {_reason(log)}")
            yield DemoServer(url, api_key, process)
        finally:
            _stop(process)


def _child(log: IO[str]) -> subprocess.Popen[str]:
    # By its path and not with -m: the package around it, with the proxy's web stack, is none of the child's business.
    command = [sys.executable, "-P", __file__]
    pipe = subprocess.PIPE
    # A session of its own: Ctrl-C is for the parent, which ends the child in its turn.
    return subprocess.Popen(  # noqa: S603 -- this very file
        command, stdin=pipe, stdout=pipe, stderr=log, text=True, start_new_session=True
    )


def _stop(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    with suppress(BrokenPipeError):
        process.stdin.close()
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()


def _reason(log: IO[str]) -> str:
    log.seek(0)
    lines = [line for line in log.read().splitlines() if line.strip()]
    return "\n  ".join(["its log says", *lines[:LOG_LINES]]) if lines else "it ended without a word"


def main() -> None:
    """The child: reads the order, serves, says where, and ends with its input."""
    import xllamacpp  # noqa: PLC0415 -- an optional package, and only the child has a use for it

    order = json.loads(sys.stdin.readline())
    ended = threading.Thread(target=_end_with_input, daemon=True)
    ended.start()
    params = xllamacpp.CommonParams()
    params.model.path = order["model"]
    params.model_alias = {order["name"]}
    params.api_keys = [order["api_key"]]
    params.hostnames = ["127.0.0.1"]
    params.port = order["port"]
    params.n_ctx = CONTEXT
    params.n_parallel = SLOTS
    params.kv_unified = True  # a request alone has the whole context
    params.use_jinja = True  # tools need the model's own template
    params.ui = False
    params.verbosity = 1  # errors only
    try:
        server = xllamacpp.Server(params)
    except RuntimeError:
        sys.exit(1)  # the reason is in the log; the exception has none
    print(server.listening_address, flush=True)
    ended.join()


def _end_with_input() -> None:
    """Waits for the end of the input and leaves without ceremony: nothing here is worth saving."""
    while os.read(0, 1024):  # not sys.stdin: a thread inside its lock would abort the exit of a server that fails
        pass
    os._exit(0)


if __name__ == "__main__":
    main()
