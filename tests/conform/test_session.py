"""An interview from its first question to its last, and which model is asked."""

from __future__ import annotations

import json

import pytest

from svir_proxy.conform.exchange import Exchange, Request
from svir_proxy.conform.interview import Interview
from svir_proxy.conform.questions import QUESTIONS
from svir_proxy.conform.report import report_on
from svir_proxy.conform.session import chat_models, hold
from tests.conform.servers import CONTEXT, MODEL, answer


def test_every_question_is_told_and_asked_or_explained() -> None:
    told: list[tuple[int, int, str]] = []
    interview = Interview(MODEL)
    hold(interview, answer, lambda *step: told.append(step))
    assert told == [(number, len(QUESTIONS), question.name) for number, question in enumerate(QUESTIONS, 1)]
    assert set(interview.readings) ^ set(interview.unasked) == {question.name for question in QUESTIONS}


@pytest.mark.parametrize("answered", range(len(QUESTIONS)))
def test_a_server_that_answers_no_more_is_left_alone(answered: int) -> None:
    """However far it came: the rules judge what there is, and every other question says why it was not asked."""
    left = iter(range(answered))
    interview = Interview(MODEL, CONTEXT)
    asked: list[Request] = []

    def ask(request: Request) -> Exchange:
        asked.append(request)
        return answer(request) if next(left, None) is not None else Exchange(request, failure="no answer", late=True)

    hold(interview, ask)
    assert len(asked) <= answered + 3
    assert set(interview.readings) ^ set(interview.unasked) == {question.name for question in QUESTIONS}
    report = report_on("http://server", interview)
    assert report.broken() == []
    if len(asked) == answered + 3:
        assert QUESTIONS[-1].name in interview.readings or interview.unasked[QUESTIONS[-1].name].startswith(
            "the server answers no more (no answer)"
        )


@pytest.mark.parametrize(
    ("body", "names"),
    [
        (
            {"data": [{"id": "text-embedding-3"}, {"id": "a/chat"}, {"id": "whisper"}]},
            ["a/chat", "text-embedding-3", "whisper"],
        ),
        ({"data": [{"id": None}, {}, "x", {"id": ""}, {"id": "m"}]}, ["m"]),
        ({"data": {}}, []),
        ({"object": "list"}, []),
        ([], []),
        ("<html>", []),
    ],
)
def test_models_that_chat_come_first(body: object, names: list[str]) -> None:
    text = body if isinstance(body, str) else json.dumps(body)
    assert list(chat_models(Exchange(Request("/v1/models"), 200, {}, text.encode()))) == names
