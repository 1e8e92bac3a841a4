"""The tables of the clients are complete and without leftovers, and each difference from them is seen."""

from __future__ import annotations

from dataclasses import asdict
from fnmatch import fnmatchcase
from typing import Any

import pytest

from tests.clients.adapters import CLIENTS
from tests.clients.client import Client
from tests.clients.expectation import differences, expectation, history_differences, reaches
from tests.clients.job import RESULTS, Outcome
from tests.clients.run import Seen, jobs_of
from tests.clients.scenarios import OSLO, SCENARIOS

CLIENT = Client("c", "m", "n", ("stream", "plain"), dict.fromkeys(("rate", "failed", "late"), "E"), differs={})


@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)
def test_a_client_has_an_exception_for_each_error_and_no_pattern_in_vain(client: Client) -> None:
    assert set(client.errors) == {row.error for row in SCENARIOS.values() if row.error}
    jobs = [f"{surface}/{scenario}" for surface, scenario in jobs_of(client)]
    idle = [name for name in (*client.differs, *client.pending) if not any(fnmatchcase(job, name) for job in jobs)]
    assert idle == []


def test_names_are_ids() -> None:
    names = [client.name for client in CLIENTS]
    assert len(set(names)) == len(names)
    assert all(name.replace("-", "").isalnum() for name in names)


def _seen(requests: int = 1, **fields: Any) -> Seen:
    return Seen(asdict(Outcome(**fields)), requests, [{}] * requests)


RATE = {
    "errors": ["E", "Base"],
    "status": 429,
    "code": "rate_limit_exceeded",
    "message": "Too many requests",
    "wait": "2",
}
TEXT = {"text": SCENARIOS["text"].sees["text"], "finish": "stop", "usage": [11, 5]}


def test_what_is_as_expected() -> None:
    assert differences(expectation(CLIENT, "stream", "text"), _seen(**TEXT)) == []
    assert differences(expectation(CLIENT, "stream", "rate"), _seen(3, **RATE)) == []


@pytest.mark.parametrize(
    ("scenario", "requests", "fields"),
    [
        ("text", 2, {}),
        *(("text", 1, change) for change in (
            {"text": "x"}, {"reasoning": "x"}, {"calls": [OSLO]}, {"finish": None}, {"usage": None}, {"errors": ["E"]}
        )),
        ("rate", 1, {}),
        *(("rate", 3, change) for change in (
            {"errors": []}, {"errors": ["Other"]}, {"status": None}, {"code": None}, {"message": "?"}, {"wait": None}
        )),
    ],
)  # fmt: skip
def test_a_difference(scenario: str, requests: int, fields: dict[str, Any]) -> None:
    said = {**(TEXT if scenario == "text" else RATE), **fields}
    assert len(differences(expectation(CLIENT, "stream", scenario), _seen(requests, **said))) == 1


def test_a_late_error_is_an_early_one_to_a_plain_request() -> None:
    streamed, plain = (expectation(CLIENT, surface, "late-cut") for surface in CLIENT.surfaces)
    assert (streamed["status"], streamed["requests"], streamed["text"] != "") == (None, 1, True)
    assert (plain["status"], plain["requests"], plain["text"]) == (502, 3, "")


@pytest.mark.parametrize(
    ("scenario", "requests", "received", "well"),
    [("text", 1, 1, True), ("text", 1, 2, False), ("dropped", 3, 5, True), ("dropped", 3, 7, False),
     ("wrong-key", 1, 0, True), ("wrong-key", 1, 1, False)],
)  # fmt: skip
def test_how_often_the_server_is_asked(scenario: str, requests: int, received: int, well: bool) -> None:
    assert reaches(scenario, Seen({}, requests, [{}] * received)) is well


@pytest.mark.parametrize("change", [None, "name", "arguments", "id", "result", "reasoning"])
def test_the_history_of_a_second_turn(change: str | None) -> None:
    function = {
        "name": "other" if change == "name" else OSLO[0],
        "arguments": "{}" if change == "arguments" else '{"city": "Oslo"}',
    }
    answer = {"role": "assistant", "content": "", "tool_calls": [{"id": "a", "type": "function", "function": function}]}
    if change != "reasoning":
        answer["reasoning_content"] = "hm"
    result = "?" if change == "result" else RESULTS[OSLO[0]]
    tool = {"role": "tool", "tool_call_id": "b" if change == "id" else "a", "content": result}
    body = {"messages": [{"role": "user", "content": "Hi"}, answer, tool]}
    found = history_differences({"calls": [OSLO], "reasoning": "hm"}, body)
    assert len(found) == (0 if change is None else 1)
