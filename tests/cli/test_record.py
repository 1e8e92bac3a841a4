"""``record`` as a command; tests/live has it in front of a real server."""

from __future__ import annotations

import pytest

from svir_proxy.cli import main


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["localhost"], "does not start with http://"),
        (["http://127.0.0.1:1", "--api-key-env", "NOT_SET"], "NOT_SET is not set"),
        (["http://127.0.0.1:1"], "cannot be asked"),
        (["http://127.0.0.1:1", "--api-key-env", "EMPTY"], "EMPTY is not set"),
    ],
)
def test_nothing_can_be_recorded(
    argv: list[str], words: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EMPTY", "")
    assert main(["record", *argv]) == 2
    assert words in capsys.readouterr().err
