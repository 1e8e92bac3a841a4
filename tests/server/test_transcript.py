"""Prompts and answers reach the log only where an operator switched that on."""

from __future__ import annotations

import json
import logging

import httpx
import pytest

from tests.server.support import ANSWER, CHAT, STREAM, serving, settings

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
