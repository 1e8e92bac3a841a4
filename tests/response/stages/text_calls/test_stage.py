from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from svir_proxy.errors import ProxyError
from svir_proxy.response.events import (
    ContentDelta,
    Ended,
    Failed,
    Finished,
    Noted,
    ReasoningDelta,
    RefusalDelta,
    ToolCallPiece,
    UsageReported,
)
from svir_proxy.response.stages.text_calls import TextCalls
from svir_proxy.response.stages.text_calls.formats import CLOSERS, MARKERS, OPENINGS
from tests.support.text_calls import TOOLS, answer_of, events_of, read

CALL = '<tool_call>\n{"name": "get_tide", "arguments": {"harbour": "Mole"}}\n</tool_call>'
TIDE = ("get_tide", {"harbour": "Mole"})
PIECE = ToolCallPiece(None, "", "get_tide", '{"harbour": "Mole"}', whole=True)
NOTE = Noted("tool_calls=written_as_text")

ANSWERS = {
    "plain": ("Hello.", "Hello.", []),
    "nothing": ("", "", []),
    "white space": (" \n", " \n", []),
    "call": (CALL, "", [TIDE]),
    "white space before stays": (f"\n\n{CALL}", "\n\n", [TIDE]),
    "white space behind the last goes": (f"{CALL}\n\n", "", [TIDE]),
    "white space between goes": (f"{CALL}\n{CALL}\n\n{CALL}\n", "", [TIDE, TIDE, TIDE]),
    "text before": (f"I look.\n\n{CALL}", "I look.\n\n", [TIDE]),
    "text close before": (f"I look.{CALL}", "I look.", [TIDE]),
    "text behind": (f"Look.\n{CALL}\nDone.", "Look.\n\nDone.", [TIDE]),
    "text between": (f"a{CALL} b {CALL}c", "a b c", [TIDE, TIDE]),
    "think tag before": (f"So.\n</think>\n\n{CALL}", "So.\n</think>\n\n", [TIDE]),
    "marker behind, no call": (f"{CALL}\n<tool_call>x", "\n<tool_call>x", [TIDE]),
    "second unfinished": (f'{CALL}\n<tool_call>\n{{"name": "get', '\n<tool_call>\n{"name": "get', [TIDE]),
    "marker in front of a call": (f"Use <tool_call> like so: {CALL}", "Use <tool_call> like so: ", [TIDE]),
    "marker right in front of a call": (f"<tool_call>{CALL}", "<tool_call>", [TIDE]),
    "call in the arguments of an unlisted one": (
        '<tool_call>{"name": "x", "arguments": {"a": "' + CALL.replace('"', '\\"') + '"}}</tool_call>',
        None,
        [],
    ),
    "two formats": (f'{CALL}[TOOL_CALLS]get_tide{{"days": 1}}', "", [TIDE, ("get_tide", {"days": 1})]),
    "a longer marker that begins with a shorter one": (
        "<tool_call>```tool_code\nget_tide(days=1)\n```",
        "<tool_call>",
        [("get_tide", {"days": 1})],
    ),
    "bare behind white space": ('\n{"name": "get_tide", "arguments": {}}', "\n", [("get_tide", {})]),
    "in backticks": (f"Write `{CALL}`.", None, []),
    "inside backticks": ("Write `x = [TOOL_CALLS]get_tide{}` so.", None, []),
    "behind backticks": ("Run `ls` now: [TOOL_CALLS]get_tide{}", "Run `ls` now: ", [("get_tide", {})]),
    "backtick of the line before": ("It`s fine.\n[TOOL_CALLS]get_tide{}", "It`s fine.\n", [("get_tide", {})]),
    "in a code block": (f"So:\n```xml\n{CALL}\n```\n", None, []),
    "behind a code block": (f"So:\n```sh\nls\n```\n{CALL}", "So:\n```sh\nls\n```\n", [TIDE]),
    "in a code block that begins the answer": (f"```\n{CALL}\n```\n", None, []),
    "unlisted": ('<tool_call>{"name": "get_weather", "arguments": {}}</tool_call>', None, []),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_answer(name):
    text, content, calls = ANSWERS[name]
    assert read(text) == (text if content is None else content, calls)


def test_prose_flows():
    """What cannot begin a call goes out with its delta."""
    deltas = [
        "Hello, ",
        "a < b",
        " and [1",
        '] {"name": 1} ',
        "`x` ",
        "<tools> ",
        "<|x|>",
        "x\n",
        "[TOOLS]",
        "2 <",
        " 3",
    ]
    held = ["", "", "", "", "", "", "", "", "", "<", ""]
    events = []
    stage = TextCalls(events.append, TOOLS)
    for number, kept in enumerate(held, 1):
        stage.feed(ContentDelta(deltas[number - 1]))
        assert answer_of(events)[0] + kept == "".join(deltas[:number])


@pytest.mark.parametrize(
    ("begun", "held"),
    [
        ("a <", "<"),
        ("a <tool_cal", "<tool_cal"),
        ("<b", ""),
        ("{", "{"),
        ('{"n', '{"n'),
        ('{"title', '"title'),
        ('{"name": "B', '"B'),
        ("[", "["),
        ("[x", ""),
        ("f", "f"),
        ("fu ", ""),
        ("a f", ""),
        ("a {", ""),
        ('<tool_call>{"name": "get_', '<tool_call>{"name": "get_'),
        ("<tool_call>x", ""),
    ],
)
def test_no_more_is_held_than_may_be_a_call(begun, held):
    events = []
    stage = TextCalls(events.append, TOOLS)
    stage.feed(ContentDelta(begun))
    said = answer_of(events)[0]
    assert begun.startswith(said)
    assert len(said) >= len(begun) - len(held)


def test_other_events_pass_at_once():
    others = [
        ReasoningDelta(CALL),
        RefusalDelta(CALL),
        UsageReported({"prompt_tokens": 1}),
        Finished("stop"),
        ToolCallPiece(0, "1", "other", "{}"),
    ]
    events = []
    stage = TextCalls(events.append, TOOLS)
    stage.feed(ContentDelta("<tool_call>"))
    for event in others:
        stage.feed(event)
    assert events == others
    stage.feed(Ended())
    assert events == [*others, ContentDelta("<tool_call>"), Ended()]


@pytest.mark.parametrize("end", [Ended(), Failed(ProxyError("stream_truncated", "cut"))])
def test_the_end_lets_go(end):
    events = []
    stage = TextCalls(events.append, TOOLS)
    for event in (ContentDelta(f"{CALL}\nAnd <tool_"), end):
        stage.feed(event)
    assert events == [ContentDelta("\nAnd "), ContentDelta("<tool_"), NOTE, PIECE, end]


@pytest.mark.parametrize("first", ["text", "structured"])
def test_a_call_that_is_also_structured_comes_once(first):
    structured = [
        ToolCallPiece(0, "call_1", "get_tide", ""),
        ToolCallPiece(0, "", "", '{"harbour":'),
        ToolCallPiece(0, "", "", '"Mole"}'),
    ]
    text = [ContentDelta(CALL)]
    events = []
    stage = TextCalls(events.append, TOOLS)
    for event in [*(text + structured if first == "text" else structured + text), Ended()]:
        stage.feed(event)
    assert events == [*structured, Ended()]


def test_a_call_beside_another_structured_one_stays():
    other = ToolCallPiece(0, "call_1", "get_tide", '{"harbour": "Yard"}')
    events = []
    stage = TextCalls(events.append, TOOLS)
    for event in (other, ContentDelta(CALL), Ended()):
        stage.feed(event)
    assert events == [other, NOTE, PIECE, Ended()]


LONG = '<tool_call>{"name": "write", "arguments": {"text": "' + "x" * 200


@pytest.mark.parametrize(
    "text",
    [
        LONG + f'"}}}}</tool_call>{CALL}',
        LONG + " [TOOL_CALLS]get_tide{}",
        LONG + f"\x00{CALL}",
        "<tool_call>" + " " * 200 + f"x{CALL}",
        '{"id": "' + "x" * 200 + f'"}}{CALL}',
    ],
)
def test_beyond_the_limit_all_is_text(text):
    assert read(text, limit=150) == (text, [])


def test_a_call_within_the_limit_is_one():
    assert read(f"{CALL} {CALL}", limit=len(CALL)) == ("", [TIDE, TIDE])
    assert read(CALL, limit=len(CALL) - 1) == (CALL, [])


def test_white_space_behind_a_call_is_bounded_too():
    assert read(CALL + " " * 200 + CALL, limit=150) == (" " * 200 + CALL, [TIDE])


def test_calls_that_wait_are_bounded():
    events = events_of([CALL] * 5, limit=2 * len(CALL))
    assert answer_of(events) == ("", [TIDE] * 5)
    handed_on = []
    stage = TextCalls(handed_on.append, TOOLS, 2 * len(CALL))
    for _ in range(3):
        stage.feed(ContentDelta(CALL))
    assert answer_of(handed_on)[1] == [TIDE] * 3


@pytest.mark.parametrize("marker", ["<tool_call>", "[TOOL_CALLS][", '<tool_call>{"name": "get_tide", "arguments":'])
def test_behind_more_markers_than_any_answer_has_calls_all_is_text(marker):
    text = marker * 1200 + CALL
    assert read(text) == (text, [])
    few = marker * 500
    assert read(few + CALL) == (few, [TIDE])


@pytest.mark.parametrize("text", ["`" * 999, "<tool_call>x" * 99, f"```{CALL}```"])
def test_what_one_piece_lets_go_is_one_piece(text):
    """A chunk for each marker would be a hundred times what the server sent."""
    events = []
    stage = TextCalls(events.append, TOOLS)
    stage.feed(ContentDelta(f"{text}."))
    assert events == [ContentDelta(f"{text}.")]


def test_what_was_read_is_not_read_again():
    """However long a call grows, only what the last piece left open is looked at with the next: time stays linear."""
    text = (
        '<tool_call>{"name": "write", "arguments": {"text": "' + "</tool_call> [TOOL_CALLS]" * 800 + '"}}</tool_call>'
    )
    events = []
    stage = TextCalls(events.append, TOOLS)
    for character in text:
        stage.feed(ContentDelta(character))
        assert len(stage._reader.text) < 32
    stage.feed(Ended())
    assert len(answer_of(events)[1]) == 1


FRAGMENTS = [
    *OPENINGS,
    *CLOSERS,
    CALL,
    *('{"name": "', "get_tide", "get_tide_table", '", "arguments": ', '{"harbour": "Mole"}', "}", "]", '"', ",", ";"),
    *("<function=", ">", "\n", " ", "<parameter=harbour>", "</parameter>", "</function>", "<parameter=", "Mole"),
    *("<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>", 'invoke name="', 'parameter name="', "/>", "invoke>"),
    *("[ARGS]", "(", ")", "=", "'", "call:", '<|"|>', "<tool_call|>", "functions.", "<|message|>", "commentary", "to="),
    *("<|tool_call_argument_begin|>", "<|tool_call_end|>", "json", "```", "`", "print(", "\\", "\\u", "1", "x", "é"),
]  # fmt: skip
WHOLE = [
    CALL,
    '[TOOL_CALLS]get_tide[ARGS]{"days": 1}',
    "<function=write>\n<parameter=text>\na</parameter>b\n</parameter>\n</function>\n</tool_call>",
    "[get_tide(days=1)]",
    '{"name": "get_tide", "arguments": {"a": [1, {"b": "\\n"}]}}',
    '<|tool_call>call:get_tide{days:1,harbour:<|"|>M<|"|>}<tool_call|>',
    '<invoke name="get_tide"><parameter name="days">2</parameter></invoke>',
    "```tool_code\nget_tide(days=1)\n```",
]
TEXT = st.lists(st.sampled_from([*FRAGMENTS, *WHOLE, *MARKERS]) | st.text(max_size=3), max_size=14).map("".join)


@st.composite
def cut_texts(draw):
    text = draw(TEXT)
    cuts = sorted(draw(st.lists(st.integers(0, len(text)), max_size=12)))
    return text, [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]


@given(cut_texts(), st.sampled_from([20, 60, 1 << 20]))
def test_any_text_is_read_the_same_however_it_is_cut(cut, limit):
    text, pieces = cut
    whole = answer_of(events_of([text], limit=limit))
    assert answer_of(events_of(pieces, limit=limit)) == whole
    assert answer_of(events_of(text, limit=limit)) == whole
    content, calls = whole
    assert content == text if not calls else len(content) < len(text)


@given(
    st.text(st.characters(exclude_characters="<[`{f"), max_size=40), st.text(st.characters(exclude_characters="<[`"))
)
def test_text_without_markers_is_never_held(first, text):
    events = []
    stage = TextCalls(events.append, TOOLS)
    for piece in filter(None, ("x", first, text)):
        stage.feed(ContentDelta(piece))
    assert answer_of(events) == (f"x{first}{text}", [])
