"""The scripted model itself, on the bare server: what it does not say here, no test behind the proxy can expect."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import httpx
import pytest

from tests.live.answers import prompt
from tests.live.mlx.model import write_model
from tests.live.mlx.scripts import SCRIPTS
from tests.live.processes import NO_TLS

if TYPE_CHECKING:
    from pathlib import Path

    from tests.live.mlx.servers import MLXServer

pytestmark = pytest.mark.live


def _say(server: MLXServer, messages: list[Any], **fields: Any) -> tuple[str, str]:
    """Reasoning and content, without the blanks around them that servers take away or not."""
    body = {"model": server.model, "messages": messages, "temperature": 1.0, **fields}
    answer = httpx.post(f"{server.url}/v1/chat/completions", json=body, verify=NO_TLS).raise_for_status().json()
    message = answer["choices"][0]["message"]
    return (message.get("reasoning") or "").strip(), (message.get("content") or "").strip()


@pytest.mark.parametrize(
    "name", ["default", "emoji", "think", "late-call", "fenced-json", "think-json", "unfit-json", "no-json"]
)
def test_says_the_script_the_prompt_names(server: MLXServer, name: str) -> None:
    before, _, after = SCRIPTS[name].texts[0].rpartition("</think>")
    assert _say(server, prompt(name)) == (before.removeprefix("<think>").strip(), after.strip())


def test_says_the_default_without_a_name(server: MLXServer) -> None:
    assert _say(server, [{"role": "user", "content": "Hi."}]) == ("", SCRIPTS["default"].texts[0])


@pytest.mark.parametrize("messages", [0, 1, 2])
def test_says_the_next_text_after_a_message(server: MLXServer, messages: int) -> None:
    texts = SCRIPTS["no-call"].texts
    more = [{"role": "assistant", "content": "So?"}, {"role": "user", "content": "So."}] * messages
    assert _say(server, [*prompt("no-call"), *more]) == ("", texts[min(messages, 1)])


def test_says_a_text_without_end(server: MLXServer) -> None:
    assert _say(server, prompt("endless"), max_tokens=200) == ("", (SCRIPTS["endless"].texts[0] * 5)[:200].strip())


def test_is_counted(server: MLXServer) -> None:
    before = server.tokens("emoji")
    _say(server, prompt("emoji"))
    assert server.tokens("emoji") - before >= len(SCRIPTS["emoji"].texts[0].encode())
    assert server.prompt() == "<|im_start|>user\nPlease answer. [[s:emoji]]<|im_end|>\n<|im_start|>assistant\n"


def test_writes_the_same_bytes_each_time(kind: str, tmp_path: Path) -> None:
    written = []
    for _ in range(2):
        write_model(tmp_path, SCRIPTS, f"an_architecture_for_{kind}", {})
        written.append({path.name: path.read_bytes() for path in tmp_path.iterdir()})
    assert written[0] == written[1]
