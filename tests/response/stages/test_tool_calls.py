"""Structured calls as servers cut them, whole and with their arguments in single characters."""

from __future__ import annotations

import pytest

from svir_proxy.errors import ProxyError
from svir_proxy.response.events import ArgumentsDelta as Arguments
from svir_proxy.response.events import (
    ContentDelta,
    Ended,
    Failed,
    FilterVerdict,
    Finished,
    Noted,
    ToolCallPiece,
)
from svir_proxy.response.events import ToolCallStarted as Started
from svir_proxy.response.stages.tool_calls import ToolCalls
from tests.support.events import in_characters, merged

TOOLS = ("look", "lookup", "find", "aa")
FAILED = Failed(ProxyError("upstream_failed", "x"))


def p(index=None, identity="", name="", arguments="", whole=False):
    return ToolCallPiece(index, identity, name, arguments, whole)


def run(events, *, tools=TOOLS, taken=(), limit=1 << 20, forbidden=False):
    out = []
    stage = ToolCalls(out.append, tool_names=tools, taken_ids=taken, seed="S-", limit=limit, forbidden=forbidden)
    for event in events:
        stage.feed(event)
    return merged(out)


def calls_of(events):
    """Each call's id, name and arguments; asserts that one comes after the other."""
    calls = []
    for event in events:
        if isinstance(event, Started):
            assert event.index == len(calls)
            calls.append((event.id, event.name, ""))
        elif isinstance(event, Arguments):
            assert event.index == len(calls) - 1
            identity, name, arguments = calls[-1]
            calls[-1] = (identity, name, arguments + event.text)
    return calls


PIECES = {
    # OpenAI's own form
    "one call": (
        [p(0, "a", "find"), p(0, arguments='{"x"'), p(0, arguments=": 1}")],
        [("a", "find", '{"x": 1}')],
    ),
    "two calls": (
        [p(0, "a", "find", '{"x": 1}'), p(1, "b", "find", '{"x": 2}')],
        [("a", "find", '{"x": 1}'), ("b", "find", '{"x": 2}')],
    ),
    "pieces of two calls interleaved": (
        [
            p(0, "a", "look", '{"x":'),
            p(1, "b", "lookup", '{"y":'),
            p(1, arguments="2}"),
            p(0, name="up", arguments="1}"),
        ],
        [("a", "lookup", '{"x":1}'), ("b", "lookup", '{"y":2}')],
    ),
    "ids first, names later": (
        [p(0, "a"), p(1, "b"), p(0, name="find", arguments="{}"), p(1, name="aa", arguments="{}")],
        [("a", "find", "{}"), ("b", "aa", "{}")],
    ),
    # indices
    "indices from 1 (Bedrock behind LiteLLM)": (
        [p(1, "a", "find", '{"x"'), p(1, arguments=": 1}"), p(2, "b", "aa", "{}")],
        [("a", "find", '{"x": 1}'), ("b", "aa", "{}")],
    ),
    "all with index 0": (
        [p(0, "a", "find", '{"x": 1}'), p(0, "b", "find", '{"x": 2}')],
        [("a", "find", '{"x": 1}'), ("b", "find", '{"x": 2}')],
    ),
    "all with index 0, interleaved by id": (
        [p(0, "a", "find", '{"x"'), p(0, "b", "aa", '{"y"'), p(0, "a", arguments=": 1}"), p(0, "b", arguments=": 2}")],
        [("a", "find", '{"x": 1}'), ("b", "aa", '{"y": 2}')],
    ),
    "all with index 0, without ids": (
        [p(0, "", "find", '{"x": 1}'), p(0, "", "aa", '{"y"'), p(0, arguments=": 2}")],
        [("call_S-0", "find", '{"x": 1}'), ("call_S-1", "aa", '{"y": 2}')],
    ),
    "all with index 0, of one function, cut": (
        [p(0, "", "find", '{"x": 1}'), p(0, "", "find", '{"x"'), p(0, arguments=": 2}")],
        [("call_S-0", "find", '{"x": 1}'), ("call_S-1", "find", '{"x": 2}')],
    ),
    "all with index 0, of one function, named ahead": (
        [p(0, "", "find"), p(0, arguments='{"x": 1}'), p(0, "", "find"), p(0, arguments='{"x": 2}')],
        [("call_S-0", "find", '{"x": 1}'), ("call_S-1", "find", '{"x": 2}')],
    ),
    "no index (Gemini)": (
        [p(None, "a", "find", '{"x": 1}'), p(None, "b", "find", '{"x": 1}')],
        [("a", "find", '{"x": 1}'), ("b", "find", '{"x": 1}')],
    ),
    "no index, interleaved by id": (
        [
            p(None, "a", "find", '{"x"'),
            p(None, "b", "aa", '{"y"'),
            p(None, "a", arguments=": 1}"),
            p(None, "b", arguments=": 2}"),
        ],
        [("a", "find", '{"x": 1}'), ("b", "aa", '{"y": 2}')],
    ),
    "no index, no id": (
        [p(None, "", "find", '{"x"'), p(arguments=": 1}"), p(None, "", "aa", "{}")],
        [("call_S-0", "find", '{"x": 1}'), ("call_S-1", "aa", "{}")],
    ),
    "no index, no id, the same call twice": (
        [p(None, "", "find", '{"x": 1}', whole=True), p(None, "", "find", '{"x": 1}', whole=True)],
        [("call_S-0", "find", '{"x": 1}'), ("call_S-1", "find", '{"x": 1}')],
    ),
    "index on the first piece only": (
        [p(0, "a", "find"), p(arguments='{"x": 1}')],
        [("a", "find", '{"x": 1}')],
    ),
    # ids
    "an empty id later (Qwen)": ([p(0, "a", "find", "{"), p(0, "", "", "}")], [("a", "find", "{}")]),
    "the id comes late": ([p(0, "", "look"), p(0, "a", "up", "{}")], [("a", "lookup", "{}")]),
    "a new id with each piece": (
        [p(0, "a", "find"), p(0, "b", arguments='{"x"'), p(0, "c", arguments=": 1}")],
        [("a", "find", '{"x": 1}')],
    ),
    "a new id with each piece, no index": (
        [p(None, "a", "find"), p(None, "b", arguments='{"x"'), p(None, "c", arguments=": 1}")],
        [("a", "find", '{"x": 1}')],
    ),
    "one id for all calls": (
        [p(0, "a", "find", '{"x": 1}'), p(1, "a", "find", '{"x"'), p(1, "a", arguments=": 2}")],
        [("a", "find", '{"x": 1}'), ("call_S-1", "find", '{"x": 2}')],
    ),
    "one id for all calls, no index": (
        [p(None, "a", "find", '{"x": 1}'), p(None, "a", "aa", '{"y"'), p(None, "a", arguments=": 2}")],
        [("a", "find", '{"x": 1}'), ("call_S-1", "aa", '{"y": 2}')],
    ),
    # names
    "an empty name later (LM Studio)": ([p(0, "a", "find", "{"), p(0, "", "", "}")], [("a", "find", "{}")]),
    "the name on every piece (Anthropic's proxies)": (
        [p(0, "a", "find", '{"x"'), p(0, "a", "find", ": 1}"), p(0, "a", "find")],
        [("a", "find", '{"x": 1}')],
    ),
    "the name once more, then another call": (
        [p(0, "a", "find", '{"x": 1}'), p(0, "a", "find"), p(1, "b", "aa", "{}")],
        [("a", "find", '{"x": 1}'), ("b", "aa", "{}")],
    ),
    "a split name": (
        [p(0, "a", "f"), p(0, name="in"), p(0, name="d", arguments="{}")],
        [("a", "find", "{}")],
    ),
    "a name split where another one ends": (
        [p(0, "a", "look"), p(0, name="up", arguments='{"x": 1}')],
        [("a", "lookup", '{"x": 1}')],
    ),
    "a name of two equal halves": ([p(0, "a", "a"), p(0, name="a", arguments="{}")], [("a", "aa", "{}")]),
    "the name so far, each time": (
        [p(0, "a", "f"), p(0, name="fin"), p(0, name="find", arguments="{}")],
        [("a", "find", "{}")],
    ),
    "a name that another one extends": ([p(0, "a", "look", '{"x": 1}')], [("a", "look", '{"x": 1}')]),
    "a shorter name after a longer one": (
        [p(0, "a", "lookup", "{}"), p(1, "b", "look", "{}")],
        [("a", "lookup", "{}"), ("b", "look", "{}")],
    ),
    "a name that goes on like the call before, at the same place": (
        [p(0, "", "look", '{"x": 1}', whole=True), p(0, "", "lookup", '{"y": 2}')],
        [("call_S-0", "look", '{"x": 1}'), ("call_S-1", "lookup", '{"y": 2}')],
    ),
    "another name where a call has begun, at the same place": (
        [p(0, "", "find"), p(0, "", "aa", '{"y": 2}')],
        [("call_S-0", "find", "{}"), ("call_S-1", "aa", '{"y": 2}')],
    ),
    # arguments
    "none at all": ([p(0, "a", "find")], [("a", "find", "{}")]),
    "white space": ([p(0, "a", "find", " \n")], [("a", "find", " \n{}")]),
    "an object (llama.cpp)": ([p(0, "a", "find", '{"x":1}', whole=True)], [("a", "find", '{"x":1}')]),
    "an object after the name": ([p(0, "a", "look"), p(0, "", "", "[]", whole=True)], [("a", "look", "[]")]),
    "a placeholder ahead of the real ones": (
        [p(0, "a", "find", "{}"), p(0, arguments='{"x"'), p(0, arguments=": 1}")],
        [("a", "find", '{"x": 1}')],
    ),
    "placeholders of two calls ahead of the real ones": (
        [p(0, "a", "find", "{}"), p(1, "b", "aa", "{}"), p(0, arguments='{"x": 1}'), p(1, arguments='{"y": 2}')],
        [("a", "find", '{"x": 1}'), ("b", "aa", '{"y": 2}')],
    ),
    "sent once more at the end (vLLM)": (
        [p(0, "a", "find", '{"x"'), p(0, arguments=": 1}"), p(0, "a", "find", '{"x": 1}')],
        [("a", "find", '{"x": 1}')],
    ),
    "sent once more with the next call (Rapid-MLX)": (
        [
            p(0, "a", "find", '{"x": 1}'),
            p(0, "a", "find", '{"x": 1}'),
            p(1, "b", "aa", "{}"),
            p(0, "a", "find", '{"x": 1}'),
        ],
        [("a", "find", '{"x": 1}'), ("b", "aa", "{}")],
    ),
    "brackets in strings": (
        [p(0, "a", "find", '{"x": "}{\\""}'), p(1, "b", "aa", '{"y": "]"}')],
        [("a", "find", '{"x": "}{\\""}'), ("b", "aa", '{"y": "]"}')],
    ),
    "white space behind them": ([p(0, "a", "find", '{"x": 1}'), p(0, arguments="\n")], [("a", "find", '{"x": 1}\n')]),
    # what is no call
    "a phantom (LM Studio)": ([p(0), p(1, "b", "find", "{}")], [("b", "find", "{}")]),
    "an id and nothing else": ([p(0, "a"), p(1, "b", "find", "{}")], [("b", "find", "{}")]),
}

WHOLE_ONLY = {
    "a placeholder ahead of the real ones",
    "sent once more at the end (vLLM)",
    "sent once more with the next call (Rapid-MLX)",
    "placeholders of two calls ahead of the real ones",
}
"""A repetition or a placeholder is one piece; its characters would be something else."""


@pytest.mark.parametrize("name", PIECES)
def test_pieces(name):
    pieces, expected = PIECES[name]
    assert calls_of(run([*pieces, Finished("tool_calls"), Ended()])) == expected
    if name not in WHOLE_ONLY:
        assert calls_of(run([*in_characters(pieces), Finished("tool_calls"), Ended()])) == expected


def test_a_certain_name_goes_out_at_once_and_arguments_stream():
    assert run([p(0, "a", "find")]) == [Started(0, "a", "find")]
    assert run([p(0, "a", "find"), p(0, arguments='{"x')]) == [Started(0, "a", "find"), Arguments(0, '{"x')]


UNCERTAIN = {
    "another tool extends it": p(0, "a", "look", '{"x"'),
    "it is half of one": p(0, "a", "fi", '{"x"'),
    "it may be half of an unlisted one": p(0, "a", "fly"),
    "there is none": p(0, "a", "", '{"x"'),
}


@pytest.mark.parametrize("piece", UNCERTAIN.values(), ids=UNCERTAIN)
def test_an_uncertain_name_waits(piece):
    assert run([piece]) == []


def test_a_later_call_waits_for_the_earlier_one():
    first, second = p(0, "a", "find", '{"x"'), p(1, "b", "aa", '{"y": 2}')
    assert run([first, second]) == [Started(0, "a", "find"), Arguments(0, '{"x"')]
    assert run([first, second, p(0, arguments=": 1}")]) == [
        Started(0, "a", "find"),
        Arguments(0, '{"x": 1}'),
        Started(1, "b", "aa"),
        Arguments(1, '{"y": 2}'),
    ]


CUT = {
    # how it ended: what becomes of a call without arguments, and of one whose arguments are unfinished
    "stop": ([Finished("stop")], "{}", True),
    "length": ([Finished("MAX_TOKENS")], "", False),
    "a filter": ([Finished("content_filter")], "", False),
    "a verdict": ([Finished("stop"), FilterVerdict()], "", False),
    "length, then stop": ([Finished("length"), Finished("stop")], "", False),
}


@pytest.mark.parametrize(("end", "none", "noted"), CUT.values(), ids=CUT)
def test_arguments_at_the_end_of_an_answer(end, none, noted):
    assert calls_of(run([p(0, "a", "find"), *end, Ended()])) == [("a", "find", none)]
    out = run([p(0, "a", "find", '{"x": '), *end, Ended()])
    assert calls_of(out) == [("a", "find", '{"x": ')]
    assert (Noted("tool_calls.arguments=not_json") in out) is noted


IDS = {
    # the server's id, the history's: the answer's
    "its own": ("a", ["b"], "a"),
    "taken in the history": ("a", ["a"], "call_S-0"),
    "none": ("", [], "call_S-0"),
    "the made-up one is taken too": ("a", ["a", "call_S-0", "call_S-0_"], "call_S-0__"),
}


@pytest.mark.parametrize(("given", "history", "expected"), IDS.values(), ids=IDS)
def test_ids_are_unique_against_the_history(given, history, expected):
    assert calls_of(run([p(0, given, "find", "{}"), Ended()], taken=history)) == [(expected, "find", "{}")]


def test_a_made_up_id_is_not_given_again():
    assert calls_of(run([p(0, "", "find", "{}"), p(1, "call_S-0", "aa", "{}"), Ended()])) == [
        ("call_S-0", "find", "{}"),
        ("call_S-1", "aa", "{}"),
    ]


NOTES = {
    "a listed tool": ([p(0, "a", "find", "{}")], {}, []),
    "an unlisted tool": ([p(0, "a", "fly", "{}"), p(1, "b", "swim", "{}")], {}, ["tool_calls=unlisted"]),
    "no tools at all": ([p(0, "a", "find", "{}")], {"tools": ()}, ["tool_calls=unlisted"]),
    "tool_choice none": ([p(0, "a", "find", "{}")], {"forbidden": True}, ["tool_choice.none=called"]),
    "arguments for a call that is over": (
        [p(0, "a", "find", "[1]"), p(1, "b", "aa", "[1]"), p(0, arguments="[2]"), p(0, arguments=" ")],
        {},
        ["tool_calls.arguments=late"],
    ),
    "arguments of nothing": ([p(0, "a", "", "x"), p(1, "b", "", "y")], {}, ["tool_calls=nameless"]),
}


@pytest.mark.parametrize(("pieces", "options", "notes"), NOTES.values(), ids=NOTES)
def test_what_is_odd_is_noted_once(pieces, options, notes):
    assert [event.note for event in run([*pieces, Ended()], **options) if isinstance(event, Noted)] == notes


def test_an_unlisted_name_is_certain_once_arguments_follow():
    out = run([p(0, "a", "fly"), p(0, name="ing"), p(0, arguments="{")])
    assert out == [Noted("tool_calls=unlisted"), Started(0, "a", "flying"), Arguments(0, "{")]


def test_arguments_of_nothing_are_text():
    out = run([p(0, "a", "", "x"), p(1, "b", "find", "{}"), Ended()])
    assert ContentDelta("x") in out
    assert calls_of(out) == [("b", "find", "{}")]


FAILURES = {
    "what has begun goes out": ([p(0, "a", "find", '{"x"')], [("a", "find", '{"x"')]),
    "so does what waited for it": (
        [p(0, "a", "find", '{"x"'), p(1, "b", "aa", '{"y"')],
        [("a", "find", '{"x"'), ("b", "aa", '{"y"')],
    ),
    "an uncertain name does not": ([p(0, "a", "find", "[1]"), p(1, "b", "look", '{"y"')], [("a", "find", "[1]")]),
}


@pytest.mark.parametrize(("pieces", "expected"), FAILURES.values(), ids=FAILURES)
def test_a_failure(pieces, expected):
    out = run([*pieces, FAILED])
    assert calls_of(out) == expected
    assert out[-1] is FAILED


LIMITED = {
    "arguments without a name": [p(0, "a", "", "x" * 300)],
    "arguments of a later call": [p(0, "a", "find"), p(1, "b", "aa", "x" * 300)],
    "a name": [p(0, "a", "x" * 300)],
    "ids": [p(0, "x" * 300, "find", "[1]")],
    "calls": [p(index, f"{index}", "find", "[1]") for index in range(5)],
}


@pytest.mark.parametrize("pieces", LIMITED.values(), ids=LIMITED)
def test_what_is_held_is_limited(pieces):
    assert not any(isinstance(event, Failed) for event in run(pieces, limit=10_000))
    failed = next(event for event in run(pieces, limit=299) if isinstance(event, Failed))
    assert failed.error.kind == "upstream_bad_response"
    assert "limits.held_text_bytes" in failed.error.message


def test_what_goes_out_is_not_held():
    out = run([p(0, "a", "find", "["), *[p(0, arguments="1," * 100)] * 100, p(0, arguments="1]"), Ended()], limit=1000)
    assert calls_of(out) == [("a", "find", "[" + "1," * 10_000 + "1]")]
