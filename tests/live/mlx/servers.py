"""The MLX servers of the live tests: processes, and what they say of what they were asked."""

from __future__ import annotations

import json
import re
import sys
import uuid
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import httpx

from tests.live.mlx.model import write_model
from tests.live.mlx.scripts import SCRIPTS, Script
from tests.live.processes import NO_TLS, Child, running

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

ROOT: Final = Path(__file__).parents[3]
_OPTIONS: Final = {"mlx-lm": ["--trust-remote-code"], "mlx-vlm": []}
"""What lets a server run the model's own code."""


@dataclass(frozen=True)
class MLXServer:
    """A model server that answers."""

    url: str
    model: str
    """Its own name for the model: the folder."""
    child: Child

    def prompt(self) -> str:
        """The prompt that the model answered last."""
        return str([line["prompt"] for line in self._told() if "prompt" in line][-1])

    def tokens(self, script: str) -> int:
        """How many tokens the model was asked for in all answers with *script*."""
        return sum(line["script"] == script for line in self._told())

    def requests(self) -> list[str]:
        """All it was asked over HTTP up to now, as ``POST /v1/chat/completions``."""
        mark = f"/{uuid.uuid4().hex}"
        httpx.get(self.url + mark, verify=NO_TLS)
        self.child.wait_for(mark)
        return re.findall(r'"([A-Z]+ \S+) HTTP/', "\n".join(self.child.output))

    def _told(self) -> list[dict[str, Any]]:
        text = (Path(self.model) / "told.jsonl").read_text(encoding="utf-8")
        return [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]  # the last may be half written


@contextmanager
def mlx_server(
    kind: str, folder: Path, scripts: Mapping[str, Script] = SCRIPTS, phrases: Mapping[str, str] | None = None
) -> Iterator[MLXServer]:
    """A server of *kind*, ``mlx-lm`` or ``mlx-vlm``, with all it needs in *folder*; *phrases*: see `write_model`."""
    package = kind.replace("-", "_")
    model, cache = folder / "model", folder / "cache"
    model.mkdir()
    (cache / "hub").mkdir(parents=True)
    write_model(model, scripts, f"tests.live.mlx.architecture_{package.removeprefix('mlx_')}", phrases or {})
    command = [sys.executable, "-m", "tests.live.mlx.serve", package, "--model", str(model), *_OPTIONS[kind]]
    with running(command, HF_HOME=str(cache), HF_HUB_OFFLINE="1", PYTHONPATH=str(ROOT)) as child:
        yield MLXServer(child.wait_for(r"unning on (http://[^\s]+)")[1], str(model.resolve()), child)
