"""The command line. One file a command, imported when it is asked for: ``--help`` and ``check`` start fast."""

from __future__ import annotations

import argparse
import os
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Final, Protocol, cast

from svir_proxy import __version__

if TYPE_CHECKING:
    from collections.abc import Sequence

COMMANDS: Final = {
    "serve": "run the proxy",
    "check": "validate the configuration without starting",
    "explain": "show what would go to a backend for a request, and why",
    "probe": "learn what a server does by asking it, and write it down as a profile",
    "conform": "hold any server against the rules of the dialect, with a score",
    "record": "write what a live server sends as cases of the corpus",
    "demo": "run the proxy in front of a llama.cpp of its own, with a small model",
}

OK: Final = 0
FAILED: Final = 1
BAD_CONFIGURATION: Final = 2
INTERRUPTED: Final = 130
READER_LEFT: Final = 141
"""What a shell shows for a program that SIGPIPE ended."""


class Command(Protocol):
    """What the module of a command offers."""

    def add_parser(self, subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
        """Declare the command and its options."""

    def run(self, args: argparse.Namespace) -> int:
        """Do it; the result is the process's status."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line *argv* (without the program's name); the result is the process's status."""
    argv = sys.argv[1:] if argv is None else argv
    chosen = next((word for word in argv if not word.startswith("-")), None)
    parser = argparse.ArgumentParser(
        prog="svir-proxy", description="Turns every OpenAI-compatible model server into one clean dialect."
    )
    parser.add_argument("--version", action="version", version=f"svir-proxy {__version__}")
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    command: Command | None = None
    for name, meaning in COMMANDS.items():
        if name == chosen:
            command = cast("Command", import_module(f"svir_proxy.cli.{name}"))
            command.add_parser(subparsers)
        else:
            subparsers.add_parser(name, help=meaning, add_help=False)
    args = parser.parse_args(argv)
    assert command is not None
    try:
        status = command.run(args)
        sys.stdout.flush()
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:  # head, or a pager that was left: whoever reads has enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # else Python tries once more at its end
        return READER_LEFT
    return status
