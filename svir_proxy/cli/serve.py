"""``svir-proxy serve``: settings, then the search for servers where none is configured, then the HTTP server."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import TYPE_CHECKING, Any

from svir_proxy.cli import BAD_CONFIGURATION, COMMANDS
from svir_proxy.cli.configuration import add_config_option, report

if TYPE_CHECKING:
    import argparse

    from starlette.types import ASGIApp

    from svir_proxy.settings import Settings


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the command."""
    parser = subparsers.add_parser("serve", help=COMMANDS["serve"], description="Run the proxy.")
    add_config_option(parser)
    parser.add_argument("--host", metavar="H", help="the address to bind; 127.0.0.1 unless configured")
    parser.add_argument("--port", metavar="P", help="the port to bind, 0 for a free one; 8484 unless configured")
    parser.add_argument("--workers", metavar="N", help="processes that serve; 1 unless configured")


def run(args: argparse.Namespace) -> int:
    """Serve until SIGTERM or SIGINT."""
    # Imported here, not above: these take half a second that --help and a mistyped option need not wait.
    from svir_proxy.cli.http_server import serve, serve_with_workers  # noqa: PLC0415 see above
    from svir_proxy.settings import SettingsError, find_config, load_settings  # noqa: PLC0415 see above

    given = {name: getattr(args, name) for name in ("host", "port", "workers")}
    flags: dict[str, Any] = {"server": {name: value for name, value in given.items() if value is not None}}
    try:
        settings = load_settings(args.config, flags)
    except SettingsError as exc:
        report(exc)
        return BAD_CONFIGURATION
    if not settings.backends:
        settings = asyncio.run(_with_found_backends(settings))
        flags["backends"] = [
            {"name": backend.name, "base_url": backend.base_url, "profile": backend.profile}
            for backend in settings.backends
        ]
    if settings.server.workers == 1:
        return serve(_app(settings), settings)
    if (config := find_config(args.config)) is not None:
        os.environ["SVIR_CONFIG"] = str(config)
    os.environ.update(as_environment(flags))
    return serve_with_workers(f"{__name__}:worker_app", settings)


def worker_app() -> ASGIApp:
    """The application as a worker process makes it, which knows the environment only."""
    from svir_proxy.settings import load_settings  # noqa: PLC0415 as in run

    return _app(load_settings())


def _app(settings: Settings) -> ASGIApp:
    from svir_proxy.server.app import create_app  # noqa: PLC0415 as in run
    from svir_proxy.server.logs import set_up_logging  # noqa: PLC0415 as in run

    set_up_logging(settings.logging)
    return create_app(settings)


def as_environment(flags: dict[str, Any], prefix: str = "SVIR_") -> dict[str, str]:
    """*flags*, in the shape of the configuration file, as the variables that say the same."""
    variables: dict[str, str] = {}
    for name, value in flags.items():
        if isinstance(value, dict):
            variables |= as_environment(value, f"{prefix}{name.upper()}__")
        else:
            variables[prefix + name.upper()] = value if isinstance(value, str) else json.dumps(value)
    return variables


async def _with_found_backends(settings: Settings) -> Settings:
    from svir_proxy.server import discovery  # noqa: PLC0415 as in run

    profiles = discovery.builtin_profiles()
    skip = {settings.server.port}
    found = await discovery.discover(profiles, skip_ports=skip)
    ports = [port for port in discovery.usual_ports(profiles) if port not in skip]
    for line in discovery.in_words(found, ports):
        print(line, file=sys.stderr)
    return settings.model_copy(update={"backends": discovery.as_backends(found)})
