"""``record`` as a command; tests/live has it in front of a real server."""

from __future__ import annotations

import pytest

from svir_proxy.cli import main
from tests.probe.servers import model_server, serving
from tests.probe.simulated import Simulated


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


@pytest.mark.parametrize(
    ("options", "status", "words"),
    [
        (["--only", "stop"], 0, "1 case in recorded"),
        (["--only", "no such question"], 2, "nothing was recorded: no question was answered, or --only has none"),
        (["--only", "plain", "--server", "llama-cpp"], 0, "under the profile llama-cpp"),
        (["--only", "plain", "--server", "of my own"], 0, "under the profile generic"),
    ],
)
def test_which_of_the_set(options: list[str], status: int, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    with serving(model_server(Simulated())) as url:
        assert main(["record", url, *options]) == status
    assert words in capsys.readouterr().err
