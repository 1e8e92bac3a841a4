"""The option ``--config``, and how the commands tell what is wrong with a configuration."""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse

    from svir_proxy.settings import Settings, SettingsError


def add_config_option(parser: argparse.ArgumentParser) -> None:
    """Add ``--config`` to *parser*."""
    parser.add_argument(
        "--config",
        type=Path,
        metavar="FILE",
        help="the configuration; without it SVIR_CONFIG, else ./config/svir.yaml if present, else the defaults",
    )


def report(error: SettingsError) -> None:
    """Every problem, one line each, to stderr."""
    for line in error.lines():
        print(line, file=sys.stderr)


def caution(settings: Settings) -> None:
    """Log what is not wrong with *settings*, but surely not meant."""
    from svir_proxy.settings import cautions  # noqa: PLC0415 --help need not import pydantic

    for path, text in cautions(settings):
        logging.getLogger("svir_proxy").warning("%s: %s", path, text)


def url(host: str, port: int) -> str:
    """Where the proxy listens, as people write it."""
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
