"""Who sends when."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from svir_proxy.outbox import Outbox


class Loop:
    """A loop whose turns are taken by hand."""

    def __init__(self) -> None:
        self.soon: list[Callable[[], object]] = []

    def call_soon(self, callback: Callable[[], object], /) -> None:
        self.soon.append(callback)

    def turn(self) -> None:
        callbacks, self.soon = self.soon, []
        for callback in callbacks:
            callback()


class Sender:
    """Notes that it sent; *then* is done on the way."""

    def __init__(self, name: str, sent: list[str], then: Callable[[], object] = lambda: None) -> None:
        self._name, self._sent, self._then = name, sent, then

    def release(self) -> None:
        self._sent.append(self._name)
        self._then()

    def send(self, outbox: Outbox, loop: Loop) -> None:
        """Send by *outbox*, as all do."""
        if not outbox.delays(self, loop):
            self.release()


@pytest.fixture(name="loop")
def _loop() -> Loop:
    return Loop()


@pytest.fixture(name="outbox")
def _outbox(loop: Loop) -> Outbox:
    """An outbox in which two met in the turn before."""
    outbox = Outbox()
    for name in "xy":
        Sender(name, []).send(outbox, loop)
    loop.turn()
    return outbox


def test_all_of_a_turn_in_their_order_and_what_comes_meanwhile_with_the_next(loop: Loop, outbox: Outbox) -> None:
    sent: list[str] = []
    late = Sender("late", sent)
    for sender in (Sender("a", sent), Sender("b", sent, lambda: late.send(outbox, loop)), Sender("c", sent)):
        sender.send(outbox, loop)
    assert len(loop.soon) == 1
    assert sent == []
    loop.turn()
    assert sent == ["a", "b", "c"]
    loop.turn()
    assert sent == ["a", "b", "c", "late"]
    assert loop.soon == []


def test_who_is_alone_turn_after_turn_waits_for_nobody(loop: Loop) -> None:
    outbox = Outbox()
    sent: list[str] = []
    steps = []
    for names in ("a", "b", "cd", "e", "fg", "h", "i"):
        for name in names:
            Sender(name, sent).send(outbox, loop)
        steps.append("".join(sent))
        loop.turn()
        sent.clear()
    # after a turn of two the first waits once more, in case there are two again
    assert steps == ["a", "b", "c", "", "f", "", "i"]
    assert loop.soon == []


def test_who_sends_by_itself_is_asked_nothing(loop: Loop) -> None:
    outbox = Outbox()
    sent: list[str] = []
    told = []
    for names in ("a", "bc", "d", "e"):
        told.append([outbox.delays(Sender(name, sent), loop) for name in names])
        assert sent == []
        loop.turn()
        sent.clear()
    assert told == [[False], [False, True], [True], [False]]


def test_one_that_fails_keeps_nobody_else_from_sending(
    loop: Loop, outbox: Outbox, caplog: pytest.LogCaptureFixture
) -> None:
    sent: list[str] = []

    def fail() -> None:
        raise OSError("gone")

    for sender in (Sender("a", sent, fail), Sender("b", sent)):
        sender.send(outbox, loop)
    loop.turn()
    assert sent == ["a", "b"]
    assert "gone" in caplog.text
