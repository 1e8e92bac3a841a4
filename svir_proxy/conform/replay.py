"""The corpus through a proxy: a scripted upstream sends what a server once sent, and the proxy's answer is judged.

Each case has a model of its own, so that what a proxy learns of one does not help, or harm, another. A proxy that knows
only models it was told of is asked for one name all the time, and the upstream plays one case after the other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Final
from zlib import crc32

import httpx

from svir_proxy.conform.cases import SPLITS, Case, Split, cut
from svir_proxy.conform.judge import Seen, judge, wrong_content
from svir_proxy.conform.score import Score, Verdict
from svir_proxy.conform.upstream import Answer, ScriptedUpstream

Where = Callable[[Case], Awaitable[str]]
"""The address of the proxy that a case is for, without ``/v1``."""

PATIENCE: Final = 30.0
"""Seconds for one case."""


@dataclass(frozen=True, slots=True)
class Played:
    """A case that was played.

    Attributes:
        case: The case.
        split: How its body was cut.
        problems: Everything that was wrong with the answer; None: it could not be played.
        content: Those that are about what it says; the others are about its form.
    """

    case: Case
    split: Split
    problems: list[str] | None
    content: list[str] | None = None

    @property
    def verdict(self) -> Verdict:
        """What it showed of the dialect as a whole."""
        return _verdict(self.problems)

    @property
    def said(self) -> Verdict:
        """What it showed of the content alone: a client that takes any form would have it."""
        return _verdict(self.content)

    @property
    def area(self) -> str:
        """What the case is about."""
        expect = self.case.expect
        if expect["outcome"] == "error":
            return "failures after output" if expect.get("partial") else "errors"
        if expect.get("tool_calls"):
            return "tool calls"
        return "reasoning" if expect.get("reasoning") else "streams" if self.case.streamed else "answers"


class Player:
    """Plays cases.

    Args:
        upstream: What the proxy has as its backend. Its script is the player's.
        client: Asks the proxy.
        where: Which proxy, or which address of one, a case is for.
        model: The one name that is asked for; "": each case has its own.
    """

    def __init__(self, upstream: ScriptedUpstream, client: httpx.AsyncClient, where: Where, *, model: str = "") -> None:
        self._upstream = upstream
        self._client = client
        self._where = where
        self._model = model

    def announce(self, cases: Iterable[tuple[Case, Split]]) -> None:
        """Have the upstream list the models of *cases*: a proxy may read the list once, and before all else."""
        for case, split in cases:
            self._upstream.script.setdefault(self.name_of(case, split), Answer())

    def name_of(self, case: Case, split: Split) -> str:
        """The model that a case is asked with."""
        return self._model or f"case-{crc32(case.key.encode()):08x}-{split}"  # a name that says nothing to a proxy

    async def play(self, case: Case, split: Split) -> Played:
        """One case, its body in the pieces of *split*."""
        name = self.name_of(case, split)
        answer = Answer.recorded(case.response, cut(case.body, split, case.key))
        self._upstream.script[name] = answer
        self._upstream.otherwise = answer if self._model else None
        try:
            seen = await ask(self._client, await self._where(case), {**case.request, "model": name}, PATIENCE)
        except TimeoutError:
            return _unanswered(case, split, f"no answer in {PATIENCE:g} s")
        except httpx.HTTPError as exc:
            return _unanswered(case, split, f"no answer: {type(exc).__name__}: {exc}")
        reached = bool(answer.received)
        return Played(case, split, judge(case, seen, reached=reached), wrong_content(case, seen, reached=reached))


def _unanswered(case: Case, split: Split, why: str) -> Played:
    return Played(case, split, [why], [why])


def _verdict(problems: list[str] | None) -> Verdict:
    return "not shown" if problems is None else "broken" if problems else "kept"


async def ask(client: httpx.AsyncClient, base_url: str, body: Mapping[str, Any], seconds: float = PATIENCE) -> Seen:
    """Send a chat request and read the whole answer, however its body ends. TimeoutError after *seconds*."""
    async with (
        asyncio.timeout(seconds),
        client.stream("POST", f"{base_url}/v1/chat/completions", json=body) as response,
    ):
        data, clean = b"", True
        try:
            async for piece in response.aiter_bytes():
                data += piece
        except httpx.RemoteProtocolError:
            clean = False
        return Seen(response.status_code, response.headers, data, clean)


def chosen(
    cases: Sequence[Case], patterns: Sequence[str], splits: Sequence[Split] = SPLITS
) -> list[tuple[Case, Split]]:
    """The cases whose keys fit one of *patterns* (all without any), each with the *splits*."""
    fit = [case for case in cases if not patterns or any(fnmatchcase(case.key, pattern) for pattern in patterns)]
    return [(case, split) for case in fit for split in splits]


@dataclass(frozen=True, slots=True)
class ReplayReport:
    """What a replay showed."""

    played: Sequence[Played]

    @property
    def score(self) -> Score:
        """Of all of them, form and content."""
        return Score.of([one.verdict for one in self.played])

    def areas(self) -> dict[str, Sequence[Played]]:
        """The cases by what they are about, then by the folder they are in, then all."""
        by_area: dict[str, list[Played]] = {}
        by_folder: dict[str, list[Played]] = {}
        for one in self.played:
            by_area.setdefault(one.area, []).append(one)
            by_folder.setdefault(one.case.key.partition("/")[0], []).append(one)
        return dict([*sorted(by_area.items()), *sorted(by_folder.items()), ("all", self.played)])

    def lines(self, most: int = 50) -> list[str]:
        """As words; of the cases that failed the first *most*."""
        width = max(map(len, self.areas()))
        lines = [f"{'':<{width}}  {'the right content':>18}   in the right form"]
        for name, played in self.areas().items():
            said, whole = (Score.of([one.said for one in played]), Score.of([one.verdict for one in played]))
            lines.append(f"{name:<{width}}  {said.kept:4} of {said.shown:4} {said.share:>5}   {whole}")
        failed = [one for one in self.played if one.problems]
        for one in failed[:most]:
            lines += ["", f"broken  {one.case.key} ({one.split}): {one.case.meta['shows']}"]
            lines += [f"        {problem[:300]}" for problem in one.problems or ()]
        if len(failed) > most:
            lines += ["", f"and {len(failed) - most} more; --json has them all"]
        return lines

    def as_json(self) -> dict[str, Any]:
        """As one JSON object."""
        return {
            "areas": {
                name: {
                    "content": Score.of([one.said for one in played]).as_json(),
                    "form": Score.of([one.verdict for one in played]).as_json(),
                }
                for name, played in self.areas().items()
            },
            "cases": [
                {
                    "key": one.case.key,
                    "split": one.split,
                    "verdict": one.verdict,
                    "content": one.said,
                    "problems": one.problems or [],
                }
                for one in self.played
            ],
        }
