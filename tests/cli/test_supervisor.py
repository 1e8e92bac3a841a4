"""Workers: that they share a port, come and go, and what the supervisor makes of one that says nothing."""

from __future__ import annotations

import logging
import re
import signal
from collections.abc import Iterator
from typing import Any, Final

import pytest

from svir_proxy.cli import supervisor
from svir_proxy.cli.supervisor import Worker
from svir_proxy.settings import Settings
from tests.cli.test_http_server import PATIENCE, announced, get, started

SERVES: Final = r"\S+ INFO +worker \d+ serves\n"


def test_workers_share_the_port_and_say_so_once() -> None:
    with started(workers=2) as process:
        address = announced(process)
        worker, _ = get(address)
        assert worker not in ("", str(process.pid))
        process.send_signal(signal.SIGTERM)
        rest = process.stderr.read()  # type: ignore[union-attr]  # communicate() would miss what readline() read ahead
        assert process.wait(PATIENCE) == 0
    assert re.fullmatch(f"({SERVES}){{1,2}}", rest)


@pytest.mark.parametrize("app", ["broken", "faulty"])
def test_an_application_that_does_not_start_is_a_failure(app: str) -> None:
    with started(app, workers=2) as process:
        _, said = process.communicate(timeout=PATIENCE)
    assert "listening" not in said
    assert process.returncode == 1


def test_there_can_be_more_of_them() -> None:
    with started(workers=2) as process:
        announced(process)
        assert process.stderr is not None
        process.send_signal(signal.SIGTTIN)
        assert all(re.fullmatch(SERVES, process.stderr.readline()) for _ in range(3))
        process.send_signal(signal.SIGTERM)
        assert process.communicate(timeout=PATIENCE) == (None, "")


def test_one_that_does_not_end_is_killed() -> None:
    with started("stuck", workers=2, drain=0) as process:
        announced(process)
        process.send_signal(signal.SIGTERM)
        _, rest = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0
    assert len(re.findall(r"ERROR +worker \d+ does not end and is killed", rest)) == 2


# ----------------------------------------------------------------- one worker, seen from both sides


class Alive:
    """A process."""

    alive = True

    def is_alive(self) -> bool:
        return self.alive


FIRST: Final = Settings()


@pytest.fixture
def worker(monkeypatch: pytest.MonkeyPatch) -> Iterator[Worker]:
    """A worker without a process; the test has both ends of its pipe."""
    for name in ("_GLANCE", "_WAIT"):
        monkeypatch.setattr(supervisor, name, 0)
    made = Worker(FIRST, [], lambda settings: None)  # type: ignore[arg-type, return-value]
    made.process = Alive()  # type: ignore[assignment]
    yield made
    made.parent_conn.close()
    made.child_conn.close()


def waiting(worker: Worker) -> list[Any]:
    """What the worker has yet to read."""
    messages = []
    while worker.child_conn.poll():
        messages.append(worker.child_conn.recv())
    return messages


def test_one_that_answers_lives(worker: Worker) -> None:
    for serves in (False, True):
        assert all(worker.look(FIRST) for _ in range(59))
        assert waiting(worker) == [None]
        worker.child_conn.send(serves)
        assert worker.look(FIRST)
        assert worker.serves == serves


def test_one_that_does_not_is_asked_once_and_given_up_in_the_end(worker: Worker) -> None:
    assert [worker.look(FIRST) for _ in range(60)] == [True] * 59 + [False]
    assert waiting(worker) == [None]


def test_one_that_has_ended_does_not_live(worker: Worker) -> None:
    worker.child_conn.close()
    assert not worker.look(FIRST), "nobody holds the other end"
    worker.process.alive = False  # type: ignore[attr-defined]
    assert not worker.look(FIRST)


def test_new_settings_are_told_once(worker: Worker) -> None:
    new = Settings.model_validate({"server": {"port": 1}})
    worker.take(new)
    assert waiting(worker) == [new]
    worker.child_conn.send(True)
    for _ in range(2):
        assert worker.look(new)
    assert waiting(worker) == [None]


def test_one_that_is_behind_has_the_newest_settings_once_it_answers(worker: Worker) -> None:
    new = Settings.model_validate({"server": {"port": 1}})
    newest = Settings.model_validate({"server": {"port": 2}})
    worker.look(FIRST)
    for settings in (new, newest):
        worker.take(settings)
    assert waiting(worker) == [None], "no more is on the way than it can be sure to take"
    worker.child_conn.send(True)
    for _ in range(2):
        assert worker.look(newest)
    assert waiting(worker) == [newest]


def test_one_that_has_ended_takes_nothing(worker: Worker) -> None:
    worker.parent_conn.close()
    worker.take(Settings.model_validate({"server": {"port": 1}}))


class Serving:
    """The server in a worker."""

    started = True

    def __init__(self, fault: Exception | None) -> None:
        self.fault = fault
        self.served: list[Settings] = []

    def reload(self, settings: Settings) -> None:
        if self.fault is not None:
            raise self.fault
        self.served.append(settings)


@pytest.mark.parametrize("fault", [None, OSError("no")])
def test_a_worker_answers_whatever_comes_of_it(
    worker: Worker, fault: Exception | None, caplog: pytest.LogCaptureFixture
) -> None:
    worker._server = serving = Serving(fault)  # type: ignore[assignment]
    for message in (None, FIRST):
        worker.parent_conn.send(message)
        worker.pong()
        assert worker.parent_conn.recv() is True
    assert serving.served == ([] if fault else [FIRST])
    assert [record.levelno for record in caplog.records] == ([logging.ERROR] if fault else [])


@pytest.mark.parametrize(
    ("status", "words"), [(None, "status None"), (1, "status 1"), (-9, "SIGKILL"), (-40, "signal 40")]
)
def test_how_a_worker_ended(status: int | None, words: str) -> None:
    assert supervisor._how(status) == words
