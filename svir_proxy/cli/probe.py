"""``svir-proxy probe``: learns what a server does by asking it, and writes it down as a profile."""

from __future__ import annotations

import argparse
import asyncio
import os
import ssl
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from svir_proxy import __version__
from svir_proxy.cli import BAD_CONFIGURATION, COMMANDS, FAILED, INTERRUPTED, OK
from svir_proxy.cli.asked_server import NotAskedError, add_server_options, columns, key_in, root_of, trust

if TYPE_CHECKING:
    from svir_proxy.probe.dialogue import Question
    from svir_proxy.probe.finding import Finding
    from svir_proxy.probe.report import Report
    from svir_proxy.profiles import Profile

_INTERRUPTED = "interrupted"
_DESCRIPTION = """\
Learns what a model server does with a request, by asking it some hundred small questions: tools and the choice between
them, JSON, roles, history, every optional field, errors. Nothing is called rejected or ignored after one answer, and
what does not show stays unknown. Takes a minute or two and some thousand tokens, more of a model that thinks; Ctrl-C
ends it with what was found.
"""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the command."""
    parser = subparsers.add_parser("probe", help=COMMANDS["probe"], description=_DESCRIPTION)
    parser.add_argument("url", metavar="URL", help="the server's base URL, with or without /v1")
    add_server_options(parser)
    parser.add_argument("--model", metavar="M", help="the model to ask for; without it the first chat model listed")
    parser.add_argument(
        "--profile",
        metavar="PROFILE",
        help="what the server is: a built-in profile or a YAML file; else it is recognized",
    )
    parser.add_argument("--write", metavar="FILE", type=Path, help="write what was learned as a profile, a .yaml file")
    parser.add_argument("--force", action="store_true", help="write it over a file that is there")
    parser.add_argument("--diff", metavar="PROFILE", help="show what disagrees with this profile")
    parser.add_argument("--json", action="store_true", help="print one JSON object in place of the tables")
    parser.add_argument("--max-seconds", metavar="S", type=_positive, default=300.0, help="limit of time in all (300)")
    parser.add_argument("--question-seconds", metavar="S", type=_positive, default=60.0, help="for one answer (60)")
    parser.add_argument(
        "--max-tokens", metavar="N", type=_positive, default=100_000.0, help="limit of tokens in all (100000)"
    )


def run(args: argparse.Namespace) -> int:
    """Ask the server, and tell what came of it."""
    # Imported here: --help need not wait for pydantic and httpx.
    from svir_proxy.probe.finding import NotInterviewed  # noqa: PLC0415 - see above
    from svir_proxy.probe.report import WIDTH, as_json, in_words  # noqa: PLC0415 - see above
    from svir_proxy.profiles import ProfileError, load_profile  # noqa: PLC0415 - see above

    try:
        root, key, verify = root_of(args.url), key_in(args.api_key_env) or None, trust(args.ca_file)
    except NotAskedError as exc:
        return _usage(str(exc))
    if args.write is not None and (problem := _unwritable(args.write, force=args.force)):
        return _usage(f"--write {args.write}: {problem}")
    try:
        named = load_profile(args.profile) if args.profile else None
        against = load_profile(args.diff) if args.diff else None
    except ProfileError as exc:
        return _usage(str(exc))
    try:
        report, base = asyncio.run(_interview(args, root, key, verify, named, against))
    except NotInterviewed as exc:
        print(f"{root}: {exc}", file=sys.stderr)
        return FAILED
    for line in [as_json(report)] if args.json else in_words(report, columns(WIDTH)):
        print(line)
    if args.write is not None and (problem := _write(args.write, args.profile, base, report)):
        print(f"--write {args.write}: {problem}", file=sys.stderr)
        return FAILED
    return INTERRUPTED if report.stopped == _INTERRUPTED else OK


async def _interview(  # noqa: PLR0917 - all that the command line said, as it was understood
    args: argparse.Namespace,
    root: str,
    key: str | None,
    verify: ssl.SSLContext | bool,
    named: Profile | None,
    against: Profile | None,
) -> tuple[Report, Profile]:
    from time import monotonic  # noqa: PLC0415 - as in run

    import httpx  # noqa: PLC0415 - as in run

    from svir_proxy.probe.answer import Reader  # noqa: PLC0415 - as in run
    from svir_proxy.probe.difference import differences  # noqa: PLC0415 - as in run
    from svir_proxy.probe.finding import NotInterviewed  # noqa: PLC0415 - as in run
    from svir_proxy.probe.interview import Interview, Limits, Spent  # noqa: PLC0415 - as in run
    from svir_proxy.probe.questions import QUESTIONS  # noqa: PLC0415 - as in run
    from svir_proxy.probe.recognition import introduce, kind_of  # noqa: PLC0415 - as in run
    from svir_proxy.probe.report import Report  # noqa: PLC0415 - as in run
    from svir_proxy.probe.wire import CONNECT_SECONDS, HTTPWire  # noqa: PLC0415 - as in run
    from svir_proxy.profiles import load_profile  # noqa: PLC0415 - as in run
    from svir_proxy.server.discovery import builtin_profiles  # noqa: PLC0415 - as in run

    # No reading time-out: the interview has its own for each answer. No connection is used twice: servers close them.
    timeout, limits = httpx.Timeout(None, connect=CONNECT_SECONDS), httpx.Limits(max_keepalive_connections=0)
    async with httpx.AsyncClient(timeout=timeout, limits=limits, verify=verify, trust_env=False) as client:
        base = named or await kind_of(client, root, key, builtin_profiles()) or load_profile("generic")
        wire = HTTPWire(client, root, base.endpoint, key)
        spent = Spent()
        known = await introduce(wire, base, root, args.model, spent)
        subject = known.subject
        _tell(f"asking {base.server} at {root} for {subject.model}")

        def tell(number: int, question: Question, found: list[Finding] | None) -> None:
            if found is None:
                _tell(f"[{number:>2}/{len(QUESTIONS)}] {question.title}: ", end="")
            else:
                _tell(", ".join(dict.fromkeys(str(each.value) for each in found if each.is_fact)) or "asked")

        interview = Interview(
            wire,
            subject,
            Reader(base, (key,) if key else ()),
            Limits(args.max_seconds, args.question_seconds, int(args.max_tokens)),
            monotonic,
            asyncio.sleep,
            tell,
            [*known.findings],
            spent,
        )
        try:
            await interview.hold(QUESTIONS)
        except NotInterviewed:
            _tell("no")  # the line of the question that was asked
            raise
        except asyncio.CancelledError:  # Ctrl-C: what was found until now is worth telling
            _tell("-")
            interview.stopped = _INTERRUPTED
    found = interview.findings
    return (
        Report(
            url=root,
            server=base.server,
            profile=base.name,
            model=subject.model,
            others=known.others,
            findings=found,
            spent=interview.spent,
            stopped=interview.stopped,
            against=against.name if against is not None else None,
            differences=differences(found, against) if against is not None else (),
        ),
        base,
    )


def _write(path: Path, named: str | None, base: Profile, report: Report) -> str:
    """Write the profile and read it again; what is wrong, ``""`` for nothing."""
    from svir_proxy.probe.written_profile import profile_text  # noqa: PLC0415 - as in run
    from svir_proxy.profiles import ProfileError, builtin_names, load_profile  # noqa: PLC0415 - as in run

    extends = base.name
    if named is not None and named not in builtin_names():
        extends = os.path.relpath(named, path.parent)
    text = profile_text(
        path.stem,
        extends,
        base,
        report.findings,
        server=path.stem if base.name == "generic" else base.server,
        source=f"svir-proxy {__version__}, {datetime.now(UTC).date()}, {report.model.rpartition('/')[2]}",
    )
    try:
        path.write_text(text, encoding="utf-8")
        load_profile(str(path))
    except OSError as exc:
        return f"cannot be written: {exc.strerror}"
    except ProfileError as exc:
        return f"is no profile, which is a fault of the probe: {exc}"
    _tell(f"wrote {path}; use it with profile: {path}")
    return ""


def _unwritable(path: Path, *, force: bool) -> str:
    """Why *path* will not do, before anybody has waited for what it should hold."""
    if path.suffix not in (".yaml", ".yml"):
        return "name a .yaml file, by which a configuration finds it"
    if path.exists() and not force:
        return "is there already; name another file, or add --force"
    return "" if path.parent.is_dir() else f"there is no folder {path.parent}"


def _usage(problem: str) -> int:
    print(f"svir-proxy probe: {problem}", file=sys.stderr)
    return BAD_CONFIGURATION


def _tell(line: str, end: str = "\n") -> None:
    print(line, end=end, file=sys.stderr, flush=True)


def _positive(value: str) -> float:
    try:
        number = float(value)
    except ValueError:
        number = 0.0
    if not 0 < number < float("inf"):
        raise argparse.ArgumentTypeError(f"{value} is no number above 0")
    return number
