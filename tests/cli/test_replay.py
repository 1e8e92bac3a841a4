"""``conform --corpus``: this proxy by itself, and any other by its address."""

from __future__ import annotations

import json
import socket

import pytest

from svir_proxy.cli import main

FEW = ["--only", "llama-cpp/a*", "--split", "whole", "--quiet"]


def _free() -> str:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return f"127.0.0.1:{listener.getsockname()[1]}"


def test_this_proxy_has_full_marks(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["conform", "--corpus", *FEW]) == 0
    out = capsys.readouterr().out
    assert "broken" not in out
    assert "100%" in out


def test_no_proxy_at_all_has_less(capsys: pytest.CaptureFixture[str]) -> None:
    """The address of the scripted server itself: what clients get who are not behind a proxy."""
    where = _free()
    assert main(["conform", f"http://{where}", "--corpus", "--upstream", where, "--json", *FEW]) == 1
    areas = json.loads(capsys.readouterr().out)["areas"]["all"]
    assert areas["form"]["kept"] == 0 < areas["content"]["kept"] < areas["content"]["shown"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--only", "no-such"], "there is no such case"),
        (["localhost"], "does not start with http://"),
        (["http://127.0.0.1:1", "--upstream", "127.0.0.1:0"], "cannot be asked"),
    ],
)
def test_nothing_can_be_played(options: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["conform", "--corpus", "--quiet", *options]) == 2
    assert words in capsys.readouterr().err
