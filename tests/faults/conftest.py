"""Both loops."""

from __future__ import annotations

from tests.server.transport.conftest import pytest_asyncio_loop_factories

__all__ = ["pytest_asyncio_loop_factories"]
