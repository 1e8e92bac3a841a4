"""What is read by its frame is read as without: for frames that repeat, and for what only looks like one."""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from svir_proxy.client_request import ClientRequest
from svir_proxy.errors import ProxyError
from svir_proxy.response.chunk_frame import ChunkFrame
from svir_proxy.response.chunk_reader import ChunkReader
from svir_proxy.response.events import ContentDelta as Content
from svir_proxy.response.events import Identified
from svir_proxy.response.events import ReasoningDelta as Reasoning
from svir_proxy.response.json_text import loads
from svir_proxy.response.upstream_error import ErrorReader

if TYPE_CHECKING:
    from svir_proxy.response.events import StageEvent

REQUEST = ClientRequest.from_body({"model": "m", "messages": [{"role": "user"}]}, id="req-1", received=7)
EXAMPLES = settings().max_examples


def read(
    chunks: list[bytes], *, framed: bool = True, at_once: bool = False
) -> tuple[list[StageEvent], int, list[bool]]:
    """The events of *chunks* without the identity, the pieces they were, and which were read by their frame."""
    events: list[StageEvent] = []
    reader = ChunkReader(REQUEST, lambda: ErrorReader(REQUEST, []), events.append)
    frame = ChunkFrame(reader)
    by_frame = []
    for chunk in chunks:
        by_frame.append(framed and frame.read(b"data: %b\n\n" % chunk))
        if not by_frame[-1]:
            reader.read(loads(chunk))
            if framed:
                frame.learn(chunk)
                if at_once:
                    frame.settle()
    reader.finish()
    return [event for event in events if not isinstance(event, Identified)], reader.pieces, by_frame


def chunk(delta: str, before: str = "", after: str = "") -> bytes:
    """A chunk of this delta, with more in the choice."""
    return f'{{"id": "a", "choices": [{{"index": 0, {before}"delta": {delta}{after}}}], "created": 1}}'.encode()


REPEATED = {
    "content": (['{"content":"a"}', '{"content":"b"}'], [Content("a"), Content("b")]),
    "blanks": (['{ "content": "a" }', '{ "content": "b" }'], [Content("a"), Content("b")]),
    "a role": (['{"role":"assistant","content":"a"}', '{"role":"assistant","content":"b"}'], [Content("a"), Content("b")]),
    "another key": (['{"reasoning":"a"}', '{"content":"b"}'], [Reasoning("a"), Content("b")]),
    "escapes": ([r'{"content":"\"\\"}', r'{"content":"\n\"\u00e9\ud83c\udf0a"}'], [Content('"\\'), Content('\n"é🌊')]),
    "no text": (['{"content":"a"}', '{"content":""}'], [Content("a")]),
}  # fmt: skip


@pytest.mark.parametrize(("deltas", "expected"), REPEATED.values(), ids=REPEATED)
def test_what_repeats_is_read_by_its_frame(deltas, expected):
    assert read([chunk(delta, after=', "finish_reason": null') for delta in deltas]) == (
        expected,
        len(expected),
        [False, True],
    )


A = '{"content":"a"}'
SIMILAR = {
    "another key": [chunk('{"reasoning":"a"}'), chunk(A), chunk('{"reasoning_content":"a"}'), chunk('{"content" : "a"}')],
    "more in the delta": [chunk(A), chunk('{"content":"b","refusal":"no"}')],
    "another value": [chunk(A), chunk('{"content":["b"]}'), chunk('{"content":{"text":"c"}}'), chunk('{"content":null}')],
    "twice the same key": [chunk('{"content":"a","content":"b"}'), chunk('{"content":"a","reasoning":"b"}')],
    "a key again behind it": [chunk('{"content":"a","reasoning":null}'), chunk('{"reasoning":"b","reasoning":null}')],
    "a key nobody reads": [chunk('{"thought":"a"}'), chunk('{"content":"b"}'), chunk('{"thought":"c"}')],
    "half a character": [chunk(A), chunk(r'{"content":"\ud83c"}'), chunk(r'{"content":"\udf0a"}'), chunk(A)],
    "a delta that is not the choice's": [chunk(A, f'"x": {{"delta": {A}}}, '), chunk(A, '"x": {"delta": {"content": "b"}}, ')],
    "the same text beside it": [
        chunk(text, f'"message": {text}, ') for text in (A, '{"content":"b"}', '{"content":"c"}')
    ],
    "a delta in a text": [chunk(r'{"role":"\"delta\":{\"content\":\"","content":"a"}'), chunk(A)],
    "a text that quotes a delta": [chunk(json.dumps({"content": '"delta":{"content":"a"}'})), chunk(A)],
    "a reason": [chunk(A, after=', "finish_reason": "stop"')] * 2,
    "verdicts": [chunk(A, after=', "content_filter_results": {"hate": {"filtered": true}}')] * 2,
    "counts": [chunk(A, after=', "usage": {"prompt_tokens": 1, "completion_tokens": 1}')] * 2,
    "probabilities": [chunk(A, after=', "logprobs": {"content": [{"token": "a", "logprob": -1.0}]}')] * 2,
    "two choices": [b'{"choices":[{"delta":{"content":"a"}},{"delta":{"content":"b"}}]}'] * 2,
    "another index": [b'{"choices":[{"index":1,"delta":{"content":"a"}}]}'] * 2,
    "the head within the tail": [b'{"choices":[{"delta":{"content":"a"}}]}', b'{"choices":[{"delta":{}}]}'],
}  # fmt: skip


@pytest.mark.parametrize("chunks", SIMILAR.values(), ids=SIMILAR)
def test_what_only_looks_like_it_is_read_as_ever(chunks):
    assert read([*chunks, *chunks])[:2] == read([*chunks, *chunks], framed=False)[:2]


def test_a_frame_that_never_comes_again_is_not_learned_for_ever():
    ids = [chunk(A, f'"x": {number}, ') for number in range(20)]
    assert not any(read(ids + ids[-1:])[2])
    assert read([*ids[:7], *ids[6:7], *ids[:8], *ids[7:8]])[2] == [False] * 7 + [True] + [False] * 8 + [True]


SCRAPS = st.sampled_from(
    ['"content":"a"', '"content": "b"', '"reasoning":"c"', '"role":"assistant"', '"delta":{"content":"d"}', '"content":""',
     '"delta":{', '"message":{', "}", "{", "[", "]", ",", ":", '"', "\\", '"e"', '"index":0', '"index":1', "null", '"x":1',
     '"finish_reason":null', '"finish_reason":"stop"', '"choices":[{', '"\\ud83c"', '"content":"\\udf0a"', '"refusal":"f"']
)  # fmt: skip


@settings(max_examples=20 * EXAMPLES)
@given(st.lists(SCRAPS, max_size=3), st.lists(SCRAPS, max_size=3), st.lists(st.lists(SCRAPS, max_size=5), max_size=4))
def test_any_chunks_are_read_as_without_frames(before, after, deltas):
    chunks = []
    for delta in ([], ['"content":"a"'], *deltas, ['"content":"z"']):
        text = f'{{{"".join(before)}"choices":[{{"index":0,"delta":{{{"".join(delta)}}}}}]{"".join(after)}}}'.encode()
        with contextlib.suppress(ValueError, ProxyError):  # no JSON, or no chunk
            read([text], framed=False)
            chunks.append(text)
    assert read(chunks)[:2] == read(chunks, framed=False)[:2]
    assert read(chunks) == read(chunks, at_once=True)
