"""Settings must not see the environment of whoever runs the tests."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in list(os.environ):
        if name.upper().startswith("SVIR_"):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
