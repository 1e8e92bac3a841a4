"""The questions: made from what is known, and not made from what is not."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from svir_proxy.conform.exchange import Exchange, Request
from svir_proxy.conform.interview import Interview
from svir_proxy.conform.questions import QUESTIONS
from svir_proxy.conform.session import hold
from tests.conform.servers import CONTEXT, MODEL, answer

BY_NAME = {question.name: question for question in QUESTIONS}


def _asked(**known) -> Interview:
    interview = Interview(MODEL, **known)
    hold(interview, answer)
    return interview


def test_names_are_unique() -> None:
    assert len(BY_NAME) == len(QUESTIONS)


def test_what_is_not_known_is_not_asked() -> None:
    reasons = {"too long": "--context", "too long, streamed": "--context", "wrong key": "without a key"}
    interview = _asked()
    assert set(interview.unasked) == set(reasons)
    assert all(reason in interview.unasked[name] for name, reason in reasons.items())
    assert not _asked(context=CONTEXT, keyed=True).unasked


def test_the_stop_word_is_one_of_the_answer_before() -> None:
    plain = answer(BY_NAME["plain"].make(Interview(MODEL)))
    request = BY_NAME["stop"].make(_asked())
    (word,) = request.body["stop"]
    assert word in json.loads(plain.body)["choices"][0]["message"]["content"].split()


@pytest.mark.parametrize("content", ["", "Yes.", None])
def test_an_answer_too_short_has_no_stop_word(content: str | None) -> None:
    interview = Interview(MODEL)
    plain = answer(BY_NAME["plain"].make(interview))
    body = json.loads(plain.body)
    body["choices"][0]["message"]["content"] = content
    interview.take("plain", replace(plain, body=json.dumps(body).encode()))
    assert "to stop at" in BY_NAME["stop"].make(interview)
    assert "to stop at" in BY_NAME["stop, streamed"].make(interview)


def test_every_chat_has_a_limit() -> None:
    """A small machine must not write a novel because somebody compares servers."""
    interview = _asked(context=CONTEXT, keyed=True)
    for question in QUESTIONS:
        request = question.make(interview)
        assert isinstance(request, Request)
        messages = request.body.get("messages") if isinstance(request.body, dict) else None
        if isinstance(messages, list) and messages:
            limit = request.body.get("max_tokens") or request.body.get("max_completion_tokens")
            assert 0 < limit <= 2000, question.name


def test_a_question_is_the_same_for_every_answer() -> None:
    """But for those that follow from one: a server is not asked other things because of what it said."""
    silent = Interview(MODEL, CONTEXT, keyed=True)
    hold(silent, lambda request: Exchange(request, 500))
    told = _asked(context=CONTEXT, keyed=True)
    for question in QUESTIONS:
        if not question.name.startswith("stop"):
            assert question.make(silent) == question.make(told)
