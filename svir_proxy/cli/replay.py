"""``svir-proxy conform --corpus``: the recorded cases through this proxy, or through another one."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Final

import httpx

from svir_proxy.cli import FAILED, OK
from svir_proxy.cli.asked_server import NotAskedError, key_in, root_of, trust
from svir_proxy.cli.in_process import running_proxy, settings_for
from svir_proxy.conform.cases import SPLITS, Case, CorpusMissingError, Split, load_cases
from svir_proxy.conform.judge import UPSTREAM_KEY
from svir_proxy.conform.replay import PATIENCE, Played, Player, ReplayReport, Where, chosen
from svir_proxy.conform.upstream import ScriptedUpstream

if TYPE_CHECKING:
    import argparse

_UNABLE: Final = 2


class OwnProxies:
    """This proxy as each case needs it: one for each profile with its overrides, in front of *upstream*."""

    def __init__(self, upstream: ScriptedUpstream, stack: AsyncExitStack) -> None:
        self._upstream = upstream
        self._stack = stack
        self._running: dict[str, str] = {}

    async def __call__(self, case: Case) -> str:
        """Its address."""
        key = json.dumps([case.profile, case.overrides], sort_keys=True)
        if key not in self._running:
            settings = settings_for(self._upstream.base_url, case.profile, case.overrides)
            self._running[key] = await self._stack.enter_async_context(running_proxy(settings))
        return self._running[key]


def replay(args: argparse.Namespace) -> int:
    """Play the cases, print what came of it."""
    try:
        cases = chosen(load_cases(), args.only, [split for split in SPLITS if split in (args.split or SPLITS)])
    except CorpusMissingError as exc:
        return _unable(str(exc))
    if not cases:
        return _unable(f"--only {' '.join(args.only)}: there is no such case")
    logging.getLogger("svir_proxy").setLevel(logging.CRITICAL)  # its failures are what is played
    try:
        report = asyncio.run(_played(args, cases))
    except NotAskedError as exc:
        return _unable(str(exc))
    except OSError as exc:
        return _unable(f"--upstream {args.upstream[0]}:{args.upstream[1]}: {exc.strerror or exc}")
    except httpx.HTTPError as exc:
        return _unable(f"{args.url} cannot be asked: {exc}")
    print(json.dumps(report.as_json(), indent=2) if args.json else "\n".join(report.lines()))
    return OK if report.score.full else FAILED


async def _played(args: argparse.Namespace, cases: list[tuple[Case, Split]]) -> ReplayReport:
    own = args.url is None
    root, key, verify = "" if own else root_of(args.url), key_in(args.api_key_env), trust(args.ca_file)
    headers = {"authorization": f"Bearer {key}"} if key else {}
    host, port = ("127.0.0.1", 0) if own else args.upstream
    async with AsyncExitStack() as stack:
        upstream = await stack.enter_async_context(ScriptedUpstream(host=host, port=port))
        client = await stack.enter_async_context(
            httpx.AsyncClient(trust_env=False, timeout=PATIENCE, headers=headers, verify=verify)
        )
        if own:
            where: Where = OwnProxies(upstream, stack)
        else:
            where = _always(root)
            _tell(args, f"the scripted server answers at {upstream.base_url}, with the key {UPSTREAM_KEY}")
            await client.get(f"{root}/v1/models", timeout=args.seconds)
        player = Player(upstream, client, where, model="" if own else args.model or "")
        player.announce(cases)
        played = []
        for number, (case, split) in enumerate(cases, 1):
            if not own and case.overrides:
                played.append(Played(case, split, None))  # facts that only this proxy can be told
                continue
            played.append(await player.play(case, split))
            if number % 100 == 0:
                _tell(args, f"{number}/{len(cases)}")
        return ReplayReport(played)


def _always(url: str) -> Where:
    async def where(_: Case) -> str:
        return url

    return where


def _tell(args: argparse.Namespace, line: str) -> None:
    if not args.quiet:
        print(line, file=sys.stderr, flush=True)


def _unable(why: str) -> int:
    print(why, file=sys.stderr)
    return _UNABLE
