"""The scripted upstream itself: it frames an answer as it is told to."""

from __future__ import annotations

import httpx
import pytest

from svir_proxy.conform.cases import SPLITS, cut
from svir_proxy.conform.upstream import Answer, ScriptedUpstream, json_answer

BODY = b"data: {}\n\n" * 20


@pytest.mark.parametrize("http10", [False, True])
@pytest.mark.parametrize("split", SPLITS)
async def test_a_body_arrives_whole_however_it_is_cut(split, http10) -> None:
    answer = Answer(headers={"content-type": "text/event-stream"}, pieces=cut(BODY, split, "seed"), http10=http10)
    async with ScriptedUpstream({"m": answer}) as upstream, httpx.AsyncClient(trust_env=False) as client:
        response = await client.post(f"{upstream.base_url}/chat/completions", json={"model": "m"})
    assert response.content == BODY
    assert response.headers["content-type"] == "text/event-stream"
    assert [received.json() for received in answer.received] == [{"model": "m"}]


@pytest.mark.parametrize(
    "answer", [Answer(status=None), Answer(pieces=[BODY], cut=True)], ids=["closed without a word", "cut"]
)
async def test_a_connection_breaks(answer: Answer) -> None:
    async with ScriptedUpstream({"m": answer}) as upstream, httpx.AsyncClient(trust_env=False) as client:
        with pytest.raises(httpx.RemoteProtocolError):
            await client.post(f"{upstream.base_url}/chat/completions", json={"model": "m"})


async def test_models_are_those_of_the_script_or_what_is_given() -> None:
    async with ScriptedUpstream({"m": Answer()}) as upstream, httpx.AsyncClient(trust_env=False) as client:
        listed = (await client.get(f"{upstream.base_url}/models")).json()
        upstream.models = json_answer({"detail": "no"}, 404)
        refused = await client.get(f"{upstream.base_url}/models")
        unknown = await client.post(f"{upstream.base_url}/chat/completions", json={"model": "other"})
    assert [model["id"] for model in listed["data"]] == ["m"]
    assert (refused.status_code, refused.json(), unknown.status_code) == (404, {"detail": "no"}, 404)


async def test_a_later_request_gets_the_later_answer() -> None:
    last = json_answer({"turn": 3})
    script = {"m": json_answer({"turn": 1})}
    script["m"].then = json_answer({"turn": 2})
    script["m"].then.then = last
    async with ScriptedUpstream(script) as upstream, httpx.AsyncClient(trust_env=False) as client:
        turns = [await client.post(f"{upstream.base_url}/chat/completions", json={"model": "m"}) for _ in range(4)]
    assert [turn.json()["turn"] for turn in turns] == [1, 2, 3, 3]
    assert len(last.received) == 2
