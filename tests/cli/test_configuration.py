"""What the commands share about configurations."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from svir_proxy.cli.configuration import add_config_option, report, url
from svir_proxy.settings import SettingsError


def test_the_option() -> None:
    parser = argparse.ArgumentParser()
    add_config_option(parser)
    assert parser.parse_args(["--config", "a.yaml"]).config == Path("a.yaml")
    assert parser.parse_args([]).config is None


def test_problems_go_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    report(SettingsError([("server.port", "is odd"), ("c.yaml", "is none")]))
    assert capsys.readouterr() == ("", "server.port: is odd\nc.yaml: is none\n")


@pytest.mark.parametrize(
    ("host", "written"),
    [("127.0.0.1", "http://127.0.0.1:1"), ("localhost", "http://localhost:1"), ("::1", "http://[::1]:1")],
)
def test_url(host: str, written: str) -> None:
    assert url(host, 1) == written
