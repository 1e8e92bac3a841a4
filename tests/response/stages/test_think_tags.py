"""Reasoning between markers, whole and one character at a time."""

from __future__ import annotations

import pytest

from svir_proxy.errors import ProxyError
from svir_proxy.response.events import ContentDelta as Content
from svir_proxy.response.events import Ended, Failed, Finished, LogprobsReported, ToolCallPiece
from svir_proxy.response.events import ReasoningDelta as Reasoning
from svir_proxy.response.events import RefusalDelta as Refusal
from svir_proxy.response.stages.think_tags import ThinkTags
from tests.support.events import in_characters, merged

FAILED = Failed(ProxyError("upstream_failed", "x"))
CALL = ToolCallPiece(0, "a", "look", "{}")
LOGPROBS = LogprobsReported([{"token": "a"}], None)
FINAL = "<|start|>assistant<|channel|>final<|message|>"

MARKED = {
    "no marker": ("a", [Content("a")]),
    "a block between texts": ("a<think>b</think>c", [Content("a"), Reasoning("b"), Content("c")]),
    "line feeds stay": ("<think>\nb\n</think>\n\nc", [Reasoning("\nb\n"), Content("\n\nc")]),
    "two blocks": (
        "<think>a</think>b<think>c</think>d",
        [Reasoning("a"), Content("b"), Reasoning("c"), Content("d")],
    ),
    "an empty block is nothing": ("<think></think>a", [Content("a")]),
    "a block never closed is reasoning": ("<think>a", [Reasoning("a")]),
    "an opener in a block is its text": ("<think>a<think>b</think>c", [Reasoning("a<think>b"), Content("c")]),
    "another block's closer is text": ("<think>a</mm:think>b", [Reasoning("a</mm:think>b")]),
    "a closer alone is text": ("a</think>b", [Content("a</think>b")]),
    "a marker unfinished at the end is text": ("done<thi", [Content("done<thi")]),
    "a closer unfinished at the end is reasoning": ("<think>a</thi", [Reasoning("a</thi")]),
    "brackets and angles of prose": ("x[0] < y <b> [[THI <<think", [Content("x[0] < y <b> [[THI <<think")]),
    "a false start before the true one": ("<th<think>a</think>", [Content("<th"), Reasoning("a")]),
    "MiniMax": ("<mm:think>a</mm:think>b", [Reasoning("a"), Content("b")]),
    "Seed": ("<seed:think>a</seed:think>b", [Reasoning("a"), Content("b")]),
    "Magistral": ("[THINK]a[/THINK]b", [Reasoning("a"), Content("b")]),
    "Harmony": (f"<|channel|>analysis<|message|>a<|end|>{FINAL}b", [Reasoning("a"), Content("b")]),
    "Harmony thinks twice": (
        f"<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>analysis<|message|>b<|end|>{FINAL}c",
        [Reasoning("ab"), Content("c")],
    ),
    "Harmony without reasoning": ("<|channel|>final<|message|>b", [Content("b")]),
}

PREOPENED = {
    "what comes before the closer is reasoning": ("a\n</think>\n\nb", [Reasoning("a\n"), Content("\n\nb")]),
    "no closer at all": ("a", [Reasoning("a")]),
    "the block is the first only": ("a</think>b</think>c", [Reasoning("a"), Content("b</think>c")]),
    "a closer unfinished at the end": ("a</think", [Reasoning("a</think")]),
}

MIXED = {
    "under a key once, markers are text": (
        [Reasoning("a"), Content("<think>b</think>")],
        [Reasoning("a"), Content("<think>b</think>")],
    ),
    "a half marker ahead of other reasoning is text": (
        [Content("<th"), Reasoning("a"), Content("ink>b")],
        [Content("<th"), Reasoning("a"), Content("ink>b")],
    ),
    "a half marker ahead of a refusal": ([Content("<"), Refusal("no")], [Content("<"), Refusal("no")]),
    "a half marker ahead of a call": (
        [Content("<th"), CALL, Content("ink>a")],
        [Content("<th"), CALL, Content("ink>a")],
    ),
    "a half marker ahead of a failure": ([Content("a<th"), FAILED], [Content("a<th"), FAILED]),
    "a half closer ahead of a failure": ([Content("<think>a</"), FAILED], [Reasoning("a</"), FAILED]),
    "an early finish ends no marker": (
        [Content("<th"), Finished("stop"), LOGPROBS, Content("ink>a"), Ended()],
        [Finished("stop"), LOGPROBS, Reasoning("a"), Ended()],
    ),
}


def run(events, *, preopened=False):
    out = []
    stage = ThinkTags(out.append, preopened=preopened)
    for event in events:
        stage.feed(event)
    return merged(out)


@pytest.mark.parametrize(("text", "expected"), MARKED.values(), ids=MARKED)
def test_markers(text, expected):
    events = [Content(text), Ended()]
    assert run(events) == [*expected, Ended()]
    assert run(in_characters(events)) == [*expected, Ended()]


@pytest.mark.parametrize(("text", "expected"), PREOPENED.values(), ids=PREOPENED)
def test_a_block_the_template_opened(text, expected):
    events = [Content(text), Ended()]
    assert run(events, preopened=True) == [*expected, Ended()]
    assert run(in_characters(events), preopened=True) == [*expected, Ended()]


@pytest.mark.parametrize(("events", "expected"), MIXED.values(), ids=MIXED)
def test_other_events_between(events, expected):
    assert run(events) == expected
    assert run(in_characters(events)) == merged(in_characters(expected))


@pytest.mark.parametrize("text", ["a < b", "list[0]", "<b>bold</b>", "<thin>"])
def test_no_more_is_held_than_could_be_a_marker(text):
    out = []
    stage = ThinkTags(out.append)
    for event in in_characters([Content(text + ".")]):
        stage.feed(event)
    assert merged(out) == [Content(text + ".")]
