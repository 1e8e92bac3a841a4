"""The board of several workers: what is on it is whole, whoever is killed while it is written."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from svir_proxy.server.metrics import board as module
from svir_proxy.server.metrics.board import HALF, Board
from svir_proxy.server.metrics.values import Values

GAUGES: Values = {"svir_workers": {(): 1}}


def requests(count: int) -> Values:
    return {"svir_requests": {("chat/completions", "b", "m", "200"): count}}


@pytest.fixture(params=["memfd", "file"])
def board(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Board]:
    if request.param == "file":
        monkeypatch.delattr(os, "memfd_create", raising=False)
    made = Board()
    yield made
    made.close()


def test_it_is_empty_at_first(board: Board) -> None:
    assert board.read() == ({}, {})
    assert board.counters(3) == {}


def test_all_slots_are_told_together(board: Board) -> None:
    board.write(0, requests(1), GAUGES)
    board.write(5, requests(2), GAUGES)
    board.write(5, requests(4), GAUGES)
    assert board.read() == (requests(5), {"svir_workers": {(): 2}})
    assert board.counters(5) == requests(4), "the last that was written"


def test_who_has_ended_counts_but_stands_nowhere(board: Board, monkeypatch: pytest.MonkeyPatch) -> None:
    child = subprocess.Popen([sys.executable, "-c", "pass"])
    child.wait()
    board.write(0, requests(1), GAUGES)
    with monkeypatch.context() as patch:
        patch.setattr(os, "getpid", lambda: child.pid)
        board.write(1, requests(2), GAUGES)
    assert board.read() == (requests(3), GAUGES)


def test_a_process_of_another_user_lives(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "kill", refuse)
    assert module._lives(1)


@pytest.mark.parametrize("at", [0, 8, 12, 20, 30, -1])
def test_what_is_half_written_is_not_read(board: Board, at: int) -> None:
    board.write(0, requests(1), GAUGES)
    newest = HALF  # the first is written to the second half
    whole = os.pread(board._fd, 200, newest).rstrip(b"\0")
    broken = bytearray(whole)
    broken[at] ^= 255
    board.write(0, requests(2), GAUGES)  # the first half
    os.pwrite(board._fd, broken, 0)  # in its place a write that was cut off
    assert board.read() == (requests(1), GAUGES)
    board.write(0, requests(3), GAUGES)
    assert board.read() == (requests(3), GAUGES)


def test_what_is_too_long_leaves_what_was_there(board: Board, monkeypatch: pytest.MonkeyPatch) -> None:
    board.write(0, requests(1), GAUGES)
    monkeypatch.setattr(module, "HALF", 100)
    board.write(0, requests(2), GAUGES)
    monkeypatch.undo()
    assert board.counters(0) == requests(1)


def test_without_such_files_there_is_another() -> None:
    with pytest.MonkeyPatch.context() as patch:

        def refuse(*_: object) -> int:
            raise OSError

        patch.setattr(os, "memfd_create", refuse, raising=False)
        board = Board()
    board.write(0, requests(1), GAUGES)
    assert board.counters(0) == requests(1)
    board.close()
