"""``svir-proxy conform``: any OpenAI-compatible server, or proxy, held against the rules of the dialect."""

from __future__ import annotations

import argparse
import json
import sys
from typing import TYPE_CHECKING, Final

from svir_proxy.cli import COMMANDS, FAILED, INTERRUPTED, OK
from svir_proxy.cli.asked_server import NotAskedError, add_server_options, columns, key_in, model_of, root_of, trust

if TYPE_CHECKING:
    from svir_proxy.conform.client import Client
    from svir_proxy.conform.report import Report

USAGE: Final = 2
"""The status where nothing could be asked."""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the command."""
    parser = subparsers.add_parser(
        "conform",
        help=COMMANDS["conform"],
        description="Ask a server some fifty short questions, and say which rules of the dialect it keeps. The status "
        "is 0 where all that showed were kept, 1 where one was broken, 2 where the server could not be asked.",
    )
    parser.add_argument("url", nargs="?", metavar="URL", help="the server's address, with or without /v1")
    add_server_options(parser)
    parser.add_argument("--model", metavar="M", help="the model to ask; without it the first one that is listed")
    parser.add_argument(
        "--context", type=number, metavar="N", help="tokens that the model's context holds; without it, none is filled"
    )
    parser.add_argument(
        "--prompt",
        type=prompt,
        action="append",
        default=[],
        metavar="PURPOSE=TEXT",
        help="other words for a purpose: text, length, think, tools, calls or json",
    )
    parser.add_argument("--max-tokens", type=number, default=400, metavar="N", help="the limit of an answer; 400")
    parser.add_argument("--seconds", type=number, default=120, metavar="S", help="the longest that one may take; 120")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--quiet", action="store_true", help="say nothing while it runs")
    parser.add_argument("--rules", action="store_true", help="print the rules, ask nobody")
    corpus = parser.add_argument_group(
        "recorded cases",
        "With --corpus a proxy is asked, and behind it a scripted server sends what real ones once sent. Without a URL "
        "that is svir-proxy itself; another proxy at URL has to have that server as its backend.",
    )
    corpus.add_argument("--corpus", action="store_true", help="replay the recorded cases through a proxy")
    corpus.add_argument(
        "--upstream",
        type=_address,
        default=("127.0.0.1", 9797),
        metavar="HOST:PORT",
        help="where the scripted server "
        "answers the proxy at URL; 127.0.0.1:9797. With --model all cases have that name, else each its own",
    )
    corpus.add_argument(
        "--only", action="append", default=[], metavar="GLOB", help="only these cases, such as 'vllm/*'"
    )
    corpus.add_argument(
        "--split", action="append", default=[], choices=("whole", "random", "byte"), help="only this cut of the bodies"
    )


def run(args: argparse.Namespace) -> int:
    """Ask, judge, print."""
    if args.rules:
        return _print_rules()
    if args.corpus:
        from svir_proxy.cli.replay import replay  # noqa: PLC0415 - the proxy itself is another matter

        return replay(args)
    # Imported here: --help need not wait for httpx and jsonschema.
    from svir_proxy.conform.client import Client  # noqa: PLC0415 - see above
    from svir_proxy.conform.report import WIDTH  # noqa: PLC0415 - see above

    if args.url is None:
        return _unable("which server? Name its address, such as http://127.0.0.1:8484")
    try:
        key = key_in(args.api_key_env)
        with Client(root_of(args.url), key, seconds=args.seconds, verify=trust(args.ca_file)) as client:
            report, interrupted = _interviewed(client, args, key)
    except NotAskedError as exc:
        return _unable(str(exc))
    print(json.dumps(report.as_json(), indent=2) if args.json else "\n".join(report.lines(columns(WIDTH))))
    return INTERRUPTED if interrupted else OK if report.score.full else FAILED


def _interviewed(client: Client, args: argparse.Namespace, key: str) -> tuple[Report, bool]:
    """The report, and whether Ctrl-C ended it early; NotAskedError where there is none."""
    from svir_proxy.conform.interview import PROMPTS, Interview  # noqa: PLC0415 - as in run
    from svir_proxy.conform.questions import CHAT  # noqa: PLC0415 - as in run
    from svir_proxy.conform.report import report_on  # noqa: PLC0415 - as in run
    from svir_proxy.conform.session import hold, leave_out_the_rest  # noqa: PLC0415 - as in run

    model = model_of(client, args.model, keyed=bool(key))
    interview = Interview(model, args.context, bool(key), {**PROMPTS, **dict(args.prompt)}, args.max_tokens)
    interrupted = False

    def tell(number: int, of: int, question: str) -> None:
        if not args.quiet:
            print(f"{number:2}/{of} {question}", file=sys.stderr, flush=True)

    try:
        hold(interview, client.ask, tell)
    except KeyboardInterrupt:  # what was shown until now is worth telling
        leave_out_the_rest(interview, "interrupted")
        interrupted = True
    chats = [reading.exchange for reading in interview.readings.values() if reading.exchange.request.path == CHAT]
    if chats and all(exchange.status is None for exchange in chats):
        raise NotAskedError(f"{client.root} answers no question: {chats[0].failure}")
    return report_on(client.root, interview, [key]), interrupted


def _print_rules() -> int:
    from svir_proxy.conform.rules import RULES  # noqa: PLC0415 - as in run

    width = max(len(rule.name) for rule in RULES)
    for area in dict.fromkeys(rule.area for rule in RULES):
        print(area)
        for rule in RULES:
            if rule.area == area:
                print(f"  {rule.name:<{width}}  {rule.demands}")
    return OK


def _unable(why: str) -> int:
    print(why, file=sys.stderr)
    return USAGE


def number(text: str) -> int:
    """An option that is a number above 0."""
    value = int(text) if text.isdigit() else 0
    if not value:
        raise argparse.ArgumentTypeError(f"a number above 0, not {text!r}")
    return value


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not host or not port.isdigit() or int(port) > 65535:
        raise argparse.ArgumentTypeError(f"HOST:PORT, not {text!r}")
    return host.strip("[]"), int(port)


def prompt(text: str) -> tuple[str, str]:
    """An option that has other words for a purpose of `svir_proxy.conform.interview.PROMPTS`."""
    purpose, equals, words = text.partition("=")
    if not equals or purpose not in ("text", "length", "think", "tools", "calls", "json"):
        raise argparse.ArgumentTypeError("PURPOSE=TEXT, where PURPOSE is text, length, think, tools, calls or json")
    return purpose, words
