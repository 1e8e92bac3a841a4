"""The logs of the tests' own process, which commands and settings send where they say."""

from __future__ import annotations

import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

_NAMES: Final = ("svir_proxy", "uvicorn", "uvicorn.error")


@contextmanager
def logs_as_at_first() -> Iterator[list[logging.Logger]]:
    """The loggers of the proxy and its server, as they are where nobody has set them up; afterwards as they were."""
    found = [logging.getLogger(name) for name in _NAMES]
    before = [(logger.handlers, logger.level, logger.propagate) for logger in found]
    for logger in found:
        logger.handlers, logger.propagate = [], True
        logger.setLevel(logging.NOTSET)
    try:
        yield found
    finally:
        for logger, (handlers, level, propagate) in zip(found, before, strict=True):
            logger.handlers, logger.propagate = handlers, propagate
            logger.setLevel(level)
