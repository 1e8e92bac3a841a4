"""``svir-proxy serve``: settings, then the search for servers where none is configured, then the HTTP server."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING

from svir_proxy.cli import BAD_CONFIGURATION, COMMANDS
from svir_proxy.cli.configuration import add_config_option, caution, report

if TYPE_CHECKING:
    import argparse

    from svir_proxy.cli.http_server import Application
    from svir_proxy.server.metrics.metrics import Place
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
    from svir_proxy.cli.http_server import serve  # noqa: PLC0415 see above
    from svir_proxy.cli.reload import Source  # noqa: PLC0415 see above
    from svir_proxy.cli.supervisor import serve_with_workers  # noqa: PLC0415 see above
    from svir_proxy.server.logs import set_up_logging  # noqa: PLC0415 see above
    from svir_proxy.settings import SettingsError  # noqa: PLC0415 see above

    given = {name: getattr(args, name) for name in ("host", "port", "workers")}
    flags = {"server": {name: value for name, value in given.items() if value is not None}}
    source = Source(args.config, flags, find_backends)
    try:
        settings = source.read()
    except SettingsError as exc:
        report(exc)
        return BAD_CONFIGURATION
    set_up_logging(settings.logging)
    caution(settings)
    if settings.server.workers == 1:
        return serve(make_app(settings), settings, source)
    return serve_with_workers(make_app, settings, source)


def make_app(settings: Settings, place: Place | None = None) -> Application:
    """The application for *settings*, with its logs; in a worker process, too, which has a *place* among the others."""
    from svir_proxy.server.app import create_app  # noqa: PLC0415 as in run
    from svir_proxy.server.logs import set_up_logging  # noqa: PLC0415 as in run

    set_up_logging(settings.logging)
    return create_app(settings, place=place)


def find_backends(settings: Settings) -> Settings:
    """*settings* with the model servers that run on this machine, which are told."""
    from svir_proxy.server import discovery  # noqa: PLC0415 as in run

    profiles = discovery.builtin_profiles()
    skip = {settings.server.port}
    found = asyncio.run(discovery.discover(profiles, skip_ports=skip))
    ports = [port for port in discovery.usual_ports(profiles) if port not in skip]
    for line in discovery.in_words(found, ports):
        print(line, file=sys.stderr)
    return settings.model_copy(update={"backends": discovery.as_backends(found)})
