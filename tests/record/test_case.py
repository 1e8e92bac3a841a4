"""A recorded exchange as a case: it says what was asked and sent, and expects what was seen, to the letter."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from svir_proxy.conform.cases import cases_in, load_cases
from svir_proxy.conform.exchange import Exchange, Request
from svir_proxy.conform.judge import Seen, judge
from svir_proxy.record.case import LOOK, Server, body_of, case_of, with_expectation, write
from svir_proxy.record.clean import Cleaner
from tests.conform.servers import answer, chunk, envelope, stream

CHAT = "/v1/chat/completions"
ASKED = {"model": "maker/model", "messages": [{"role": "user", "content": "Hello"}]}
SERVER = Server("llama.cpp", "b1", "maker/model", ("--jinja",))
PLAIN, STREAMED = Request(CHAT, ASKED), Request(CHAT, {**ASKED, "stream": True})
ROLE = chunk({"role": "assistant", "content": ""})

EXCHANGES = {
    "plain": answer(PLAIN),
    "stream": answer(STREAMED),
    "usage": answer(Request(CHAT, {**ASKED, "stream": True, "stream_options": {"include_usage": True}})),
    "refused": answer(Request(CHAT, {**ASKED, "n": 2})),
    "broken midway": stream(STREAMED, [ROLE, chunk({"content": "Hel"}), envelope(502, "upstream_failed", "It died.")]),
}


def _recorded(exchange: Exchange):
    seen = Seen(exchange.status or 0, exchange.headers, exchange.body)
    return with_expectation(case_of("made", exchange, SERVER, Cleaner()), seen), seen


@pytest.mark.parametrize("name", EXCHANGES)
def test_what_was_seen_is_what_is_expected(name: str) -> None:
    case, seen = _recorded(EXCHANGES[name])
    assert judge(case, seen, reached=True) == []


@pytest.mark.parametrize(("name", "old", "new"), [
    ("plain", b"passes", b"brings"), ("stream", b"It pas", b"It dis"), ("broken midway", b"Hel", b"Hal"),
    ("refused", b"unsupported_parameter", b"model_not_found"), ("broken midway", b"It died", b"It lives"),
])  # fmt: skip
def test_another_answer_is_not_expected(name: str, old: bytes, new: bytes) -> None:
    """An expectation that nothing could miss would be none."""
    case, seen = _recorded(EXCHANGES[name])
    assert judge(case, replace(seen, body=seen.body.replace(old, new)), reached=True)


def test_a_case_can_be_read_again(tmp_path: Path) -> None:
    case, _ = _recorded(EXCHANGES["stream"])
    assert [path.name for path in write(case, tmp_path)] == ["made.case.json", "made.body"]
    (read,) = cases_in(tmp_path)
    assert (read.key, read.meta, read.body) == (case.key, case.meta, case.body)
    assert (read.profile, read.meta["notes"], read.request["model"]) == ("llama-cpp", LOOK, "m")
    with pytest.raises(FileExistsError):
        write(case, tmp_path)


@pytest.mark.parametrize(("exchange", "fields"), [
    (Exchange(PLAIN, 200, {}, b"{", clean=False), {"status": 200, "headers": {}, "cut": True}),
    (Exchange(PLAIN, failure="gone"), {"status": None, "headers": {}, "closed_without_response": True}),
    (Exchange(PLAIN, 200, {"x-a": "b"}, b"", http_version="HTTP/1.0"), {"status": 200, "headers": {}, "http_version": "HTTP/1.0"}),
])  # fmt: skip
def test_how_a_connection_ended_is_kept(exchange: Exchange, fields: dict) -> None:
    assert case_of("made", exchange, SERVER, Cleaner()).response == fields


def test_secrets_of_the_request_go_too() -> None:
    asked = {**ASKED, "user": "annabel", "messages": [{"role": "user", "content": "my-secret"}]}
    case = case_of("made", answer(Request(CHAT, asked)), SERVER, Cleaner(["my-secret"], [], ["annabel"]))
    assert not {"my-secret", "annabel"} & set(json.dumps(case.meta).replace('"', " ").split())


@pytest.mark.parametrize("value", [[], {}, {"messages": []}, "x"])
def test_what_is_no_request(value: object) -> None:
    with pytest.raises(ValueError, match="is no request"):
        body_of(value)


def test_no_case_of_the_corpus_waits_to_be_looked_at() -> None:
    assert [case.key for case in load_cases() if "LOOK AT" in (case.meta.get("notes") or "")] == []
