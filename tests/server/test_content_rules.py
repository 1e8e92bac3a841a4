"""Which rules hold for whom, and where they hold an endpoint shut."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import httpx
import pytest

from svir_proxy.errors import ProxyError
from svir_proxy.server.catalog import Route
from svir_proxy.server.content_rules import ContentRules
from svir_proxy.settings import RuleSettings
from tests.server.support import CHAT, COMPLETION, serving, settings

RULES = ContentRules(
    RuleSettings.model_validate(
        {
            "answers": [
                {"name": "all", "pattern": "a", "action": "block"},
                {"name": "kids", "pattern": "b", "action": "block", "keys": ["kid", "child"]},
                {"name": "gpt", "pattern": "q", "action": "redact", "models": ["gpt-*", "org/model"]},
                {
                    "name": "both",
                    "pattern": "d",
                    "action": "redact",
                    "replacement": "",
                    "models": ["x"],
                    "keys": ["kid"],
                },
            ]
        }
    )
)


class Scripted:
    """A model server with a list of *models*, all of which say the same."""

    def __init__(self, models: Any) -> None:
        self._models = models

    def __call__(self, request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, json=self._models if request.method == "GET" else COMPLETION)


def routes(*models: str, listed: bool = True) -> tuple[Route, ...]:
    return tuple(Route(cast(Any, SimpleNamespace(name="b")), model, listed) for model in models)


@pytest.mark.parametrize(
    ("key", "model", "where", "names"),
    [
        (None, "m", routes("m"), ["all"]),
        ("adult", "m", routes("m"), ["all"]),
        ("kid", "m", routes("m"), ["all", "kids"]),
        (None, "gpt-5", routes("other"), ["all", "gpt"]),
        (None, "alias", routes("org/model"), ["all", "gpt"]),
        (None, "alias", routes("m", "org/model"), ["all", "gpt"]),
        ("kid", "x", routes("m"), ["all", "kids", "both"]),
        ("adult", "x", routes("m"), ["all"]),
        # whichever model answers: it may be one that a rule is for
        (None, "whatever", routes("whatever", listed=False), ["all", "gpt"]),
        ("kid", "", routes(""), ["all", "kids", "gpt", "both"]),
    ],
)
def test_a_rule_is_for_models_and_keys(key: str | None, model: str, where: tuple[Route, ...], names: list[str]) -> None:
    assert [rule.name for rule in RULES.of(key, model, where)] == names


def test_a_request_that_names_other_models_too_is_under_every_rule() -> None:
    assert [rule.name for rule in RULES.of(None, "m", routes("m"), others=True)] == ["all", "gpt"]


def test_what_a_rule_does() -> None:
    rules = {rule.name: rule for rule in RULES.of("kid", "", routes(""))}
    assert {name: rule.replacement for name, rule in rules.items()} == {
        "all": None, "kids": None, "gpt": "[redacted]", "both": "",
    }  # fmt: skip
    assert rules["all"].pattern.found_in("xax")


OF_TEXT = ["completions", "responses", "audio/transcriptions", "audio/translations", "audio/a/b", "audio/speech/x"]
OF_NONE = ["embeddings", "rerank", "moderations", "audio/speech", "images/generations", "images/edits"]


@pytest.mark.parametrize("path", OF_TEXT)
def test_an_endpoint_that_answers_with_text_is_shut_while_a_rule_holds(path: str) -> None:
    few = ContentRules(RuleSettings.model_validate({"answers": [
        {"name": "gpt", "pattern": "q", "action": "block", "models": ["gpt-*"]},
    ]}))  # fmt: skip
    few.check_passed(f"/{path}", None, "m", routes("m"))
    with pytest.raises(ProxyError) as caught:
        few.check_passed(f"/{path}", None, "gpt-5", routes("m"))
    error = caught.value
    assert (error.kind, error.status, error.envelope()["error"]["type"]) == (
        "endpoint_not_allowed", 403, "permission_error",
    )  # fmt: skip
    assert all(said in error.message for said in ("'gpt'", "'gpt-5'", f"/v1/{path}", "/v1/chat/completions"))


def test_a_rule_is_for_every_name_that_is_another_word_for_the_model() -> None:
    rules = ContentRules(
        RuleSettings.model_validate(
            {"answers": [{"name": "r", "pattern": "q", "action": "block", "models": ["fast"]}]}
        ),
        lambda model, route: {"fast": ["org/m"], "org/m": ["org/m", "fast"]}.get(model, [route.model]),
    )
    found = {model: bool(rules.of(None, model, routes("org/m"))) for model in ("fast", "org/m", "quick")}
    assert found == {"fast": True, "org/m": True, "quick": False}


async def test_no_name_leads_around_a_rule() -> None:
    models = {"data": [{"id": "org/m"}, {"id": "free"}]}
    server = Scripted(models)
    rule = {"name": "r", "pattern": "one", "action": "block", "models": ["fast", "gpt-*"]}
    backend = {"models": {"fast": "org/m", "quick": "org/m", "gpt-*": "free-*", "free": "free"}}
    async with serving(settings("http://server/v1", rules={"answers": [rule]}, backend=backend), server) as client:
        for model, is_held in [
            ("fast", True),
            ("org/m", True),  # the server's own word for it
            ("quick", False),  # another alias, which may be there to be without the rule
            ("gpt-5", True),
            ("free-5", True),
            ("free", False),
        ]:
            said = await client.post("/v1/chat/completions", json=CHAT | {"model": model})
            assert (said.json()["choices"][0]["finish_reason"] == "content_filter") == is_held, model
        for field in ("models", "fallbacks"):
            body = CHAT | {"model": "free", field: ["org/m"]}
            said = await client.post("/v1/chat/completions", json=body)
            assert said.json()["choices"][0]["finish_reason"] == "content_filter", field
            for path, status in (("completions", 403), ("embeddings", 200)):
                assert (await client.post(f"/v1/{path}", json=body)).status_code == status


@pytest.mark.parametrize("path", OF_NONE)
def test_an_endpoint_without_text_is_open(path: str) -> None:
    RULES.check_passed(f"/{path}", "kid", "gpt-5", routes("m"))
