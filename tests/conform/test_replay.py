"""Cases played without a proxy between: what is right in form and content is told from what is not."""

from __future__ import annotations

import json

import httpx

from svir_proxy.conform.cases import Case, load_cases
from svir_proxy.conform.exchange import Request
from svir_proxy.conform.replay import Player, ReplayReport, chosen
from svir_proxy.conform.upstream import ScriptedUpstream
from tests.conform.servers import STREAM, answer

_ASKED = {"model": "maker/model", "messages": [{"role": "user", "content": "Hello"}], "stream": True}


def _case(key: str, headers: dict[str, str], **expect: object) -> Case:
    body = answer(Request("/v1/chat/completions", _ASKED)).body
    wanted = {"outcome": "answer", "http_status": 200, "content": "It passes requests on to servers.", **expect}
    meta = {"shows": key, "request": _ASKED, "response": {"status": 200, "headers": headers}, "expect": wanted}
    return Case(key, meta, body)


RIGHT = _case("a/right", STREAM)
NO_ID = _case("a/form", {name: value for name, value in STREAM.items() if name != "x-request-id"})
OTHER = _case("b/content", STREAM, content="Something else.")


async def _played(model: str = "") -> ReplayReport:
    async with ScriptedUpstream() as upstream, httpx.AsyncClient(trust_env=False) as client:

        async def where(_: Case) -> str:
            return upstream.base_url.removesuffix("/v1")

        player = Player(upstream, client, where, model=model)
        cases = chosen([RIGHT, NO_ID, OTHER], ())
        player.announce(cases)
        return ReplayReport([await player.play(*one) for one in cases])


async def test_form_and_content_are_two_things() -> None:
    report = await _played()
    told = {one["key"]: (one["content"], one["verdict"]) for one in report.as_json()["cases"]}
    assert told == {"a/right": ("kept", "kept"), "a/form": ("kept", "broken"), "b/content": ("broken", "broken")}
    areas = report.as_json()["areas"]
    assert areas["all"] == {"content": {"kept": 6, "shown": 9, "rules": 9}, "form": {"kept": 3, "shown": 9, "rules": 9}}
    assert {"streams", "a", "b"} < set(areas)
    text = "\n".join(report.lines())
    assert "broken  b/content (byte): b/content" in text
    assert json.dumps(report.as_json())


async def test_one_name_for_all_cases_plays_them_one_by_one() -> None:
    assert (await _played("the-model")).as_json() == (await _played()).as_json()


async def test_who_does_not_answer_is_told() -> None:
    async with ScriptedUpstream() as upstream, httpx.AsyncClient(trust_env=False) as client:
        gone = Case("gone", {**RIGHT.meta, "response": {"status": None}}, b"")

        async def where(_: Case) -> str:
            return upstream.base_url.removesuffix("/v1")

        played = await Player(upstream, client, where).play(gone, "whole")
    assert played.verdict == played.said == "broken"
    assert "no answer" in played.problems[0]


def test_cases_are_chosen_by_their_keys() -> None:
    keys = {case.key for case, _ in chosen(load_cases(), ["vllm/*"], ["whole"])}
    assert keys
    assert all(key.startswith("vllm/") for key in keys)
    assert not chosen(load_cases(), ["no-such"])
