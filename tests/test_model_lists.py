"""Every recorded model list through the running proxy."""

from __future__ import annotations

import httpx
import pytest

from svir_proxy.conform import dialect
from svir_proxy.conform.cases import ModelList, expected_failures, load_model_lists, profile_of
from svir_proxy.conform.upstream import Answer, ScriptedUpstream
from tests.support.proxy import running_proxy, settings_for

FAILURES = expected_failures()


def _params():
    for listed in load_model_lists():
        reason = FAILURES.get(f"models/{listed.key}")
        marks = [pytest.mark.xfail(reason=reason, strict=True)] if reason else []
        yield pytest.param(listed, marks=marks, id=listed.key)


def _clean(name: str) -> str:
    """A path id is listed under its last component."""
    return name.rsplit("/", 1)[-1] if name.startswith("/") else name


@pytest.mark.parametrize("listed", [*_params()])
async def test_the_list_shows_the_chat_models(listed: ModelList) -> None:
    meta = listed.meta
    answer = Answer.recorded(meta["response"], [meta["body"].encode()])
    async with (
        ScriptedUpstream(models=answer) as upstream,
        running_proxy(settings_for(upstream.base_url, profile_of(meta["server"]))) as base_url,
        httpx.AsyncClient(trust_env=False) as client,
    ):
        response = await client.get(f"{base_url}/v1/models")
        everything = await client.get(f"{base_url}/v1/models?all=true")
    if response.status_code >= 400:
        assert dialect.check_error(response.content) == []
        assert not meta["expect_ids"]
        return
    assert dialect.check_models(response.content) == []
    ids = {model["id"] for model in response.json()["data"]}
    accepted = [meta["expect_ids"], meta.get("expect_alt_ids") or meta["expect_ids"]]
    assert {_clean(name) for name in ids} in [{_clean(name) for name in wanted} for wanted in accepted]
    assert dialect.check_models(everything.content) == []
    assert ids | set(meta["filtered_ids"]) <= {model["id"] for model in everything.json()["data"]}
