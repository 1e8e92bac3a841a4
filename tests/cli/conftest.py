"""Commands must not see the environment of whoever runs the tests, nor leave anything in it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest


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
