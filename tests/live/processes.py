"""The processes of the live tests: children that say on which URL they answer."""

from __future__ import annotations

import os
import re
import ssl
import subprocess
import sys
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

HERE: Final = Path(__file__).parent
PATIENCE: Final = 60.0
"""Seconds after which a child that neither says nor does what it should is given up."""
NO_TLS: Final = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""For `verify`: no child speaks TLS, and to read all authorities takes 30 ms for each request."""


@dataclass
class Child:
    """A running process and all it has printed, on both of its streams and in the order it came."""

    process: subprocess.Popen[str]
    output: list[str] = field(default_factory=list)
    url: str = ""
    """Where it answers, once it has said so."""
    _news: threading.Condition = field(default_factory=threading.Condition)
    _ended: bool = False

    def read(self) -> None:
        """Takes the output as it comes, until its end: a full pipe would stop the child."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            with self._news:
                self.output.append(line.rstrip("\n"))
                self._news.notify_all()
        with self._news:
            self._ended = True
            self._news.notify_all()

    def wait_for(self, pattern: str) -> re.Match[str]:
        """The first match of *pattern* in a line; AssertionError with the output where none comes."""
        with self._news:
            self._news.wait_for(lambda: self._ended or self._find(pattern) is not None, PATIENCE)
            match = self._find(pattern)
        assert match is not None, "\n".join([f"no line has {pattern!r}:", *self.output])
        return match

    def _find(self, pattern: str) -> re.Match[str] | None:
        return next((match for line in self.output if (match := re.search(pattern, line))), None)

    def wait(self) -> int:
        """The exit status."""
        return self.process.wait(PATIENCE)

    def kill(self) -> None:
        """Ends the process as a crash would."""
        self.process.kill()
        self.process.wait(PATIENCE)


@contextmanager
def running(command: Sequence[str], **variables: str) -> Iterator[Child]:
    """Runs *command*, with more environment *variables*; at the end of the context it is killed if it still runs."""
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        encoding="utf-8",
        errors="replace",
        env={**os.environ, **variables},
    ) as process:
        child = Child(process)
        reader = threading.Thread(target=child.read)
        reader.start()
        try:
            yield child
        finally:
            child.kill()
            reader.join(PATIENCE)


@contextmanager
def llama_server(model: Path, api_key: str, template: Path | None = None, purpose: str = "") -> Iterator[Child]:
    """A model server that answers. *purpose*: see serve_llama.py."""
    command = [sys.executable, str(HERE / "serve_llama.py"), str(model), api_key, str(template or ""), purpose]
    with running(command) as child:
        child.url = child.wait_for(r"^(http://\S+)$")[1]
        yield child


@contextmanager
def proxy_server(config: Path) -> Iterator[Child]:
    """A proxy that accepts, on a free port."""
    with running([sys.executable, "-m", "svir_proxy", "serve", "--config", str(config), "--port", "0"]) as child:
        child.url = child.wait_for(r"listening on (http://\S+)")[1]
        yield child
