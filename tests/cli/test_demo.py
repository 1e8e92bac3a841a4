"""The demo as its user meets it: what it prints, whether that works, and how it ends."""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import httpx
import pytest

from svir_proxy import cli
from svir_proxy.cli import demo
from tests.live.processes import PATIENCE, running
from tests.live.script_model import write_model

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.live.processes import Child

COMMAND: Final = [sys.executable, "-m", "svir_proxy", "demo"]
TEMPLATE: Final = "{% for message in messages %}{{ message.content }}\n{% endfor %}"
ANSWER: Final = "This is what the demo says."


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model whose name has to be quoted, in a shell and in Python."""
    if importlib.util.find_spec(demo.ENGINE) is None:
        pytest.skip("there is no llama.cpp: pip install 'svir-proxy[test]'")
    path = tmp_path_factory.mktemp("model") / 'it\'s "mine".gguf'
    write_model(path, {"default": ANSWER}, TEMPLATE)
    return path


@pytest.fixture
def running_demo(model: Path) -> Iterator[Child]:
    """A demo that is ready."""
    with running([*COMMAND, "--port", "0", "--model", str(model)]) as child:
        child.wait_for("^Ctrl-C ends it")
        yield child


def upstream(child: Child) -> tuple[str, int]:
    """Where the demo's llama.cpp answers, as an address to connect to."""
    host, port = child.wait_for(r"llama.cpp answers at http://([\d.]+):(\d+) ").groups()
    return host, int(port)


def is_gone(address: tuple[str, int]) -> bool:
    """Whether nobody listens there, before patience ends. Each look is a connection: the loop needs no pause."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        try:
            socket.create_connection(address).close()
        except ConnectionError:
            return True
    return False


@pytest.mark.live
def test_the_curl_line_works(running_demo: Child) -> None:
    line = running_demo.wait_for("^curl .*")[0]
    curl, url, dash_h, header, dash_d, body = shlex.split(line)
    assert (curl, dash_h, dash_d) == ("curl", "-H", "-d")
    name, _, value = header.partition(": ")
    answer = httpx.post(url, headers={name: value}, content=body).raise_for_status().json()
    assert answer["choices"][0]["message"]["content"] == ANSWER
    assert answer["model"] == 'it\'s "mine"'


@pytest.mark.live
@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl")
def test_the_curl_line_works_in_a_shell(running_demo: Child) -> None:
    line = running_demo.wait_for("^curl .*")[0]
    assert ANSWER in subprocess.run(["sh", "-c", line], capture_output=True, text=True, check=True).stdout


@pytest.mark.live
def test_the_snippet_works(running_demo: Child) -> None:
    output = running_demo.output
    snippet = "\n".join(output[output.index("from openai import OpenAI") : output.index("print()") + 1])
    done = subprocess.run([sys.executable, "-c", snippet], capture_output=True, text=True, check=True)
    assert done.stdout == f"{ANSWER}\n"


@pytest.mark.live
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_both(running_demo: Child, number: signal.Signals) -> None:
    running_demo.process.send_signal(number)
    assert running_demo.wait() == cli.OK
    assert is_gone(upstream(running_demo))


@pytest.mark.live
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_a_start(model: Path, number: signal.Signals) -> None:
    with running([*COMMAND, "--port", "0", "--model", str(model)]) as child:
        child.wait_for("^starting llama.cpp")
        child.process.send_signal(number)
        assert child.wait() == cli.OK


@pytest.mark.live
def test_the_server_does_not_outlive_a_killed_demo(running_demo: Child) -> None:
    running_demo.kill()
    assert is_gone(upstream(running_demo))


@pytest.mark.live
def test_a_server_that_dies_ends_the_demo(running_demo: Child) -> None:
    os.kill(int(running_demo.wait_for(r"\(process (\d+)\)")[1]), signal.SIGKILL)
    assert running_demo.wait() == cli.FAILED
    running_demo.wait_for("llama.cpp has ended by itself")


@pytest.mark.live
def test_the_packaged_model(model: Path, tmp_path: Path) -> None:
    package = tmp_path / demo.MODEL
    package.mkdir()
    (package / "__init__.py").write_text("raise ImportError('it needs another program')", encoding="utf-8")
    shutil.copy(model, package / "any-name.gguf")
    with running([*COMMAND, "--port", "0"], PYTHONPATH=str(tmp_path)) as child:
        child.wait_for("any-name.gguf")
        url = child.wait_for(r"listening on (http://\S+)")[1]
        assert [entry["id"] for entry in httpx.get(f"{url}/v1/models").json()["data"]] == [demo.MODEL_NAME]
        tool = {"type": "function", "function": {"name": "look"}}
        body = {"messages": [{"role": "user", "content": "Hi"}], "tools": [tool], "tool_choice": "required"}
        answer = httpx.post(f"{url}/v1/chat/completions", json={**body, "max_tokens": 2})
        assert "tool_choice.required=instructed" in answer.headers["x-svir-rewrites"], "its template knows no tools"


@pytest.mark.live
@pytest.mark.parametrize("option", ["--port", "--llama-port"])
def test_a_port_that_is_taken(model: Path, option: str) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        ports = {"--port": "0", option: str(taken.getsockname()[1])}
        with running([*COMMAND, "--model", str(model), *(word for pair in ports.items() for word in pair)]) as child:
            child.wait_for("address already in use|couldn't bind HTTP server socket")
            assert child.wait() == cli.FAILED


@pytest.mark.live
@pytest.mark.usefixtures("model")  # for its skip
def test_a_file_that_is_no_model(tmp_path: Path) -> None:
    (tmp_path / "text.gguf").write_text("text", encoding="utf-8")
    with running([*COMMAND, "--port", "0", "--model", str(tmp_path / "text.gguf")]) as child:
        child.wait_for(r"llama\.cpp does not serve .*text\.gguf: its log says")
        child.wait_for("invalid magic characters")
        assert child.wait() == cli.FAILED


@pytest.mark.parametrize("missing", [[demo.ENGINE], [demo.MODEL], [demo.ENGINE, demo.MODEL]])
def test_a_missing_package(
    missing: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "file.gguf").touch()

    def find_spec(name: str) -> Any:
        spec = importlib.util.spec_from_loader(name, None, is_package=True)
        assert spec is not None
        spec.submodule_search_locations = [str(tmp_path)]
        return None if name in missing else spec

    monkeypatch.setattr(importlib.util, "find_spec", find_spec)
    assert cli.main(["demo"]) == cli.FAILED
    assert capsys.readouterr().err.splitlines() == [demo.INSTALL[package] for package in missing]


def test_a_given_model_needs_no_package(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    assert cli.main(["demo", "--model", __file__]) == cli.FAILED
    assert capsys.readouterr().err.splitlines() == [demo.INSTALL[demo.ENGINE]]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--host", "0.0.0.0"], "0.0.0.0 is no loopback address"),
        (["--host", "no host"], "no host is no loopback address"),
        (["--port", "65536"], "65536 is no port"),
        (["--llama-port", "-1"], "-1 is no port"),
        (["--model", "missing.gguf"], "there is no file missing.gguf"),
    ],
)
def test_an_option_that_is_none(options: list[str], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(["demo", *options])
    assert ended.value.code == cli.BAD_CONFIGURATION
    assert re.search(re.escape(told), capsys.readouterr().err)
