"""Lines through a real pipe: whole, in order, all of them or counted, and never waited for."""

from __future__ import annotations

import asyncio
import io
import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from fcntl import F_SETPIPE_SZ, fcntl
from typing import TextIO

import pytest

from svir_proxy.server import log_writer
from svir_proxy.server.log_writer import LineWriter
from tests.server.transport.raw_server import HANG

SMALL = 4096
"""Bytes that the pipe takes before it blocks."""


@dataclass
class Pipe:
    """A writer into a pipe that is read when the test wants."""

    writer: LineWriter
    out: int
    end: TextIO

    def put(self, *lines: str, urgent: bool = False) -> None:
        for line in lines:
            self.writer.put(line, urgent=urgent)

    def fill(self) -> int:
        """Lines until the pipe takes no more, and the writer is stuck with 4000 bytes of them; how many."""
        self.put(*["x" * 1000] * 8)
        writer = self.writer
        with writer._written:
            assert writer._written.wait_for(lambda: writer._progress == 1, HANG)
        return 8

    def read(self, lines: int) -> list[str]:
        """The next *lines*."""
        data = b""
        while data.count(b"\n") < lines:
            got = os.read(self.out, 65536)
            assert got
            data += got
        found = data.decode().split("\n")
        assert found.pop() == ""
        assert len(found) == lines
        return found


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    out, into = os.pipe()
    fcntl(into, F_SETPIPE_SZ, SMALL)
    end = os.fdopen(into, "w")
    made = Pipe(LineWriter(end, lambda count: f"{count} left out", limit=20_002), out, end)
    yield made
    os.set_blocking(out, False)
    while True:  # what is stuck comes to its end
        try:
            if not os.read(out, 65536) or not made.writer._held:
                break
        except BlockingIOError:
            if not made.writer._held:
                break
    os.close(out)
    end.close()


def test_lines_come_in_order(pipe: Pipe) -> None:
    pipe.put("a", "b", "é\ud83d")
    pipe.writer.flush()
    assert pipe.read(3) == ["a", "b", "é\\ud83d"]
    pipe.put("c")
    pipe.writer.flush()
    assert pipe.read(1) == ["c"]


def test_nobody_has_to_ask(pipe: Pipe) -> None:
    pipe.put("a")
    assert pipe.read(1) == ["a"]


def test_lines_of_many_threads_are_all_there(pipe: Pipe) -> None:
    def say(name: str) -> None:
        pipe.put(*(f"{name}{number}" for number in range(100)))

    threads = [threading.Thread(target=say, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    seen = pipe.read(400)
    for thread in threads:
        thread.join()
    for name in "abcd":
        assert [line for line in seen if line.startswith(name)] == [f"{name}{number}" for number in range(100)]


def test_a_pipe_that_is_full_stops_nobody(pipe: Pipe) -> None:
    filled = pipe.fill()
    pipe.put(*(f"{number}" for number in range(50)))
    seen = pipe.read(filled + 50)
    assert seen[filled:] == [str(number) for number in range(50)]
    assert pipe.writer.dropped == 0


def test_beyond_the_limit_lines_are_left_out_and_that_is_told(pipe: Pipe) -> None:
    filled = pipe.fill()
    long = "y" * 1000
    pipe.put(*[long] * 30)
    assert pipe.writer.dropped == 14, "of the limit's 20 lines 4 are stuck"
    pipe.put("urgent", urgent=True)
    pipe.put("not")
    assert pipe.writer.dropped == 15
    pipe.put(*[long] * 20, urgent=True)
    assert pipe.writer.dropped == 26
    assert pipe.read(filled + 16 + 1 + 1 + 1 + 9 + 1)[filled:] == [
        *[long] * 16,
        "14 left out",
        "urgent",
        "1 left out",
        *[long] * 9,
        "11 left out",
    ], "each in its place"
    pipe.put("on it goes")
    assert pipe.read(1) == ["on it goes"], "told once"


def test_who_waits_for_a_stuck_pipe_gives_up(pipe: Pipe, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_writer, "PATIENCE", 0.01)
    filled = pipe.fill()
    pipe.put("z")
    pipe.writer.flush()
    assert pipe.read(filled + 1)[filled:] == ["z"]


def test_who_waits_for_a_slow_pipe_waits(pipe: Pipe) -> None:
    pipe.put(*["z" * 900] * 20)
    reader: list[list[str]] = []
    thread = threading.Thread(target=lambda: reader.append(pipe.read(20)))
    thread.start()
    pipe.writer.flush()
    thread.join(HANG)
    assert len(reader[0]) == 20


def test_a_pipe_that_does_not_block_is_waited_for_all_the_same(pipe: Pipe) -> None:
    os.set_blocking(pipe.end.fileno(), False)
    pipe.put(*["w" * 1000] * 15)
    assert pipe.read(15) == ["w" * 1000] * 15


def test_each_write_is_of_whole_lines_that_a_pipe_takes_at_once(pipe: Pipe, monkeypatch: pytest.MonkeyPatch) -> None:
    written = []
    write = os.write

    def note(descriptor: int, data: memoryview) -> int:
        written.append(bytes(data))
        return write(descriptor, data)

    monkeypatch.setattr(os, "write", note)
    lines = [f"{'v' * 700}{number}" for number in range(20)]
    pipe.put(*lines)
    assert pipe.read(20) == lines
    assert all(data.endswith(b"\n") and len(data) <= 4096 for data in written)
    assert len(written) < 20


def test_where_nobody_reads_any_more_lines_are_left_out() -> None:
    out, into = os.pipe()
    os.close(out)
    with os.fdopen(into, "w") as end:
        writer = LineWriter(end, lambda count: f"{count} left out")
        writer.put("a")
        writer.put("b")
        writer.flush()
        assert writer.dropped == 2


def test_a_disk_that_was_full_is_written_to_again(pipe: Pipe, monkeypatch: pytest.MonkeyPatch) -> None:
    write, full = os.write, True

    def refuse(descriptor: int, data: memoryview) -> int:
        if full:
            raise OSError
        return write(descriptor, data)

    monkeypatch.setattr(os, "write", refuse)
    pipe.put("a", "b")
    pipe.writer.flush()
    full = False
    pipe.put("c")
    assert pipe.read(2) == ["2 left out", "c"]
    assert pipe.writer.dropped == 2


def test_what_is_no_file_is_written_to_all_the_same() -> None:
    text = io.StringIO()
    writer = LineWriter(text, lambda count: f"{count} left out")
    writer.put("a")
    writer.flush()
    assert text.getvalue() == "a\n"
    text.close()
    writer.put("b")
    writer.flush()
    assert writer.dropped == 1


def test_nothing_is_waited_for_where_nothing_was_said() -> None:
    writer = LineWriter(io.StringIO(), str)
    writer.flush()
    assert writer._writer is None


async def test_in_a_loop_nobody_has_to_ask_either(pipe: Pipe) -> None:
    pipe.put("a", "b")
    assert await asyncio.to_thread(pipe.read, 2) == ["a", "b"]
    pipe.put("c")
    assert await asyncio.to_thread(pipe.read, 1) == ["c"], "the loop wakes the writer again"


async def test_what_is_urgent_takes_along_what_waits(pipe: Pipe, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_writer, "GATHER", 10 * HANG)
    pipe.put("a")
    pipe.put("b", urgent=True)
    assert pipe.read(2) == ["a", "b"]
    pipe.put("c")
    pipe.writer.flush()
    assert pipe.read(1) == ["c"], "and so does who waits for it"


def test_a_loop_that_has_ended_keeps_nothing_back(pipe: Pipe, monkeypatch: pytest.MonkeyPatch) -> None:
    async def say(line: str) -> None:
        pipe.put(line)

    with monkeypatch.context() as patch:
        patch.setattr(log_writer, "GATHER", 10 * HANG)
        asyncio.run(say("a"))
    asyncio.run(say("b"))
    pipe.put("c")
    assert pipe.read(3) == ["a", "b", "c"]
    monkeypatch.setattr(log_writer, "LOOK", 0.01)
    asyncio.run(say("d"))
    assert pipe.read(1) == ["d"], "also where nobody says anything more"
