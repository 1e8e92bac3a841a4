"""Recorded exchanges of ``tests/cases`` beside what a client of the proxy gets of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

import yaml

from svir_proxy.conform.cases import Case, load_cases
from svir_proxy.response.upstream_error import ErrorReader
from tests.support.core import folded, normalize, profile_of, request_of, written

_CHOSEN: Final = Path(__file__).with_name("excerpts.yaml")
_LINES: Final = 8
"""Lines of a stream that are shown: those of its beginning and of its end."""
_WIDTH: Final = 600
_WORTH_IT: Final = 30
"""Characters that are left out at least, so that a line does not only get harder to read."""
GAP: Final = "…"
"""What stands for what is not shown."""


@dataclass(frozen=True, slots=True)
class Excerpt:
    """One exchange for a page: what it shows, the server's bytes, and the client's."""

    key: str
    shows: str
    server: str
    client: str


def of_profile(name: str) -> list[Case]:
    """The recorded exchanges with servers of a profile, in the order of their keys."""
    return [case for case in load_cases() if case.profile == name]


@cache
def chosen() -> Mapping[str, list[str]]:
    """The keys of the exchanges that pages show, by profile."""
    found: dict[str, list[str]] = yaml.safe_load(_CHOSEN.read_text("utf-8"))
    return found


def excerpts(name: str) -> Iterator[Excerpt]:
    """Those that the page of a profile shows."""
    by_key = {case.key: case for case in load_cases()}
    for key in chosen().get(name, ()):
        case = by_key[key]
        yield Excerpt(key, case.meta["shows"], _server(case), _client(case))


def _server(case: Case) -> str:
    status, kind = case.response["status"], case.response["headers"].get("content-type", "")
    return "\n".join((f"{status} {kind}".strip(), *_cut(case.body.decode("utf-8", "replace"))))


def _client(case: Case) -> str:
    """The answer as it leaves the proxy, or the error."""
    request, profile = request_of(case), profile_of(case)
    assert request is not None, f"{case.key}: the proxy refuses the request"
    if case.response["status"] != 200:
        headers = {name.lower(): value for name, value in case.response["headers"].items()}
        error = ErrorReader(request, profile.errors).from_response(case.response["status"], headers, case.body)
        return f"{error.status} application/json\n{error.body().decode()}"
    events = normalize(request, profile, [case.body], clean=not case.response.get("cut"))
    if case.expect["outcome"] == "error" and not case.expect.get("partial"):
        error = events[-1].error  # type: ignore[union-attr]  # the case says that it fails
        return f"{error.status} application/json\n{error.body().decode()}"
    if request.stream:
        return "\n".join(("200 text/event-stream", *_cut(written(request, events).decode())))
    return f"200 application/json\n{folded(request, events).decode()}"


def _cut(text: str) -> list[str]:
    """The lines of *text* that are shown: no blank ones, the first and the last of many, of each what is new in it."""
    whole = [line for line in text.splitlines() if line.strip()]
    lines = [_cut_to_width(new) for new in map(_new_in, whole, ["", *whole])]
    return lines if len(lines) <= _LINES + 1 else [*lines[: _LINES // 2], GAP, *lines[-_LINES // 2 :]]


def _new_in(line: str, before: str) -> str:
    """*line* without the keys that it begins and ends with as *before* does: chunks repeat who they are.

    What is in a delta stays whole.
    """
    if not line.startswith("data: {") or (delta := line.find('"delta"')) < 0:
        return line
    start = line.rfind(',"', 0, min(_common(line, before) + 1, delta))
    end = line.find(',"', len(line) - _common(line[::-1], before[::-1]))
    if 0 <= end < len(line) - _WORTH_IT:
        line = f"{line[:end]},{GAP}}}"
    return f"data: {{{GAP}{line[start:]}" if start > _WORTH_IT else line


def _common(one: str, other: str) -> int:
    """Characters that both begin with."""
    return next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def _cut_to_width(line: str) -> str:
    return line if len(line) <= _WIDTH else line[:_WIDTH] + GAP
