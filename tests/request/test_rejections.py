"""The readers of rejections: each finds its own wordings, and nothing where the request has nothing of the kind."""

from __future__ import annotations

import pytest

from svir_proxy.errors import ProxyError
from svir_proxy.request.named_fields import Said
from svir_proxy.request.rejections import READERS
from tests.request.support import ask, call, function, profile, rewrite, user
from tests.request.wordings import FACTS, FIELDS, Case

_NAMELESS = ("Gemini, nothing named", "no words at all")
_CASES = {name: case for name, case in FACTS.items() if name not in _NAMELESS}


def _found(case: Case, body: dict[str, object]) -> dict[str, dict[str, object]]:
    """What each reader makes of the case's words in answer to *body*."""
    said = Said(case.read(body, profile(case.facts)))
    return {read.__name__: dict(read(said, body)) for read in READERS if read(said, body)}


@pytest.mark.parametrize("name", _CASES)
def test_the_first_reader_that_finds_something_finds_the_fact(name: str) -> None:
    case = _CASES[name]
    found = _found(case, dict(rewrite(case.body, profile(case.facts)).body))
    if case.learned == {"optional_fields.reasoning_effort": "rejected"}:
        assert set(found) == {"read_reasoning_effort"}
    assert next(iter(found.values())) == {f"request.{path}": value for path, value in case.learned.items()}


@pytest.mark.parametrize("name", _CASES)
def test_the_same_words_about_another_request_say_nothing(name: str) -> None:
    assert _found(_CASES[name], ask(seed=1)) == {}


@pytest.mark.parametrize("name", FIELDS)
def test_a_field_that_is_named_is_no_fact_of_a_reader(name: str) -> None:
    assert _found(FIELDS[name], FIELDS[name].body) == {}


def test_every_reader_has_a_case() -> None:
    used = {next(iter(_found(case, dict(rewrite(case.body, profile(case.facts)).body)))) for case in _CASES.values()}
    assert used == {read.__name__ for read in READERS}


_PARTS = [{"type": "refusal", "refusal": "No."}]
_NAMELESS_TOOL = {"type": "function", "function": {"name": "f"}}


@pytest.mark.parametrize(
    ("message", "body", "found"),
    [
        ("roles must alternate", ask(user(), {"role": "assistant", "content": "a"}, user()), []),
        ("roles must alternate", ask({"role": "tool", "content": "1"}, {"role": "tool", "content": "2"}), []),
        ("unsupported content[].type", ask({"role": "assistant", "content": [5, {"type": "text"}]}), []),
        ("unsupported content[].type", ask({"role": "user", "content": _PARTS}), []),
        ("reasoning_content was fine", ask({"role": "assistant", "content": "a", "reasoning_content": "r"}), []),
        ("x is not supported", ask({"role": "assistant", "content": "a", "reasoning_content": "r"}), []),
        ("There is something with 'functions'", ask(functions=[{"name": "f"}]), []),
        ("'x' is not supported", ask(functions=[{"name": "f"}]), []),
        ("Unexpected message role.", ask(functions=[{"name": "f"}]), []),
        ("invalid value for parameter 'seed'", ask(tools=[function("f", strict=True)]), []),
        ("invalid value for parameter 'tools'", ask(tools=[function("f")]), []),
        ("Unsupported parameters: store", ask(tools=[_NAMELESS_TOOL]), []),
        ("tools[0].function.parameters: required", ask(tools=[function("f")]), []),
        (
            "tool_choice 'required' is unsupported",
            ask(tools=[function("f")], tool_choice="required"),
            ["tool_choice.required"],
        ),
        ("tool_choice 'required' is unsupported", ask(tool_choice="required"), []),
        (
            "logprobs is not supported with stream",
            ask(stream=True, tools=[function("f")], logprobs=True),
            ["stream_logprobs"],
        ),
        ("Cannot use tools with stream", ask(stream=True), []),
        ("Cannot use tools with stream", ask(tools=[function("f")]), []),
        ("'stream' is not supported", ask(), []),
        ("'max_tokens' is not supported", ask(), []),
        ("'max_tokens' must be positive", ask(max_tokens=-1), []),
        (
            "Failed to parse arguments",
            ask({"role": "assistant", "tool_calls": [call("f", {}), 5, {"function": 5}]}),
            [],
        ),
        ("length of 9 is the call id's", ask(), []),
        ("property 'name' is unsupported", ask({"role": "tool", "tool_call_id": "a", "content": "1"}), []),
        ("name is empty", ask({"role": "tool", "tool_call_id": "a", "content": "1", "name": "f"}), []),
        ("response_format is unsupported", ask(response_format={"type": "text"}), []),
        ("content must be a string", ask(user([5]), user([{"type": "text"}]), user({"type": "text"})), []),
        ("strict is not permitted", ask(tools=[5, {"function": 5}, {"strict": True}]), []),
        ("does not support thinking", ask(), []),
        ("does not support thinking", ask(reasoning_effort="quite a lot"), []),
    ],
)
def test_a_near_miss(message: str, body: dict[str, object], found: list[str]) -> None:
    said = Said(ProxyError("invalid_request", message))
    facts = {path for read in READERS for path in read(said, body)}
    assert facts == {f"request.{path}" for path in found}
