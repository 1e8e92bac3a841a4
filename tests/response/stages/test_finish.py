"""Why an answer ended, decided when it has ended."""

from __future__ import annotations

import pytest

from svir_proxy.errors import ProxyError
from svir_proxy.response.events import ContentDelta, Ended, Failed, FilterVerdict, Finished, Noted, ToolCallStarted
from svir_proxy.response.events import UsageReported as Usage
from svir_proxy.response.stages.finish import Finish, canonical_reason

CALL = ToolCallStarted(0, "a", "look")
OTHER = ToolCallStarted(1, "b", "find")
TEXT = ContentDelta("a")
VERDICT = FilterVerdict()
STOP, LENGTH, CALLS, FILTER = map(Finished, ("stop", "length", "tool_calls", "content_filter"))

WORDS = {
    "stop": "stop STOP eos end_turn stop_sequence parse_error unknown FinishReason.STOP",
    "length": "length LENGTH max_tokens MAX_TOKENS max_output_tokens model_length model_context_window_exceeded",
    "tool_calls": "tool_calls function_call tool_use TOOL_CALLS",
    "content_filter": "content_filter sensitive safety SAFETY prohibited_content recitation blocklist SPII",
}

DECIDED = {
    # what came: what is said at the end
    "no reason": ([TEXT], "stop"),
    "no reason, with calls": ([CALL], "tool_calls"),
    "stop": ([TEXT, STOP], "stop"),
    "stop, with calls (KoboldCpp)": ([CALL, STOP], "tool_calls"),
    "tool_calls without calls (LM Studio)": ([TEXT, CALLS], "stop"),
    "an early finish, then calls": ([STOP, CALL], "tool_calls"),
    "a word nobody knows": ([TEXT, Finished("eos")], "stop"),
    "length cuts calls off": ([CALL, LENGTH], "length"),
    "a filter cuts calls off": ([CALL, FILTER], "content_filter"),
    "the finish repeated": ([TEXT, STOP, STOP], "stop"),
    "a weaker word after a stronger one": ([TEXT, LENGTH, STOP], "length"),
    "a stronger word after a weaker one": ([TEXT, STOP, LENGTH], "length"),
    "a verdict after the finish (Azure)": ([TEXT, STOP, VERDICT], "content_filter"),
    "a verdict before everything": ([VERDICT, TEXT, STOP], "content_filter"),
    "a verdict beats length": ([TEXT, VERDICT, LENGTH], "content_filter"),
}

NAMED = {
    "a call of the named function": ([CALL, CALLS], "stop"),
    "the server's word for it": ([CALL, STOP], "stop"),
    "two calls of it": ([CALL, ToolCallStarted(1, "b", "look"), CALLS], "stop"),
    "one call is another function's": ([CALL, OTHER, CALLS], "tool_calls"),
    "cut off": ([CALL, LENGTH], "length"),
    "no call": ([TEXT, STOP], "stop"),
}


DEMANDED = {
    # demand, what came: whether it is told that there is no such call
    "a call": ("required", [CALL, CALLS], False),
    "any call will do": ("required", [OTHER, CALLS], False),
    "text": ("required", [TEXT, STOP], True),
    "the server's word for a call, but none (vLLM)": ("required", [TEXT, CALLS], True),
    "nothing": ("required", [STOP], True),
    "text, cut off": ("required", [TEXT, LENGTH], True),
    "a call, cut off": ("required", [CALL, LENGTH], False),
    "the named function": ("named", [CALL, STOP], False),
    "text in place of the named function": ("named", [TEXT, STOP], True),
    "another function": ("named", [OTHER, CALLS], True),
    "another function too": ("named", [CALL, OTHER, CALLS], True),
    "no demand": (None, [TEXT, STOP], False),
}


def run(events, named_tool=None, demand=None):
    out = []
    stage = Finish(out.append, named_tool=named_tool, demand=demand)
    for event in events:
        stage.feed(event)
    return stage, out


@pytest.mark.parametrize(("canonical", "words"), WORDS.items())
def test_vocabularies(canonical, words):
    assert {word: canonical_reason(word) for word in words.split()} == dict.fromkeys(words.split(), canonical)


@pytest.mark.parametrize(("events", "reason"), DECIDED.values(), ids=DECIDED)
def test_decision(events, reason):
    _, out = run([*events, Ended()])
    assert out[-2:] == [Finished(reason), Ended()]
    assert sum(isinstance(event, Finished) for event in out) == 1


@pytest.mark.parametrize(("events", "reason"), NAMED.values(), ids=NAMED)
def test_decision_where_the_request_names_a_function(events, reason):
    _, out = run([*events, Ended()], named_tool="look")
    assert out[-2:] == [Finished(reason), Ended()]


@pytest.mark.parametrize(("demand", "events", "is_told"), DEMANDED.values(), ids=DEMANDED)
def test_a_demanded_call_that_is_not_there_is_told_before_the_finish(demand, events, is_told):
    _, out = run([*events, Ended()], named_tool="look" if demand == "named" else None, demand=demand)
    told = [Noted(f"tool_choice.{demand}=unmet")] if is_told else []
    assert [event for event in out if isinstance(event, Noted)] == told
    assert [type(event) for event in out[-2:]] == [Finished, Ended]


def test_the_last_usage_follows_the_finish():
    _, out = run([Usage({"total_tokens": 1}), TEXT, STOP, Usage({"total_tokens": 2}), Ended()])
    assert out == [TEXT, STOP, Usage({"total_tokens": 2}), Ended()]


def test_a_failure_has_no_finish():
    failed = Failed(ProxyError("upstream_failed", "x"))
    stage, out = run([TEXT, STOP, Usage({"total_tokens": 1}), failed])
    assert out == [TEXT, failed]
    assert stage.seen


@pytest.mark.parametrize(("events", "seen"), [([TEXT, VERDICT], False), ([Finished("eos")], True)])
def test_whether_the_server_gave_a_reason(events, seen):
    assert run(events)[0].seen is seen
