"""What is kept of one request has a size, whatever the request has."""

from __future__ import annotations

import json
import time
from typing import Any, Final

import pytest

from svir_proxy.errors import ProxyError
from svir_proxy.profiles import load_profile
from svir_proxy.response.events import ContentDelta, Noted
from svir_proxy.server.inspector.exhibit import ROOM, Attempt, Exhibit
from svir_proxy.server.inspector.veil import Veil
from svir_proxy.server.request_record import RequestRecord
from tests.server.support import client_request
from tests.support.work import peak

PIECE = b'data: {"choices":[{"delta":{"content":"x"}}]}\n\n'


SHOWN: Final = Veil(prompts=True)


def exhibit(veil: Veil | None = SHOWN) -> Exhibit:
    return Exhibit(1, RequestRecord("r", "POST", "/v1/chat/completions"), "agent", veil, lambda _: None)


def rows(message: bytes) -> list[Any]:
    return list(json.loads(message)["rows"])


def test_news_are_told_once_and_kept() -> None:
    shown = exhibit()
    request = client_request()
    shown.asked(request)
    attempt = shown.attempt("b0", "m")
    attempt.asked(shown.body, shown.body, (), load_profile("generic"))
    attempt.read(PIECE, [ContentDelta("x")])
    first, second = json.loads(shown.news()), json.loads(shown.news())
    assert (len(first["rows"]), list(first["changes"]), first["client"] is None) == (1, ["0"], False)
    assert (second["rows"], second["changes"], second["client"]) == ([], {}, None)
    attempt.read(b"data: [DONE]\n\n", [])
    assert [row[:2] for row in rows(shown.news())] == [[0, 1]]
    whole = json.loads(shown.whole())
    assert ([row[1] for row in whole["rows"]], whole["client"]) == ([0, 1], first["client"])


def test_of_a_long_answer_the_beginning_and_the_end_are_kept() -> None:
    shown = exhibit()
    attempt = shown.attempt("b0", "m")
    for _ in range(50):
        for _ in range(200):
            attempt.read(PIECE, [ContentDelta("x")])
        assert len(rows(shown.news())) == 200
    kept = [row[1] for row in rows(shown.whole())]
    assert kept[0] == 0
    assert kept[-1] == 9999
    assert 100 < len(kept) < 9000
    assert shown.size < ROOM + 10_000


def test_what_comes_faster_than_it_is_shown_is_only_counted() -> None:
    shown = exhibit()
    attempt = shown.attempt("b0", "m")

    def read(data: bytes) -> None:
        attempt.read(data, [])

    assert peak(read, (b"data: " + b"x" * 65536 + b"\n\n" for _ in range(1000))) < 2_000_000
    assert json.loads(shown.news())["attempts"][0]["unseen"] > 60_000_000


def test_attempts_have_an_end() -> None:
    shown = exhibit()
    for number in range(100):
        shown.attempt(f"b{number}", "m").ended(ProxyError("upstream_failed", "x" * 1000))
    told = json.loads(shown.news())["attempts"]
    assert len(told) == 20
    assert len(told[0]["error"]["message"]) == 300


def test_nothing_but_a_summary_is_left_of_what_is_forgotten() -> None:
    shown = exhibit()
    shown.asked(client_request(messages=[{"role": "user", "content": "y" * 500}]))
    shown.attempt("b0", "m").read(PIECE, [ContentDelta("x")])
    shown.news()
    shown.end()
    before = shown.size
    shown.forget()
    told = json.loads(shown.whole())
    assert (told["rows"], told["attempts"], told["client"]) == ([], [], None)
    assert told["summary"]["path"] == "/v1/chat/completions"
    assert shown.size < before


def test_a_request_that_nobody_saw_has_a_summary() -> None:
    shown = exhibit(None)
    shown.asked(client_request())
    shown.end()
    told = json.loads(shown.whole())
    assert (told["summary"]["seen"], told["summary"]["over"], told["client"]) == (False, True, None)


RATES: dict[str, tuple[list[tuple[float, int]], int | None, float | None]] = {
    "no output": ([], None, None),
    "one piece": ([(0.0, 1)], 5, None),
    "too fast to tell": ([(0.0, 1), (0.049, 1)], None, None),
    "two pieces": ([(0.0, 1), (0.5, 1)], None, 2.0),
    "the server's count": ([(0.0, 1), (0.5, 1)], 11, 20.0),
    "what shows nothing does not count": ([(0.0, 0), (5.0, 1), (6.0, 1), (9.0, 0)], None, 1.0),
}


@pytest.mark.parametrize("name", RATES)
def test_the_rate_is_from_the_first_token_to_the_last(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pieces, tokens, rate = RATES[name]
    attempt = Attempt(0, "b0", "m", Veil(prompts=False), lambda: None)
    for at, visible in pieces:
        monkeypatch.setattr(time, "perf_counter", lambda at=at: at)
        attempt.read(b": ping\n\n", [ContentDelta("x")] * visible or [Noted("a=b")])
    attempt.rows(0.0)
    assert attempt.rate(tokens) == rate


def test_what_is_let_go_while_it_runs_takes_no_more_memory() -> None:
    shown = exhibit()
    attempt = shown.attempt("b0", "m")
    for _ in range(30):
        late = shown.attempt("b0", "m")
    shown.forget()
    profile = load_profile("generic")

    def read(data: bytes) -> None:
        for one in (attempt, late):
            one.asked({}, {"a": 1}, (), profile)
            one.read(data, [ContentDelta("x")])

    assert peak(read, [PIECE] * 20_000) < 50_000
    assert rows(shown.news()) == []
