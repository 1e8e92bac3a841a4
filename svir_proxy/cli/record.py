"""``svir-proxy record``: what a live server sends, as cases of the corpus."""

from __future__ import annotations

import argparse
import asyncio
import getpass
import json
import logging
import re
import socket
import sys
from contextlib import AsyncExitStack
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from svir_proxy.cli import COMMANDS, FAILED, INTERRUPTED, OK
from svir_proxy.cli.asked_server import NotAskedError, add_server_options, key_in, model_of, root_of, trust
from svir_proxy.cli.conform import number, prompt

if TYPE_CHECKING:
    from collections.abc import Iterator

    from svir_proxy.conform.cases import Case
    from svir_proxy.conform.client import Client
    from svir_proxy.conform.exchange import Request
    from svir_proxy.record.case import Server
    from svir_proxy.record.clean import Cleaner

_UNABLE: Final = 2
_NOT_FOR_SERVERS: Final = (
    "plain without v1",
    "after it left",
    "two choices",
    "no messages",
    "empty messages",
    "messages of text",
)
"""Questions whose answer is the proxy's own, or another's again."""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the command."""
    parser = subparsers.add_parser(
        "record",
        help=COMMANDS["record"],
        description="Ask a server a set of questions, or your own, and write what it sends as cases: NAME.case.json "
        "and NAME.body. Keys, hosts, people and paths are replaced. What a case expects is what the proxy makes of it: "
        "look at it.",
    )
    parser.add_argument("url", metavar="URL", help="the server's address, with or without /v1")
    parser.add_argument(
        "--request",
        type=Path,
        action="append",
        default=[],
        metavar="FILE",
        help="your own request, in place of the set",
    )
    parser.add_argument("--into", type=Path, default=Path("recorded"), metavar="DIR", help="where to; ./recorded")
    add_server_options(parser)
    parser.add_argument("--model", metavar="M", help="the model to ask; without it the first one that is listed")
    parser.add_argument(
        "--server", default="unknown", metavar="NAME", help="what answers, such as llama.cpp: it chooses the profile"
    )
    parser.add_argument("--server-version", metavar="V", help="its version, for the case")
    parser.add_argument(
        "--flag", action="append", default=[], metavar="F", help="a flag it was started with, for the case"
    )
    parser.add_argument(
        "--context", type=number, metavar="N", help="tokens of its context: a prompt too long for it is asked"
    )
    parser.add_argument(
        "--only", action="append", default=[], metavar="GLOB", help="only these of the set, such as 'tool*'"
    )
    parser.add_argument(
        "--prompt", type=prompt, action="append", default=[], metavar="PURPOSE=TEXT", help="as for conform"
    )
    parser.add_argument("--secret", action="append", default=[], metavar="TEXT", help="more text that must not be kept")


def run(args: argparse.Namespace) -> int:
    """Ask, clean, see what the proxy makes of it, write."""
    # Imported here: --help need not wait for httpx.
    from svir_proxy.conform.cases import profile_of  # noqa: PLC0415 - see above
    from svir_proxy.conform.client import Client  # noqa: PLC0415 - see above
    from svir_proxy.record.case import Server  # noqa: PLC0415 - see above
    from svir_proxy.record.clean import Cleaner  # noqa: PLC0415 - see above

    logging.getLogger("svir_proxy").setLevel(logging.CRITICAL)
    cases: list[Case] = []
    interrupted = False
    try:
        root, key, verify = root_of(args.url), key_in(args.api_key_env), trust(args.ca_file)
        hosts = [urlsplit(root).hostname or "", socket.gethostname()]
        clean = Cleaner([key, *args.secret], hosts, [getpass.getuser()])
        with Client(root, key, verify=verify) as client:
            model = model_of(client, args.model, keyed=bool(key))
            print(
                f"asking {root} for {model}; the proxy has it under the profile {profile_of(args.server)}",
                file=sys.stderr,
            )
            server = Server(args.server, args.server_version, model, tuple(args.flag))
            args.into.mkdir(parents=True, exist_ok=True)
            try:
                for case in _recorded(args, client, server, clean):
                    cases.append(case)  # noqa: PERF402 - those before Ctrl-C are kept
            except KeyboardInterrupt:
                interrupted = True
        if not (cases or interrupted):
            return _unable(
                "nothing was recorded: no question was answered" + (", or --only has none" * bool(args.only))
            )
        status = asyncio.run(_write(cases, args.into))
    except OSError as exc:
        return _unable(f"{exc.filename}: {exc.strerror}" if exc.filename else str(exc))
    except (NotAskedError, ValueError) as exc:
        return _unable(str(exc))
    return INTERRUPTED if interrupted else status


def _recorded(args: argparse.Namespace, client: Client, server: Server, clean: Cleaner) -> Iterator[Case]:
    """Each answer that came, as a case; FileExistsError before one is asked for that is there already."""
    from svir_proxy.conform.session import PATIENCE  # noqa: PLC0415 - as in run
    from svir_proxy.record.case import case_of, refuse_to_overwrite  # noqa: PLC0415 - as in run

    assert server.model is not None
    unanswered = 0
    for name, request in _requests(args, client, server.model):
        refuse_to_overwrite(args.into, name)
        print(f"{name} ...", file=sys.stderr, flush=True)
        exchange = client.ask(request)
        unanswered = unanswered + 1 if exchange.status is None else 0
        if exchange.late:
            print(f"{name}: {exchange.failure}; not recorded", file=sys.stderr)
        else:
            yield case_of(name, exchange, server, clean)
        if unanswered == PATIENCE:
            print("the server answers no more; the rest is not asked", file=sys.stderr)
            return


def _requests(args: argparse.Namespace, client: Client, model: str) -> Iterator[tuple[str, Request]]:
    """The requests to record, each with the name of its case."""
    from svir_proxy.conform.exchange import Request  # noqa: PLC0415 - as in run
    from svir_proxy.conform.interview import PROMPTS, Interview  # noqa: PLC0415 - as in run
    from svir_proxy.conform.questions import CHAT, QUESTIONS  # noqa: PLC0415 - as in run
    from svir_proxy.record.case import body_of  # noqa: PLC0415 - as in run

    for path in args.request:
        try:
            body = body_of(json.loads(path.read_bytes()))
        except ValueError as exc:
            raise ValueError(f"{path}: {exc}") from None
        yield path.stem, Request(CHAT, {**body, "model": model})
    if args.request:
        return
    prompts = {**PROMPTS, **dict(args.prompt)}
    interview = Interview(model, args.context, prompts=prompts)
    for question in QUESTIONS:
        name = re.sub(r"[^a-z0-9]+", "-", question.name.lower()).replace("-streamed", "-stream")
        request = question.make(interview)
        if question.name == "plain" and not isinstance(request, str):
            interview.take("plain", client.ask(request))  # chosen or not: the stop word is one of its answer
        if question.name in _NOT_FOR_SERVERS or (args.only and not any(fnmatchcase(name, glob) for glob in args.only)):
            continue
        if isinstance(request, str) or request.path != CHAT or not isinstance(request.body, dict) or request.leave:
            continue
        yield name, request


async def _write(cases: list[Case], folder: Path) -> int:
    """Writes each case with what the proxy makes of it; FAILED where that is not in the dialect."""
    import httpx  # noqa: PLC0415 - as in run

    from svir_proxy.cli.replay import OwnProxies  # noqa: PLC0415 - as in run
    from svir_proxy.conform.judge import judge  # noqa: PLC0415 - as in run
    from svir_proxy.conform.replay import PATIENCE, ask  # noqa: PLC0415 - as in run
    from svir_proxy.conform.upstream import Answer, ScriptedUpstream  # noqa: PLC0415 - as in run
    from svir_proxy.record.case import with_expectation, write  # noqa: PLC0415 - as in run

    status = OK
    async with AsyncExitStack() as stack:
        upstream = await stack.enter_async_context(ScriptedUpstream({f"m-{case.key}": Answer() for case in cases}))
        client = await stack.enter_async_context(httpx.AsyncClient(trust_env=False, timeout=PATIENCE))
        proxies = OwnProxies(upstream, stack)
        for case in cases:
            model = f"m-{case.key}"
            answer = upstream.script[model] = Answer.recorded(case.response, [case.body])
            seen = await ask(client, await proxies(case), {**case.request, "model": model})
            whole = with_expectation(case, seen)
            problems: list[Any] = judge(whole, seen, reached=bool(answer.received))
            write(whole, folder)
            print(f"{folder / case.key}: {whole.expect['outcome']}, status {case.response['status']}")
            for problem in problems:
                status = FAILED
                print(f"  the proxy's answer is wrong: {problem}")
    print(
        f"{len(cases)} {'case' if len(cases) == 1 else 'cases'} in {folder}: look at what each shows and expects, and "
        "for what must not be kept",
        file=sys.stderr,
    )
    return status


def _unable(why: str) -> int:
    print(why, file=sys.stderr)
    return _UNABLE
