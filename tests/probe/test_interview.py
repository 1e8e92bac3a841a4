"""The order of questions, repeats, limits: against servers that fail, stall, die and come back."""

from __future__ import annotations

import itertools
import random
from collections.abc import Mapping
from typing import Any, Final

import pytest

from svir_proxy.probe.answer import Answer, Ask
from svir_proxy.probe.finding import NotInterviewed
from svir_proxy.probe.interview import LONGEST_PAUSE, Limits
from svir_proxy.probe.questions import QUESTIONS
from svir_proxy.probe.questions.opening import OPENING
from svir_proxy.probe.questions.tools import ABOUT_TOOLS
from tests.probe.simulated import Simulated, json_answer
from tests.probe.support import hold
from tests.probe.test_truth import simulated, wrong

KEY: Final = "sk-very-secret-key"
BUSY: Final = json_answer({"error": {"message": "busy"}}, 429, **{"retry-after": "7"})
CRASH: Final = json_answer({"error": {"message": "it broke"}}, 500)
SILENCE: Final = Answer(None, trouble="no answer within 60 s")
PAGE: Final = Answer(200, {"content-type": "text/html"}, b"<html><h1>Welcome to nginx!</h1></html>")
ERROR_IN_200: Final = json_answer({"error": {"message": "the engine is dead"}})
REFUSAL: Final = json_answer({"error": {"message": "bad request"}}, 400)
FAILURES: Final = {
    "busy": BUSY, "crash": CRASH, "silence": SILENCE, "page": PAGE, "an error with 200": ERROR_IN_200,
    "half an answer": Answer(200, {}, b'data: {"choices":[{"delta":{"content":"H"}}]}\n\n', whole=False, trouble="cut"),
}  # fmt: skip


class Failing:
    """A server in front of *server* that answers the requests whose numbers are in *failures* with those."""

    def __init__(self, server: Simulated, failures: Mapping[int, Answer], then: Answer | None = None) -> None:
        self.server, self.failures, self.then, self.asked = server, failures, then, 0

    async def ask(self, ask: Ask, seconds: float) -> Answer:
        number, self.asked = self.asked, self.asked + 1
        late = self.then if number > max(self.failures, default=-1) else None
        return self.failures.get(number) or late or await self.server.ask(ask, seconds)

    async def get(self, path: str, seconds: float) -> Answer:
        return await self.server.get(path, seconds)


@pytest.mark.parametrize("failure", FAILURES)
def test_a_failure_is_asked_again(failure: str) -> None:
    held = hold(Failing(Simulated(), {0: FAILURES[failure], 2: FAILURES[failure], 3: FAILURES[failure]}), OPENING)
    assert held["request.stream"].value == "always"
    assert len(held.pauses) == 3


def test_a_refusal_counts_when_it_is_repeated() -> None:
    held = hold(Failing(Simulated(), {1: REFUSAL}), OPENING)
    assert held["request.stream"].value == "always"
    held = hold(Failing(Simulated(), {1: REFUSAL, 2: REFUSAL}), OPENING)
    assert held["request.stream"].value == "never"


@pytest.mark.parametrize(("asked", "waited"), [("7", 7.0), ("900", LONGEST_PAUSE), ("soon", 1.0), ("0", 0.0)])
def test_it_waits_as_long_as_the_server_says(asked: str, waited: float) -> None:
    busy = json_answer({"error": {"message": "busy"}}, 429, **{"retry-after": asked})
    assert hold(Failing(Simulated(), {0: busy}), OPENING).pauses == [waited]


@pytest.mark.parametrize("failure", FAILURES)
def test_what_fails_for_good_is_unknown_and_the_rest_is_asked(failure: str) -> None:
    stream = {1: FAILURES[failure], 2: FAILURES[failure], 3: FAILURES[failure]}
    held = hold(Failing(Simulated(), stream), OPENING)
    assert held["request.stream"].value == "unknown"
    assert held["request.stream"].evidence.startswith("no answer: ")
    assert held["request.optional_fields.stream_options"].value == "kept"


def test_a_server_that_dies_is_not_asked_on() -> None:
    server = Failing(Simulated(), {1: CRASH}, then=CRASH)
    held = hold(server)
    assert held.interview.stopped.startswith("the server stopped answering: 500 it broke")
    assert held["request.tools"].value == "unknown"
    assert held["request.tools"].evidence.startswith("not asked: ")
    assert server.asked == 1 + 3 + 3
    assert len(held.told) == len(QUESTIONS)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (json_answer({"error": "no key"}, 401), "--api-key-env"),
        (PAGE, "something else than a model server"),
        (SILENCE, "no answer within 60 s"),
        (CRASH, "it broke"),
        (REFUSAL, "refuses even the plainest request: 400 bad request"),
        (json_answer({"error": {"message": "the model m does not exist"}}, 404), "--model"),
    ],
)
def test_a_server_that_cannot_be_asked(answer: Answer, words: str) -> None:
    with pytest.raises(NotInterviewed, match=words):
        hold(Failing(Simulated(), {}, then=answer))


def test_the_limit_of_time() -> None:
    ticks = itertools.count()
    held = hold(Simulated(), limits=Limits(seconds=40), clock=lambda: float(next(ticks)))
    assert held.interview.stopped == "the limit of 40 s is reached"
    assert held["request.stream"].value == "always"
    assert held["request.model"].evidence == "not asked: the limit of 40 s is reached"


def test_an_answer_gets_no_more_time_than_is_left() -> None:
    given: list[float] = []

    class Watched(Simulated):
        async def ask(self, ask: Ask, seconds: float) -> Answer:
            given.append(seconds)
            return await super().ask(ask, seconds)

    hold(Watched(), OPENING, limits=Limits(seconds=100, question_seconds=30), clock=itertools.count(0, 10).__next__)
    assert given[0] == 30
    assert given == sorted(given, reverse=True)
    assert 0 < given[-1] <= 30


def test_the_limit_of_tokens() -> None:
    held = hold(Simulated(), limits=Limits(seconds=1e9, tokens=500))
    assert held.interview.stopped == "the limit of 500 tokens is reached"
    assert 500 <= held.interview.spent.tokens < 1000


@pytest.mark.parametrize("counts", [True, False])
def test_what_it_took(*, counts: bool) -> None:
    server = Simulated(counts=counts)
    spent = hold(server, OPENING).interview.spent
    assert spent.requests == len(server.asked)
    assert spent.tokens > 50
    assert not spent.counted  # a stream that was not asked for usage


@pytest.mark.parametrize("seed", range(20))
def test_a_server_that_fails_by_chance_fools_nobody(seed: int) -> None:
    chance = random.Random(seed)
    failures = {at: chance.choice([*FAILURES.values()]) for at in range(1, 400) if chance.random() < 0.25}
    server = simulated({"request.tool_choice.named": "ignored", "request.images": "rejected", "request.stop": "kept"})
    held = hold(Failing(server, failures))
    assert wrong(held, server) == []
    assert sum(finding.known for finding in held.interview.findings) > 10 or held.interview.stopped


def test_a_model_that_is_a_path_is_not_told() -> None:
    def lies(body: Mapping[str, Any]) -> Answer:
        return (
            json_answer({"error": {"message": f"{body['model']} has no images"}}, 400) if "image" in str(body) else None
        )

    class Path(Simulated):
        def answer(self, body: Mapping[str, Any]) -> Answer:
            return lies(body) or super().answer(body)

    held = hold(Path({"model": "any"}), model="/models/of/somebody.gguf")
    assert held["request.images"].evidence == "400 MODEL has no images"
    assert not any("somebody" in finding.evidence for finding in held.interview.findings)


def test_the_key_is_in_no_evidence() -> None:
    class Telling(Simulated):
        def answer(self, body: Mapping[str, Any]) -> Answer:
            if "tools" in body:
                return json_answer({"error": {"message": f"key {KEY} may not use tools"}}, 400)
            told = super().answer(body)
            return Answer(told.status, told.headers, told.body.replace(b"Hello!", f"Hello, {KEY}!".encode()))

    held = hold(Telling({"tools": "rejected"}), [*OPENING, *ABOUT_TOOLS], secrets=(KEY,))
    said = " ".join(f"{finding.value} {finding.evidence}" for finding in held.interview.findings)
    assert "[key]" in said
    assert "secret" not in said
