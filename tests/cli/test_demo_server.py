"""The demo's llama.cpp: its start, its key, its end."""

from __future__ import annotations

import importlib.util
import sys
from typing import TYPE_CHECKING

import httpx
import pytest

from svir_proxy.cli import demo_server
from tests.live.script_model import write_model

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def model(tmp_path: Path) -> Path:
    if importlib.util.find_spec("xllamacpp") is None:
        pytest.skip("there is no llama.cpp: pip install 'svir-proxy[test]'")
    path = tmp_path / "model.gguf"
    write_model(path, {"default": "This is what it says."}, "{{ messages[0].content }}\n")
    return path


def replace_python(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, script: str) -> None:
    """Runs *script*, a shell's, where the child's Python would run."""
    program = tmp_path / "python"
    program.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    program.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(program))


@pytest.mark.live
def test_answers_to_its_key_only_and_ends_with_the_context(model: Path) -> None:
    with demo_server.running(model, "name", 0) as server:
        url = f"{server.url}/v1/models"
        assert httpx.get(url).status_code == 401
        listed = httpx.get(url, headers={"authorization": f"Bearer {server.api_key}"}).json()
        assert [entry["id"] for entry in listed["data"]] == ["name"]
        assert server.process.poll() is None
    assert server.process.returncode == 0


@pytest.mark.live
def test_tells_why_a_model_cannot_be_served(model: Path) -> None:
    model.write_text("text", encoding="utf-8")
    with (
        pytest.raises(demo_server.DemoServerError, match=r"(?s)model\.gguf: its log says.*invalid magic characters"),
        demo_server.running(model, "name", 0),
    ):
        pass


def test_a_child_that_ends_at_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    replace_python(monkeypatch, tmp_path, "exec 0<&-; exit 3")
    with (
        pytest.raises(demo_server.DemoServerError, match="it ended without a word"),
        demo_server.running(tmp_path, "name", 0),
    ):
        pass


def test_a_child_that_does_not_end_is_killed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    replace_python(monkeypatch, tmp_path, "echo http://127.0.0.1:1; exec sleep 600")
    monkeypatch.setattr(demo_server, "STOP_SECONDS", 0.01)
    with demo_server.running(tmp_path, "name", 0) as server:
        assert server.url == "http://127.0.0.1:1"
    assert server.process.returncode == -9
