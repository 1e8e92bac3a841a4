"""The scripted model itself, on the bare server: what it does not say here, no test behind the proxy can expect."""

from __future__ import annotations

from typing import TYPE_CHECKING

import httpx
import pytest

from tests.live.conftest import UPSTREAM_KEY
from tests.live.processes import NO_TLS
from tests.live.script_model import LOOP, write_model
from tests.live.scripts import SCRIPTS

if TYPE_CHECKING:
    from pathlib import Path

    from tests.live.script_model import Script

pytestmark = pytest.mark.live


def _text(script: Script) -> str:
    if isinstance(script, str):
        return script
    return b"".join(piece if isinstance(piece, bytes) else piece.encode() for piece in script).decode()


def _complete(llama: str, prompt: str, limit: int) -> str:
    answer = httpx.post(
        f"{llama}/completion",
        headers={"authorization": f"Bearer {UPSTREAM_KEY}"},
        json={"prompt": prompt, "n_predict": limit, "temperature": 1.5},
        verify=NO_TLS,
    )
    return str(answer.raise_for_status().json()["content"])


@pytest.mark.parametrize(
    ("prompt", "said"),
    [
        *((f"Say it. [[s:{name}]] Now.", _text(script)) for name, script in SCRIPTS.items() if name != LOOP),
        ("Nothing to trigger a script.", _text(SCRIPTS["default"])),
        ("[[s:opened]] was declared after [[s:call]].", _text(SCRIPTS["opened"])),
    ],
)
def test_says_the_script_the_prompt_names(llama: str, prompt: str, said: str) -> None:
    assert _complete(llama, prompt, 500) == said


def test_loops(llama: str) -> None:
    loop = _text(SCRIPTS[LOOP])
    assert _complete(llama, f"[[s:{LOOP}]]", 200).startswith(loop * 3)


def test_writes_the_same_bytes_each_time(tmp_path: Path) -> None:
    for name in ("one", "two"):
        write_model(tmp_path / name, SCRIPTS, "")
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_refuses_bytes_that_would_need_two_successors(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="followed by something else already"):
        write_model(tmp_path / "model", {"default": ("one ", b"!", " two "), "other": ("three ", b"!", " four ")}, "")
