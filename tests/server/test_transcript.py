"""Prompts and answers reach the log only where an operator switched that on."""

from __future__ import annotations

import json
import logging
from types import SimpleNamespace

import httpx
import pytest

from svir_proxy.response.events import ArgumentsDelta, ContentDelta, Finished, LogprobsReported, ToolCallStarted
from svir_proxy.server.transcript import Transcript
from tests.server.support import ANSWER, CHAT, STREAM, client_request, serving, settings
from tests.support.work import peak

SSE = {"content-type": "text/event-stream"}


@pytest.mark.parametrize("body", [CHAT, STREAM], ids=["plain", "stream"])
@pytest.mark.parametrize("shown", [True, False])
async def test_both_sides_are_written_down_if_asked_for(
    body: dict[str, object], shown: bool, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "svir_proxy")
    configured = settings(logging={"show_prompts": shown})
    async with serving(configured, lambda _: httpx.Response(200, headers=SSE, content=ANSWER)) as client:
        assert (await client.post("/v1/chat/completions", json=body)).status_code == 200
    told = [record.told for record in caplog.records if record.name == "svir_proxy.prompts"]
    if not shown:
        assert told == []
        assert not any("one two" in record.getMessage() for record in caplog.records)
        return
    (line,) = told
    assert json.loads(line["request"]) == body
    assert json.loads(line["answer"])["choices"][0]["message"]["content"] == "one two"


def test_an_answer_without_end_is_not_gathered(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "svir_proxy")
    request = client_request()
    transcript = Transcript(request, SimpleNamespace(gathers=False, is_timed=True, take=lambda events: None))
    transcript.take([ToolCallStarted(0, "c", "f")])

    def go_on(events: int) -> None:
        for number in range(events):
            chances = LogprobsReported([{"token": f"{number}"}], None)
            transcript.take([ArgumentsDelta(0, f"{number:0100}"), chances, ContentDelta(f"{number:0100}")])

    assert peak(go_on, [20_000]) < 1 << 18
    transcript.take([Finished("length")])
    transcript.write("r")
    answer = caplog.records[-1].told["answer"]
    assert len(answer) == 20_000
    assert answer.startswith('{"id":"chatcmpl-r"')


async def test_a_request_nested_too_deeply_to_be_sent_is_told_all_the_same(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "svir_proxy")
    body = json.dumps(CHAT)[:-1] + ', "deep": ' + "[" * 900 + "]" * 900 + "}"
    async with serving(settings(logging={"show_prompts": True}), lambda _: httpx.Response(200)) as client:
        answer = await client.post("/v1/chat/completions", content=body, headers={"content-type": "application/json"})
    assert answer.status_code == 400
    assert answer.json()["error"]["code"] == "invalid_json"
    assert "nested too deeply" in answer.json()["error"]["message"]
    assert "x-svir-rewrites" not in answer.headers, "the proxy's own refusal was taken for the server's"
    (line,) = [record.told for record in caplog.records if record.name == "svir_proxy.prompts"]
    assert line["request"] == "(the JSON is nested too deeply)"
