"""All rewrites together: what clients send to every kind of server, and any body at all."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from svir_proxy.client_request import Body
from svir_proxy.errors import ProxyError
from svir_proxy.expectation import Expectation
from svir_proxy.profiles.loader import builtin_names, load_profile
from svir_proxy.profiles.schema import Fact, Profile
from svir_proxy.request import REWRITES, UpstreamRequest
from svir_proxy.request.context import Context
from svir_proxy.request.reasons import reason
from svir_proxy.request.retry import apply_learned
from tests.request.strategies import ANY_BODY
from tests.request.support import MODEL, PLAIN, ask, bodies, call, client, differences, profile, rewrite, user

BODIES: Final = bodies()
PROFILES: Final = {name: load_profile(name) for name in builtin_names()}
_FIELDS_OF_NOTES: Final = {
    # the beginning of a note: the top-level fields that it explains
    "model=": {"model"},
    "stream=": {"stream", "stream_options"},
    "add=stream_options": {"stream_options"},
    "max_tokens=": {"max_tokens", "max_completion_tokens"},
    "tools": {"tools", "tool_choice", "parallel_tool_calls"},
    "tool_choice": {"tools", "tool_choice", "parallel_tool_calls", "messages"},
    "response_format": {"response_format", "messages"},
    "reasoning_effort": {"reasoning_effort"},
    "functions": {"functions", "function_call", "tools", "tool_choice", "messages"},
    "role.": {"messages"},
    "history": {"messages"},
    "content": {"messages"},
    "reasoning_history": {"messages"},
    "tool.name": {"messages"},
    "file=": {"messages"},
}


def _explained(notes: tuple[str, ...]) -> set[str]:
    fields = {note.partition("=")[2] for note in notes if note.startswith(("drop=", "add="))}
    for note in notes:
        if note.startswith("nulls="):
            fields |= set(note.removeprefix("nulls=").split("+"))
        for beginning, named in _FIELDS_OF_NOTES.items():
            fields |= named if note.startswith(beginning) else set()
    return fields


@pytest.mark.parametrize("name", BODIES)
def test_what_a_client_sends_reaches_every_server(name: str) -> None:
    body = BODIES[name]
    for server, served in PROFILES.items():
        result = _attempt(body, served, "served")
        if isinstance(result, ProxyError):
            # Nothing can be done for an image where none is taken; whatever else is refused could have been avoided.
            assert (result.kind, "image" in name) == ("image_not_supported", True), server
            assert served.request.images in ("ignored", "rejected"), server
            continue
        changed = differences(body, result.body)
        assert set(changed) <= _explained(result.notes), server
        assert [note for note in result.notes if not reason(note, served).done] == []
        assert result.body["model"] == "served"
        assert json.loads(json.dumps(result.body)) == result.body
        _assert_texts_survive(body, result.body)


def _attempt(body: dict[str, Any], served: Profile, model: str) -> UpstreamRequest | ProxyError:
    try:
        return rewrite(body, served, model)
    except ProxyError as error:
        return error


def _assert_texts_survive(before: Mapping[str, Any], after: Mapping[str, Any]) -> None:
    """Whatever form messages take, each text, call and result of the client is still said."""
    said = json.dumps(after["messages"])
    for message in before["messages"]:
        content = message.get("content")
        texts = [content] if isinstance(content, str) else [part.get("text") for part in content or ()]
        for text in filter(None, texts):
            assert json.dumps(text)[1:-1] in said
        for made in message.get("tool_calls") or ():
            assert made["function"]["name"] in said
            assert json.dumps(made["function"]["arguments"] or "{}") in said


def test_bodies_of_many_clients_are_there() -> None:
    assert len({name.partition("/")[0] for name in BODIES}) >= 12
    assert len(BODIES) > 100


def test_a_server_that_keeps_everything_gets_what_the_client_sent() -> None:
    body = ask(tools=[{"type": "function", "function": {"name": "f"}}], tool_choice="required", top_k=3, n=1)
    result = rewrite(body)
    assert result.body is body
    assert (result.notes, result.expectation, result.stream) == ((), None, False)


def test_stream_tells_what_the_server_is_asked() -> None:
    assert rewrite(ask(), profile({"stream": "always"})).stream
    assert not rewrite(ask(stream=True), profile({"stream": "never"})).stream


def test_each_rewrite_is_there_once() -> None:
    assert len({step.rewrite for step in REWRITES}) == len(REWRITES)


# ----------------------------------------------------------------------- any body


def _extreme(value: str) -> Profile:
    """A profile all of whose facts are *value*, and whose other settings are the least usual ones."""
    facts = PLAIN.model_dump()["request"]
    for name, given_ in facts.items():
        if given_ in get_args(Fact):
            facts[name] = value
    facts["tool_choice"] = dict.fromkeys(facts["tool_choice"], value)
    facts["response_format"] |= {"json_object": value, "json_schema": value, "json_object_needs_word": True}
    facts["response_format"]["schema_binds_reasoning"] = True
    facts |= {"optional_fields": {"store": value, "logprobs": value, "stream_options": value}}
    facts |= {
        "call_ids": "alphanumeric_9",
        "tool_message_name": "required",
        "max_tokens_field": "max_completion_tokens",
    }
    facts |= {"reasoning_history": "reasoning", "stream": "always", "always_send": {"context": []}}
    facts |= {"reasoning_efforts": {"high": "low", "none": None}}
    # Else hardly any body would get beyond these.
    facts |= {"tools": "kept", "images": "kept", "audio": "kept", "remote_images": "kept"}
    return Profile.model_validate(PLAIN.model_dump() | {"request": facts})


_SERVERS: Final = [
    *PROFILES.values(),
    *map(_extreme, get_args(Fact)),
    profile({"optional_fields": {"model": "ignored"}}),
    profile({"always_send": {"stream_options": {"include_usage": True}}}),
    profile({"always_send": {"stream": True}}),
]
_REFUSALS: Final = {
    "invalid_request",
    "unsupported_parameter",
    "image_not_supported",
    "audio_not_supported",
    "file_not_supported",
    "image_url_not_allowed",
}


@given(ANY_BODY, st.sampled_from(_SERVERS))
def test_any_body_is_rewritten_or_refused(body: dict[str, Any], served: Profile) -> None:
    result = _attempt(body, served, MODEL)
    if isinstance(result, ProxyError):
        assert result.kind in _REFUSALS
        return
    for note in result.notes:
        note.encode("ascii")
        assert reason(note, served).done, note
    header = ", ".join(result.notes)
    assert len(header) < 8000
    assert not set(header) & set("\r\n\0")
    if result.expectation is not None:
        result.expectation.unmet(["f"], "{}")
        result.expectation.unmet([], "{}")


def _through_all(body: Body, served: Profile) -> tuple[list[Any], tuple[str, ...], Expectation | None] | ProxyError:
    """What becomes of *body* where it goes through every rewrite, whatever it holds."""
    try:
        context = Context(client(dict(body)), served, MODEL)
        for step in REWRITES:
            body = step.rewrite(body, context)
    except ProxyError as error:
        return error
    return [*body.items()], context.notes, context.expectation


@given(ANY_BODY, st.sampled_from(_SERVERS))
def test_a_rewrite_that_does_not_concern_a_request_had_nothing_to_do(body: dict[str, Any], served: Profile) -> None:
    result = _attempt(body, served, MODEL)
    if isinstance(result, UpstreamRequest):
        assert ([*result.body.items()], result.notes, result.expectation) == _through_all(body, served)
    else:
        assert result == _through_all(body, served)


_ONE_THING: Final = {
    "nothing": ask(),
    "a model": ask(model="alias"),
    "no model": ask(model=None),
    "a stream": ask(stream=True),
    "no stream": ask(stream=False),
    "a stream's options": ask(stream_options={"include_usage": True}),
    "a setting": ask(temperature=0.5),
    "stop sequences": ask(stop=["a"]),
    "a field of no protocol": ask(top_k=3),
    "logprobs": ask(logprobs=True, top_logprobs=2),
    "a null": ask(seed=None),
    "a tool": ask(tools=[{"type": "function", "name": "f", "strict": True}], tool_choice="required"),
    "no tools": ask(tools=[]),
    "a function": ask(functions=[{"name": "f"}], function_call={"name": "f"}),
    "a function's result": ask(user(), {"role": "function", "name": "f", "content": "1"}),
    "a format": ask(response_format={"type": "json_schema", "json_schema": {"name": "a", "schema": {}}}),
    "an effort": ask(reasoning_effort="none"),
    "another effort": ask(reasoning_effort="high"),
    "a limit": ask(max_tokens=1),
    "a limit in today's words": ask(max_completion_tokens=1),
    "roles": ask({"role": "developer", "content": "a"}, user(), user(), {"role": "system", "content": "b"}),
    "texts": ask(user(), {"role": "system", "content": "a"}, user(), user()),
    "a file": ask(user([{"type": "file", "file": {"file_data": "data:text/plain,a"}}])),
    "a turn": ask(
        user([{"type": "text", "text": "a"}]),
        {"role": "assistant", "reasoning": "b", "tool_calls": [call(arguments="")]},
        {"role": "tool", "content": "c", "tool_call_id": "call_1"},
    ),
}


@pytest.mark.parametrize("name", [*_ONE_THING, *BODIES])
def test_nor_had_it_with_one_thing_or_with_what_clients_send(name: str) -> None:
    body = _ONE_THING.get(name) or BODIES[name]
    for served in _SERVERS:
        result = _attempt(body, served, MODEL)
        if isinstance(result, UpstreamRequest):
            through = ([*result.body.items()], result.notes, result.expectation)
            assert through == _through_all(body, served), served.name


def test_what_was_learned_of_a_server_counts_from_the_next_request_on() -> None:
    served = PLAIN.model_copy()
    body = ask({"role": "user", "content": "a"}, {"role": "user", "content": "b"}, seed=1)
    assert rewrite(body, served).notes == ()
    for path, value, note in (
        ("consecutive_roles", "rejected", "role.consecutive=merged"),
        ("optional_fields.seed", "rejected", "drop=seed"),
        ("always_send.store", False, "add=store"),
        ("stream", "always", "stream=always"),
    ):
        learned = apply_learned(served, {f"request.{path}": value})
        assert rewrite(body, learned).notes == (note,)
        assert rewrite(body, served).notes == ()


def test_names_that_clients_choose_do_no_harm_to_a_header() -> None:
    hostile = {"x-a\r\nset-cookie: b": None, "ü, =": None, **{f"field{n}": 1 for n in range(5000)}}
    result = rewrite(ask(**hostile), profile({"unknown_fields": "rejected"}))
    assert len(", ".join(result.notes)) < 8000
    assert result.notes[0].startswith("nulls=x-a??set-cookie:?b")
    assert result.notes[-1] == "more=untold"
    assert set(result.body) == {"model", "messages"}
