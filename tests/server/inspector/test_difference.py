"""What was changed in a request, line by line."""

from __future__ import annotations

from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from svir_proxy.client_request import ClientRequest
from svir_proxy.profiles import load_profile
from svir_proxy.request import rewrite_request
from svir_proxy.server.inspector.difference import MOST_CHARACTERS, MOST_LINES, difference
from svir_proxy.server.inspector.veil import Veil

VEIL: Final = Veil(prompts=True)


def drawn(before: Any, after: Any, veil: Veil = VEIL) -> list[str]:
    """The lines as one reads them."""
    return [f"{mark} {'  ' * depth}{text}" for mark, depth, text in difference(before, after, veil)]


LONG: Final = "x" * 100
CASES: Final[dict[str, tuple[Any, Any, list[str]]]] = {
    "nothing": ({"a": 1}, {"a": 1}, ['  {"a":1}']),
    "a value": ({"a": 1, "b": 2}, {"a": 1, "b": 3}, ["  {", '    "a": 1', '-   "b": 2', '+   "b": 3', "  }"]),
    "a field less": ({"a": 1, "b": [1]}, {"a": 1}, ["  {", '    "a": 1', '-   "b": [1]', "  }"]),
    "a field more": ({}, {"a": {"b": 1}}, ["  {", '+   "a": {"b":1}', "  }"]),
    "another kind": ({"a": "1"}, {"a": ["1"]}, ["  {", '-   "a": "1"', '+   "a": ["1"]', "  }"]),
    "inside of a list": (
        {"a": [1, {"b": 2}, 3]},
        {"a": [1, {"b": 4}, 3]},
        ["  {", '    "a": [', "      1", "      {", '-       "b": 2', '+       "b": 4', "      }", "      3", "    ]", "  }"],
    ),
    "in front": ([2, 3], [1, 2, 3], ["  [", "+   1", "    2", "    3", "  ]"]),
    "one of three": ([1, 2, 3], [1, 3], ["  [", "    1", "-   2", "    3", "  ]"]),
    "what is long stands on lines of its own": (
        {},
        {"a": {"b": LONG, "c": [LONG]}},
        ["  {", '+   "a": {', f'+     "b": "{LONG}"', '+     "c": [', f'+       "{LONG}"', "+     ]", "+   }", "  }"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_changes_are_marked(name: str) -> None:
    before, after, lines = CASES[name]
    assert drawn(before, after) == lines


JSON: Final = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(min_size=1, max_size=3), inner, max_size=4),
    max_leaves=20,
)


@given(JSON, JSON)
def test_there_is_a_mark_where_there_is_a_change(before: Any, after: Any) -> None:
    marks = {mark for mark, _, _ in difference(before, after, VEIL)}
    assert (marks == {" "}) == (before == after)


@given(JSON, JSON)
def test_each_side_can_be_read_alone(before: Any, after: Any) -> None:
    """What is not added is what the client sent, what is not removed is what the server got."""
    lines = difference(before, after, VEIL)
    for value, other in ((before, "+"), (after, "-")):
        kept = "".join(text for mark, _, text in lines if mark != other)
        alone = "".join(text for _, _, text in difference(value, value, VEIL))
        # laid out on more lines or fewer: the same letters all the same
        assert _letters(kept) == _letters(alone)


def _letters(text: str) -> str:
    return "".join(c for c in text if c not in " ,\n").replace('"', "")


def test_a_real_request() -> None:
    messages = [{"role": "developer", "content": "Be brief."}, {"role": "user", "content": "hi"}]
    request = ClientRequest.from_body(
        {"model": "m", "messages": messages, "max_completion_tokens": 5}, id="r", received=1
    )
    sent = rewrite_request(request, load_profile("llama-cpp"), "m")
    assert drawn(request.body, sent.body, Veil(prompts=False)) == [
        "  {",
        '    "model": "m"',
        '    "messages": [',
        "      {",
        '-       "role": "developer"',
        '+       "role": "system"',
        '        "content": "«9 characters»"',
        "      }",
        '      {"role":"user","content":"«2 characters»"}',
        "    ]",
        '-   "max_completion_tokens": 5',
        '+   "max_tokens": 5',
        '+   "stream": true',
        '+   "stream_options": {"include_usage":true}',
        "  }",
    ]


def test_there_is_an_end_to_it() -> None:
    many = [{"content": "x" * 200, "n": i} for i in range(5000)]
    lines = difference({"messages": many}, {"messages": many[1:]}, VEIL)
    assert len(lines) == MOST_LINES + 1
    assert lines[-1].text == "«more»"
    texts = [{"content": "x" * 1900}] * 300
    assert sum(len(line.text) for line in difference(texts, texts[1:], VEIL)) < MOST_CHARACTERS + 10


def test_what_is_too_deep_to_compare_is_told() -> None:
    def deep(end: int) -> Any:
        value: Any = end
        for _ in range(100_000):
            value = [value]
        return value

    [line] = difference(deep(1), deep(2), VEIL)
    assert "too deeply" in line.text
