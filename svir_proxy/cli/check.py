"""``svir-proxy check``: what is configured, or everything that is wrong with it."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from svir_proxy.cli import BAD_CONFIGURATION, COMMANDS, OK
from svir_proxy.cli.configuration import add_config_option, report

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Sequence

    from svir_proxy.profiles import Profile
    from svir_proxy.settings import Backend, Settings


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the command."""
    parser = subparsers.add_parser(
        "check",
        help=COMMANDS["check"],
        description="Show what is configured, or everything that is wrong with it: a line per problem, with the path "
        "of the setting. The status is 0 where nothing is wrong, else 2.",
    )
    add_config_option(parser)


def run(args: argparse.Namespace) -> int:
    """Load the settings as ``serve`` would."""
    from svir_proxy.settings import SettingsError, cautions, load_settings  # noqa: PLC0415 --help need not import pydantic

    try:
        settings = load_settings(args.config)
    except SettingsError as exc:
        report(exc)
        return BAD_CONFIGURATION
    for line in _summary(settings):
        print(line)
    for path, text in cautions(settings):
        print(f"warning: {path}: {text}")
    return OK


def _summary(settings: Settings) -> Iterator[str]:
    backends = settings.backends
    keys = len(settings.auth.hashed())
    told = "no key needed" if not keys else "1 key" if keys == 1 else f"{keys} keys"
    where = f"{settings.server.host} port {settings.server.port}, {told}"
    if not backends:
        yield f"ok: 0 backends (serve looks for model servers on this machine), {where}"
        return
    yield f"ok: {len(backends)} backend{'s' if len(backends) > 1 else ''}, {where}"
    width = max(len(backend.name) for backend in backends)
    for backend in backends:
        profile = backend.loaded_profile
        changed = ", with overrides" if backend.overrides else ""
        yield f"  {backend.name:<{width}}  {backend.root}  {' extends '.join(_ancestry(profile))}{changed}"
    yield from _shared(backends)


def _shared(backends: Sequence[Backend]) -> Iterator[str]:
    """The aliases that several backends have, and who is asked in which order."""
    for alias in dict.fromkeys(alias for backend in backends for alias in backend.models):
        having = sorted((backend for backend in backends if alias in backend.models), key=lambda b: b.priority)
        if len(having) > 1:
            steps = [_step(list(step)) for _, step in groupby(having, key=lambda b: b.priority)]
            yield f"  {alias}: {', then '.join(steps)}"


def _step(backends: Sequence[Backend]) -> str:
    """Backends of one priority, with their shares."""
    total = sum(backend.weight for backend in backends)
    if len(backends) == 1 or not total:
        return " or ".join(backend.name for backend in backends)
    return " or ".join(f"{backend.name} ({backend.weight / total:.0%})" for backend in backends)


def _ancestry(profile: Profile) -> Iterator[str]:
    from svir_proxy.profiles import builtin_names, load_profile  # noqa: PLC0415 --help need not import pydantic

    yield profile.name
    parent = profile.extends
    while parent is not None:
        yield parent
        parent = load_profile(parent).extends if parent in builtin_names() else None
