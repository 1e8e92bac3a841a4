from __future__ import annotations

import json
from typing import Any

from svir_proxy.probe.difference import differences
from svir_proxy.probe.finding import Finding
from svir_proxy.probe.interview import Spent
from svir_proxy.probe.questions.errors import RULES
from svir_proxy.probe.report import Report, as_json, in_words, took
from svir_proxy.profiles import load_profile

FINDINGS = [
    Finding("request.tools", "kept", "a call get_weather({})"),
    Finding("request.tool_choice.named", "kept", "2 of 2 tries: a call of it"),
    Finding("request.images", "rejected", "500 no images " + "and so on " * 30),
    Finding("request.reasoning_efforts", {"xhigh": "high"}, "xhigh: 400 what?"),
    Finding("request.audio", "unknown", "no answer"),
    Finding("overflow", "told", "400 too long"),
    Finding(RULES, [{"when": {"message": "x"}, "then": "model_not_found"}], "400 x"),
]


def _report(**more: Any) -> Report:
    spent = Spent(requests=61, tokens=12345, seconds=12.34)
    return Report("http://127.0.0.1:8080", "llama.cpp", "llama-cpp", "m", 0, FINDINGS, spent, **more)


def test_the_table() -> None:
    lines = list(in_words(_report()))
    assert lines[:4] == [
        "server  llama.cpp at http://127.0.0.1:8080 (profile llama-cpp)",
        "model   m",
        "took    61 requests, 12,345 tokens, 12 s",
        "learned 4 of 5 facts",
    ]
    assert any(line.split() == ["request.tools", "kept", "a", "call", "get_weather({})"] for line in lines)
    assert any('{"xhigh": "high"}' in line for line in lines)
    assert any(line.startswith("overflow") for line in lines)
    assert max(map(len, lines)) <= 120


def test_a_narrow_terminal_has_the_evidence_below_the_fact() -> None:
    wide, narrow = ([*in_words(_report(), width)] for width in (120, 80))
    assert max(map(len, narrow)) <= 80
    assert sorted(" ".join(wide).split()) == sorted(" ".join(narrow).split())


def test_what_ended_it_and_other_models() -> None:
    report = _report(stopped="the limit of 300 s is reached")
    assert "ended   early: the limit of 300 s is reached" in list(in_words(report))
    many = Report("u", "s", "p", "m", 2, (), Spent())
    assert "model   m, one of 3; another: --model" in list(in_words(many))


def test_against_a_profile() -> None:
    profile = load_profile("llama-cpp")
    report = _report(against="llama-cpp", differences=differences(FINDINGS, profile))
    lines = list(in_words(report))
    at = lines.index(next(line for line in lines if line.startswith("llama-cpp says otherwise")))
    assert "request.tool_choice.named" in lines[at + 1]
    assert "ignored > kept" in lines[at + 1]
    assert any(line.startswith("llama-cpp does not know") for line in lines)
    assert lines[-1] == "1 of 4 facts that were learned are as llama-cpp has them"


def test_as_json() -> None:
    profile = load_profile("llama-cpp")
    told = json.loads(as_json(_report(against="llama-cpp", differences=differences(FINDINGS, profile))))
    assert told["facts"][0] == {"fact": "request.tools", "verdict": "kept", "evidence": "a call get_weather({})"}
    assert [entry["fact"] for entry in told["observations"]] == ["overflow", RULES]
    assert told["spent"] == {"requests": 61, "tokens": 12345, "counted": True, "seconds": 12.34}
    assert told["stopped"] is None
    first = told["differences"][0]
    assert (first["fact"], first["verdict"]) == ("request.tool_choice.named", "disagrees")
    assert "differences" not in json.loads(as_json(_report()))


def test_tokens_that_nobody_counted() -> None:
    assert took(Spent(1, 10, counted=False, seconds=1)) == "1 requests, 10 tokens (in part estimated), 1 s"
