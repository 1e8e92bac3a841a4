"""What rules leave of an answer."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from svir_proxy.errors import ProxyError
from svir_proxy.patterns import Pattern
from svir_proxy.response.answer_rules import AnswerRule, ruled, ruled_error
from svir_proxy.response.events import (
    ArgumentsDelta,
    ContentDelta,
    Ended,
    Event,
    ExtrasReported,
    Finished,
    Identified,
    LogprobsReported,
    Noted,
    ReasoningDelta,
    RefusalDelta,
    ToolCallStarted,
    UsageReported,
)

IDENTITY: Final = Identified("id", 1, "m")
USAGE: Final = UsageReported({"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3})
CALL: Final = ToolCallStarted(0, "c", "f")
OFFERED: Final = ("f", "secret")
END: Final[list[Event]] = [Finished("stop"), USAGE, Ended()]
BLOCKED: Final[list[Event]] = [Noted("rules.r=blocked"), IDENTITY, Finished("content_filter"), USAGE, Ended()]
REDACTED: Final = Noted("rules.r=redacted")


def block(pattern: str = "secret", name: str = "r") -> AnswerRule:
    return AnswerRule(name, Pattern(pattern))


def redact(pattern: str = "secret", replacement: str = "###", name: str = "r") -> AnswerRule:
    return AnswerRule(name, Pattern(pattern), replacement)


def left(said: list[Event], *rules: AnswerRule, json_content: bool = False) -> list[Event]:
    return ruled([IDENTITY, *said, *END], rules, json_content=json_content, offered=OFFERED)


def tokens(*texts: str) -> LogprobsReported:
    return LogprobsReported(
        [{"token": text, "logprob": -1.0, "bytes": None, "top_logprobs": []} for text in texts], None
    )


SAID: Final[dict[str, tuple[list[Event], list[Event]]]] = {
    # where it is said: what was said, and what is left of it
    "content": ([ContentDelta("a secret!")], [ContentDelta("a ###!")]),
    "content in pieces": (
        [ContentDelta("a se"), ContentDelta("cr"), ContentDelta("et!")],
        [ContentDelta("a ###!")],
    ),
    "content around other things": (
        [ContentDelta("a se"), ReasoningDelta("hm"), ContentDelta("cret!")],
        [ContentDelta("a ###!"), ReasoningDelta("hm")],
    ),
    "reasoning": (
        [ReasoningDelta("sec"), ReasoningDelta("ret"), ContentDelta("ok")],
        [ReasoningDelta("###"), ContentDelta("ok")],
    ),
    "refusal": ([RefusalDelta("no secret")], [RefusalDelta("no ###")]),
    "an argument": (
        [CALL, ArgumentsDelta(0, '{"a": "x sec'), ArgumentsDelta(0, 'ret y", "b": [1, true, null]}')],
        [CALL, ArgumentsDelta(0, '{"a":"x ### y","b":[1,true,null]}')],
    ),
    "an escaped argument": (
        [CALL, ArgumentsDelta(0, r'{"a": "\u0073ecret"}')],
        [CALL, ArgumentsDelta(0, '{"a":"###"}')],
    ),
    "a key": ([CALL, ArgumentsDelta(0, '{"secret": 1}')], [CALL, ArgumentsDelta(0, '{"###":1}')]),
    "arguments of the second call": (
        [CALL, ArgumentsDelta(0, "{}"), ToolCallStarted(1, "d", "f"), ArgumentsDelta(1, '{"a": "secret"}')],
        [CALL, ArgumentsDelta(0, "{}"), ToolCallStarted(1, "d", "f"), ArgumentsDelta(1, '{"a":"###"}')],
    ),
    "arguments that were cut": (
        [CALL, ArgumentsDelta(0, '{"a": "the secret is')],
        [CALL, ArgumentsDelta(0, '{"a": "the ### is')],
    ),
    "with its probabilities": ([tokens("sec", "ret"), ContentDelta("secret")], [ContentDelta("###")]),
    "with extras": ([ExtrasReported({"timings": 1}), ContentDelta("secret")], [ContentDelta("###")]),
    "in the probabilities alone": ([tokens("sec", "ret"), ContentDelta("ok")], [ContentDelta("ok")]),
    "in extras alone": ([ExtrasReported({"a": [{"b": "secret"}]}), ContentDelta("ok")], [ContentDelta("ok")]),
}


@pytest.mark.parametrize(("said", "remains"), SAID.values(), ids=SAID)
def test_a_match_is_replaced_wherever_it_is_said(said: list[Event], remains: list[Event]) -> None:
    assert left(said, redact()) == [REDACTED, IDENTITY, *remains, *END]


@pytest.mark.parametrize("said", [said for name, (said, _) in SAID.items() if "alone" not in name])
def test_a_match_blocks_wherever_it_is_said(said: list[Event]) -> None:
    assert left(said, block()) == BLOCKED


@pytest.mark.parametrize(
    "said",
    [
        [ContentDelta("nothing "), tokens("nothing "), ContentDelta("of it")],
        [ExtrasReported({"timings": 1}), ReasoningDelta("hm"), CALL, ArgumentsDelta(0, '{"a"  : 1}')],
        [ToolCallStarted(0, "c", "secret"), ArgumentsDelta(0, "{}")],
        [],
    ],
    ids=["content", "others", "the name of a function", "nothing"],
)
@pytest.mark.parametrize("rule", [block(), redact()], ids=["block", "redact"])
def test_what_no_rule_finds_is_as_it_was(said: list[Event], rule: AnswerRule) -> None:
    assert left(said, rule) == [IDENTITY, *said, *END]


FAIL_CLOSED: Final[dict[str, tuple[list[Event], list[AnswerRule], str]]] = {
    # what was said, by which rules, which of them blocks
    "what comes about by replacing, without end": (
        [ContentDelta("s" * 9 + "secret" + "ecret" * 9)],
        [redact(replacement="")],
        "r",
    ),
    "what a redaction leaves is blocked": ([ContentDelta("po-x-ison")], [redact("-x-", ""), block("poison", "b")], "b"),
    "another rule finds a replacement": ([ContentDelta("secret")], [block("#", "b"), redact()], "b"),
    "it spans strings": ([CALL, ArgumentsDelta(0, '{"pass": "word"}')], [redact('pass": "word')], "r"),
    "a word of JSON itself": ([CALL, ArgumentsDelta(0, '{"a": true}')], [redact("true")], "r"),
    "an escape in arguments that were cut": ([CALL, ArgumentsDelta(0, r'{"a": "\u0073ecret')], [redact()], "r"),
    "nested too deeply": ([CALL, ArgumentsDelta(0, "[" * 900 + '"secret"' + "]" * 900)], [redact()], "r"),
}


@pytest.mark.parametrize(("said", "rules", "name"), FAIL_CLOSED.values(), ids=FAIL_CLOSED)
def test_what_cannot_be_replaced_is_blocked(said: list[Event], rules: list[AnswerRule], name: str) -> None:
    assert left(said, *rules) == [Noted(f"rules.{name}=blocked"), *BLOCKED[1:]]


def test_what_comes_about_by_replacing_is_replaced_in_its_turn() -> None:
    assert left([ContentDelta("sesecretcret!")], redact(replacement="")) == [
        REDACTED,
        IDENTITY,
        ContentDelta("!"),
        *END,
    ]


def test_text_of_which_nothing_is_left_is_no_event() -> None:
    assert left([ContentDelta("secret")], redact(replacement="")) == [REDACTED, IDENTITY, *END]


def test_rules_are_noted_in_their_order_and_the_first_that_blocks_is_named() -> None:
    said: list[Event] = [ContentDelta("one two three")]
    rules = redact("two", "2", name="b"), redact("one", "1", name="a"), redact("four", "4", name="c")
    assert left(said, *rules) == [
        Noted("rules.b=redacted"), Noted("rules.a=redacted"), IDENTITY, ContentDelta("1 2 three"), *END,
    ]  # fmt: skip
    assert left(said, *rules, block("three", "x"), block("one", "y"))[0] == Noted("rules.x=blocked")


def test_a_number_becomes_a_string() -> None:
    said: list[Event] = [CALL, ArgumentsDelta(0, '{"card": 4111111111111111, "n": 1.5, "ok": true}')]
    (arguments,) = [event for event in left(said, redact(r"\d{16}")) if isinstance(event, ArgumentsDelta)]
    assert json.loads(arguments.text) == {"card": "###", "n": 1.5, "ok": True}


@pytest.mark.parametrize(
    ("text", "json_content", "remains"),
    [
        (r'{"a": "\u0073ecret"}', True, '{"a":"###"}'),
        (r'{"a": "\u0073ecret"}', False, r'{"a": "\u0073ecret"}'),
        ('{"a": "secret"}', False, '{"a": "###"}'),
        ("no JSON, a secret", True, "no JSON, a ###"),
    ],
)
def test_content_that_was_asked_for_as_json_stays_json(text: str, json_content: bool, remains: str) -> None:
    events = left([ContentDelta(text)], redact(), json_content=json_content)
    assert [event.text for event in events if isinstance(event, ContentDelta)] == [remains]


@pytest.mark.parametrize(
    ("offered", "rule", "remains"),
    [
        (["a_secret"], block(), [ToolCallStarted(0, "c", "a_secret")]),
        (["f"], block(), None),
        ([], redact(), None),  # a name cannot be replaced: there is no such function
        ([], block("other"), [ToolCallStarted(0, "c", "a_secret")]),
    ],
)
def test_a_name_that_the_client_does_not_offer_is_the_models_word(
    offered: list[str], rule: AnswerRule, remains: list[Event] | None
) -> None:
    events = ruled([IDENTITY, ToolCallStarted(0, "c", "a_secret"), *END], [rule], offered=offered)
    assert events == (BLOCKED if remains is None else [IDENTITY, *remains, *END])


@pytest.mark.parametrize(
    ("others", "is_told"), [(["good", "bad"], True), ([" secret", "bad"], False), (["sec", "ret"], True)]
)
def test_what_could_have_been_said_goes_with_all_probabilities(others: list[str], is_told: bool) -> None:
    said = tokens("ok")
    assert said.content is not None
    said.content[0]["top_logprobs"] = [{"token": text, "logprob": -1.0, "bytes": None} for text in others]
    events = left([ContentDelta("ok"), said], block())
    assert (said in events) == is_told
    assert (REDACTED in events) != is_told
    assert ContentDelta("ok") in events


def test_an_answer_that_was_cut_is_blocked_as_well() -> None:
    events = ruled([IDENTITY, ContentDelta("secret"), Finished("length"), Ended()], [block()])
    assert events == [Noted("rules.r=blocked"), IDENTITY, Finished("content_filter"), Ended()]


# ---------------------------------------------------------------- properties

VALUES: Final = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.text('secrt\\"ué ', max_size=12), st.just("a secret")),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text("secrt", max_size=8), inner, max_size=3)
    ),
    max_leaves=8,
)


def cut(text: str, where: list[int]) -> list[str]:
    at = sorted({min(position, len(text)) for position in where} | {0, len(text)})
    return [text[start:end] for start, end in pairwise(at)]


@given(VALUES, st.booleans(), st.lists(st.integers(0, 200), max_size=5))
def test_redacted_arguments_are_json_and_say_nothing_of_it(value: Any, ascii_only: bool, where: list[int]) -> None:
    text = json.dumps({"v": value}, ensure_ascii=ascii_only)
    said: list[Event] = [CALL, *(ArgumentsDelta(0, piece) for piece in cut(text, where))]
    events = left(said, redact())
    arguments = "".join(event.text for event in events if isinstance(event, ArgumentsDelta))
    if Finished("content_filter") in events:
        assert arguments == ""
        return
    assert "secret" not in json.dumps(json.loads(arguments), ensure_ascii=False)
    if "secret" not in json.dumps(value, ensure_ascii=False):
        assert json.loads(arguments) == {"v": value}


@given(st.lists(st.text("secrt #", max_size=9), max_size=6), st.sampled_from(["", "#", "se"]))
def test_no_cut_hides_a_match(pieces: list[str], replacement: str) -> None:
    said: list[Event] = [ContentDelta(piece) for piece in pieces if piece]
    whole = "".join(pieces)
    assert (left(said, block()) == BLOCKED) == ("secret" in whole)
    events = left(said, redact(replacement=replacement))
    text = "".join(event.text for event in events if isinstance(event, ContentDelta))
    assert "secret" not in text
    assert "secret" in whole or text == whole


# ---------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("rule", "error", "message", "rest"),
    [
        (
            redact(),
            ProxyError("upstream_failed", "Failed to parse: a secret", "p", "c"),
            "Failed to parse: a ###",
            ("p", "c"),
        ),
        (redact(), ProxyError("upstream_failed", "ok", "secret", "c_secret"), "ok", ("###", "c_###")),
        (redact(), ProxyError("upstream_failed", "all is well"), "all is well", (None, None)),
    ],
)
def test_a_servers_words_are_under_the_rules_too(
    rule: AnswerRule, error: ProxyError, message: str, rest: tuple[str | None, str | None]
) -> None:
    found, notes = ruled_error(error, [rule])
    assert (found.kind, found.message, (found.param, found.code)) == (error.kind, message, rest)
    assert notes == ([] if found is error else [REDACTED])


@pytest.mark.parametrize("words", ["Failed to parse: a secret", r"Failed to parse: {\"a\": \"\u0073ecret\"}"])
def test_an_error_that_quotes_what_is_blocked_keeps_its_status(words: str) -> None:
    found, notes = ruled_error(ProxyError("upstream_failed", words, "secret", "c", retry_after=3), [block()])
    assert (found.kind, found.param, found.code, found.retry_after) == ("upstream_failed", None, None, 3)
    assert "secret" not in found.message
    assert "'r'" in found.message
    assert notes == [Noted("rules.r=blocked")]
