"""Commands must not see the environment of whoever runs the tests, nor leave anything in it, or in the logs."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.logs import logs_as_at_first


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    before = dict(os.environ)
    for name in list(os.environ):
        if name.upper().startswith("SVIR_"):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    yield
    for name in set(os.environ) - set(before):
        del os.environ[name]


@pytest.fixture(autouse=True)
def _logs() -> Iterator[None]:
    """``replay`` and ``record`` silence the proxy for as long as their process lasts, which here is that of the tests."""
    with logs_as_at_first():
        yield
