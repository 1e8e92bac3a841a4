"""Both loops; the long table of faults takes the one that the proxy is served with, where there is one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.server.transport.conftest import pytest_asyncio_loop_factories as both

_LONG = "test_faults.py"


def pytest_asyncio_loop_factories(config: pytest.Config, item: pytest.Item) -> dict[str, Callable[[], Any]]:
    del config
    found = both()
    return {"uvloop": found["uvloop"]} if item.path.name == _LONG and "uvloop" in found else found
