"""Without `inspector.show_prompts` nothing that a person or a model wrote is shown; what is shown has a size."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from svir_proxy.response.json_text import dumps
from svir_proxy.server.inspector.veil import LONGEST, Veil, counted

HIDDEN: Final = Veil(prompts=False)
SHOWN: Final = Veil(prompts=True)

CASES: Final[dict[str, tuple[Any, Any]]] = {
    "a message": (
        {"role": "user", "content": "my secret"},
        {"role": "user", "content": "«9 characters»"},
    ),
    "parts": (
        {"content": [{"type": "text", "text": "hello"}, {"type": "image_url", "image_url": {"url": "data:x"}}]},
        {
            "content": [
                {"type": "text", "text": "«5 characters»"},
                {"type": "image_url", "image_url": {"url": "«6 characters»"}},
            ]
        },
    ),
    "a call": (
        {"tool_calls": [{"id": "call_1", "type": "function", "function": {"name": "open", "arguments": '{"a":1}'}}]},
        {"tool_calls": [{"id": "call_1", "type": "function", "function": {"name": "open", "arguments": "«7 characters»"}}]},
    ),
    "arguments that are no text": (
        {"function": {"name": "open", "arguments": {"city": "Oslo", "days": 3}}},
        {"function": {"name": "open", "arguments": {"city": "«4 characters»", "days": "«number»"}}},
    ),
    "a tool": (
        {"tools": [{"type": "function", "function": {"name": "f", "description": "does", "parameters": {"type": "object"}}}]},
        {"tools": [{"type": "function", "function": {"name": "f", "description": "«4 characters»", "parameters": {"type": "object"}}}]},
    ),
    "a person's name": ({"role": "user", "name": "Ada"}, {"role": "user", "name": "«3 characters»"}),
    "a word that is a sentence": ({"role": "tell nobody"}, {"role": "«11 characters»"}),
    "sizes and times": (
        {"usage": {"prompt_tokens": 7}, "timings": {"predicted_ms": 1.5, "predicted_per_second": 9.0}, "index": 0},
        {"usage": {"prompt_tokens": 7}, "timings": {"predicted_ms": 1.5, "predicted_per_second": 9.0}, "index": 0},
    ),
    "token ids spell a text": (
        {"prompt_token_ids": [9906, 1917], "bytes": [72, 105], "token_id": 5, "prompt_tokens": [1, 2]},
        {"prompt_token_ids": "«2 numbers»", "bytes": "«2 numbers»", "token_id": "«number»", "prompt_tokens": "«2 numbers»"},
    ),
    "a list of one number": ({"created": [7], "bytes": [72]}, {"created": ["«number»"], "bytes": ["«number»"]}),
    "logprobs": (
        {"logprobs": {"content": [{"token": "Hi", "logprob": -0.1, "bytes": [72, 105]}]}},
        {"logprobs": {"content": [{"token": "«2 characters»", "logprob": "«number»", "bytes": "«2 numbers»"}]}},
    ),
    "what nobody knows yet": (
        {"thoughts": "deep", "x": {"y": "z"}, "flag": True, "none": None},
        {"thoughts": "«4 characters»", "x": {"y": "«1 character»"}, "flag": True, "none": None},
    ),
    "a field whose name is a sentence": ({"what I did": 1}, {"«10 characters»": "«number»"}),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_structure_and_sizes_are_shown(name: str) -> None:
    value, shown = CASES[name]
    assert HIDDEN.value(value) == shown
    assert SHOWN.value(value) == value


@given(st.text(alphabet=st.characters(min_codepoint=0x4E00, max_codepoint=0x9FFF), min_size=1), st.data())
def test_no_text_of_anybody_comes_through(text: str, data: st.DataObject) -> None:
    keys = st.sampled_from(["role", "content", "id", "name", "function", "model", "x", text])
    values = st.recursive(st.just(text), lambda inner: st.lists(inner) | st.dictionaries(keys, inner), max_leaves=20)
    value = data.draw(values)
    assert not set(text) & set(json.dumps(HIDDEN.value(value), ensure_ascii=False))


LARGE: Final[dict[str, Any]] = {
    "a long text": {"content": "x" * 1_000_000},
    "many values": [{"content": "x" * 100}] * 100_000,
    "many fields": {f"f{i}": i for i in range(100_000)},
    "many numbers in lists": [[i, "a"] for i in range(100_000)],
}


@pytest.mark.parametrize("veil", [HIDDEN, SHOWN], ids=["hidden", "shown"])
@pytest.mark.parametrize("name", LARGE)
def test_what_is_large_is_cut(name: str, veil: Veil) -> None:
    assert len(dumps(veil.value(LARGE[name]))) < 300_000


@pytest.mark.parametrize("veil", [HIDDEN, SHOWN], ids=["hidden", "shown"])
def test_what_is_deep_is_cut(veil: Veil) -> None:
    deep: Any = "end"
    for _ in range(900):
        deep = [deep]
    assert "more" in json.dumps(veil.value(deep), ensure_ascii=False)


def test_a_text_that_is_cut_says_so() -> None:
    assert SHOWN.text("x" * (LONGEST + 5)) == "x" * LONGEST + "… (5 more characters)"


def test_the_stand_in_for_a_picture_is_no_text() -> None:
    assert SHOWN.text("data:image/png;base64,svir-blob-0123456789abcdef-12;") == "data:image/png;base64,…"


def test_numbers_are_counted_in_words() -> None:
    assert [counted(n, "byte") for n in (0, 1, 1200)] == ["0 bytes", "1 byte", "1,200 bytes"]
