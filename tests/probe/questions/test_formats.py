from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from svir_proxy.probe.questions.formats import ABOUT_FORMATS
from svir_proxy.probe.questions.opening import OPENING
from tests.probe.simulated import Simulated
from tests.probe.support import Held, hold

OBJECT, SCHEMA = "response_format.json_object", "response_format.json_schema"


def _asked(server: Simulated) -> Held:
    return hold(server, [*OPENING, *ABOUT_FORMATS])


class Says(Simulated):
    """Its model says the next of *texts* whenever a format is asked for."""

    def __init__(self, *texts: str, greeting: str = "Hello!") -> None:
        super().__init__()
        self.texts, self.greeting = [*texts], greeting

    def _say(self, body: Mapping[str, Any], visible: list[str], tools: list[str]) -> tuple[str, list[str]]:
        if "response_format" not in body:
            return self.greeting, []
        return (self.texts.pop(0) if len(self.texts) > 1 else self.texts[0]), []


@pytest.mark.parametrize(
    ("texts", "object_", "schema"),
    [
        (('{"fruit": "medlar"}',), "kept", "kept"),
        (('{"greeting": "Hello!"}',), "kept", "ignored"),
        (("Hello!",), "ignored", "ignored"),
        (("[1]",), "ignored", "ignored"),
        (('```json\n{"fruit": "medlar"}\n```',), "ignored", "ignored"),
        (('{"fruit": "apple"}',), "kept", "ignored"),
        (("",), "unknown", "unknown"),
        (('{"a": "' + "so " * 200,), "kept", "unknown"),
    ],
)
def test_what_a_format_is_worth(texts: tuple[str, ...], object_: str, schema: str) -> None:
    held = _asked(Says(*texts))
    assert (held[OBJECT].value, held[SCHEMA].value) == (object_, schema)


def test_json_of_itself_shows_nothing() -> None:
    assert _asked(Says('{"a": 1}', greeting='{"a": 1}'))[OBJECT].value == "unknown"


def test_twice_in_three_times_is_no_verdict() -> None:
    held = _asked(Says("{}", "{}", "Hello!", "{}", "Hello!"))
    assert held[OBJECT].value == "unknown"


def test_the_word_json_is_demanded() -> None:
    held = _asked(Simulated({"response_format.json_object_needs_word": True}))
    assert (held[OBJECT].value, held["response_format.json_object_needs_word"].value) == ("kept", True)


def test_a_schema_that_binds_the_reasoning() -> None:
    class Binds(Simulated):
        def _answer(self, body: Mapping[str, Any]) -> Any:
            told = super()._answer(body)
            if "json_schema" not in json.dumps(body):
                return told
            answer = json.loads(told.body)
            message = answer["choices"][0]["message"]
            message["reasoning_content"], message["content"] = message["content"], ""
            return type(told)(200, told.headers, json.dumps(answer).encode())

    held = _asked(Binds())
    assert (held[SCHEMA].value, held["response_format.schema_binds_reasoning"].value) == ("kept", True)
