"""`reliability/` stays alive: a few seconds of each command, and what they must notice is noticed."""

from __future__ import annotations

import asyncio
import random
from typing import Any, Final
from urllib.parse import urlsplit

import pytest

from reliability import bodies, load, overload, soak, traffic
from reliability.proxy import Held, Inside
from reliability.server import words
from svir_proxy.conform.judge import Seen
from svir_proxy.settings import Settings
from tests.faults.client import Client
from tests.faults.wire import EVENTS, GOOD, JSON, chunked, sized
from tests.support.proxy import running_proxy


def test_overload_sheds_load(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(load, "PATIENCE", 60.0)  # on a machine that stands still for a while, too
    status = overload.main(["--seconds", "0.25", "--loads", "3", "--connections", "8"])
    told = capsys.readouterr()
    assert told.err == ""
    assert status == 0
    tables = [part.splitlines() for part in told.out.split("## ")[1:]]
    assert [len([line for line in lines if line.startswith("| ")]) for lines in tables] == [3, 3, 5, 4]


def test_a_soak_finds_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    status = soak.main(["--minutes", "0.03", "--rate", "150", "--seed", "14"])
    told = capsys.readouterr()
    assert told.err == ""
    assert status == 0
    assert all(f"{kind} " in told.out for kind in traffic.KINDS)
    assert "0 findings" in told.out


def test_large_bodies_find_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    status = bodies.main(["--megabytes", "2"])
    told = capsys.readouterr()
    assert told.err == ""
    assert status == 0
    assert "0 findings" in told.out


# ------------------------------------------------------------------- what must be noticed


@pytest.mark.parametrize(
    ("seen", "words"),
    [
        ({"status": 400}, "400, not 200"),
        ({"is_whole": False}, "not arrive"),
        ({"mib": 5.0}, "5.0 MiB for 1.0"),
        ({"mib": 3.0, "gap": 1000.0}, ""),
    ],
)
def test_a_large_body_that_is_lost_or_too_much(seen: dict[str, Any], words: str) -> None:
    body = bodies.Body("image", b"x" * 2**20, is_media=True)
    passed = bodies.Passed(**{"body": body, "status": 200, "gap": 1.0, "mib": 1.0, "is_whole": True, **seen})
    assert words in (passed.finding or "")
    assert bool(words) == bool(passed.finding)


def event_with(old: bytes, new: bytes) -> Any:
    event = traffic._event
    return lambda *args: event(*args).replace(old, new)


def good_without_a_word() -> dict[bool, bytes]:
    return {True: chunked(*EVENTS[:2], *EVENTS[3:]), False: GOOD[False].replace(b" two", b" one")}


TAMPERED: Final[dict[str, tuple[str, Any]]] = {
    "good": ("GOOD", good_without_a_word()),
    "tools": ("_event", event_with(b'"arguments":"', b'"arguments":" ')),
    "paced": ("_event", event_with(b'"content":" 7"', b'"content":" 8"')),
    "image": ("_answer", lambda text, streamed: GOOD[streamed]),
    "slow reader": ("_event", event_with(b"xx", b"x")),
    "lists": ("_LIST", sized(b"[]", media=JSON)),
    "wrong key": ("KEY", b"another"),
}
"""Of each kind of exchange, what the upstream or the proxy is made to do wrong: a name of `traffic` and its value."""


@pytest.mark.parametrize("kind", TAMPERED)
async def test_each_kind_is_judged(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """That nothing is found where all is right is the soak's to show."""
    monkeypatch.setattr(traffic, *TAMPERED[kind])
    async with traffic.SoakUpstream() as upstream:
        settings = Settings.model_validate(traffic.settings(upstream.port))
        async with running_proxy(settings) as url:
            port = urlsplit(url).port
            assert port is not None
            made = traffic.Traffic(port, upstream, seed=0)

            async def problems(number: int) -> list[str]:
                async with Client(port, b"Authorization: Bearer %b\r\n" % traffic.KEY) as client:
                    return await traffic.KINDS[kind][1](made, client, number, random.Random(number))

            # Streams and whole answers, each of the small routes.
            assert any(await asyncio.gather(*map(problems, range(6))))


def completion(text: str) -> bytes:
    return GOOD[False].partition(b"\r\n\r\n")[2].replace(b"One two three four five", text.encode())


OVERLOADED: Final = b'{"error":{"message":"m","type":"upstream_error","param":null,"code":"overloaded"}}'


@pytest.mark.parametrize(
    ("status", "headers", "body", "problem"),
    [
        (503, {"retry-after": "1"}, OVERLOADED, ""),
        (503, {}, OVERLOADED, "retry-after"),
        (503, {"retry-after": "900"}, OVERLOADED, "retry-after"),
        (503, {"retry-after": "1"}, OVERLOADED.replace(b"overloaded", b"upstream_unavailable"), "unavailable"),
        (502, {}, OVERLOADED.replace(b"overloaded", b"upstream_failed"), "status 502"),
        (200, {}, completion("".join(words("n2"))), "said"),
    ],
    ids=["right", "no wait", "a long wait", "another code", "another status", "another's answer"],
)
def test_an_answer_under_load_is_judged(status: int, headers: dict[str, str], body: bytes, problem: str) -> None:
    request = {"messages": [{"role": "user", "content": "n1"}], "stream": False}
    seen = Seen(status, {"x-request-id": "r", "content-type": "application/json", **headers}, body)
    problems = load._problems("n1", request, seen)
    assert any(problem in line for line in problems) if problem else problems == []


def report(*, seconds: float = 600, mib: float = 0, fds: float = 0, tasks: float = 0, mine: int = 0) -> soak.Report:
    """A run that had so much more in its last quarter than in its second, with a peak in the third."""
    idle, rest = ((Held(50, 20, 1), Inside(2, {"x.A": 300, "x.B": count - 300}, 9000)) for count in (400, 400 + mine))
    made = soak.Report(traffic.Traffic(0, traffic.SoakUpstream(), 0), idle, idle, rest, seconds)
    for number in range(60):
        late, peak = number >= 45, 500 * (number == 40)
        held = Held(60 + mib * late + peak + number % 3, 100 + int(fds * late) + peak, 1)
        made.samples.append(soak.Sample(number * seconds / 60, number, held, Inside(40 + int(tasks * late) + peak)))
    return made


@pytest.mark.parametrize(
    ("more", "found"),
    [
        ({}, []),
        ({"mib": 4}, []),
        ({"mib": 6}, ["MiB grew from 61.0 to 67.0"]),
        ({"fds": 20, "tasks": 9}, []),
        ({"fds": 30}, ["descriptors grew from 100.0 to 130.0"]),
        ({"tasks": 12}, ["tasks grew from 40.0 to 52.0"]),
        ({"mine": 90}, []),
        ({"mine": 101}, ["101 more objects of the proxy's classes: x.B 101"]),
        ({"mib": 100, "seconds": 60}, []),
    ],
    ids=str,
)
def test_growth_is_told_from_chance(more: dict[str, Any], found: list[str]) -> None:
    assert soak._growth(report(**more)) == found
