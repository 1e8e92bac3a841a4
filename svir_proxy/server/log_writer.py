"""Writes the lines of the log in a thread of its own: a stderr that takes nothing stops no stream.

Lines are gathered for a moment and written together, in the order they came. A warning is not kept waiting. What waits
has a limit; beyond it lines are left out and counted, and that is told once stderr takes lines again.
"""

from __future__ import annotations

import asyncio
import os
import select
import stat
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple, TextIO

GATHER: Final = 0.05
"""Seconds that a line may wait for others."""
LIMIT: Final = 8 * 2**20
"""Bytes, about, that wait at most. For lines that are urgent there is half as much again."""
LOOK: Final = 1.0
"""Seconds after which the writer looks by itself: the loop that was to wake it may have ended, or be held up."""
PATIENCE: Final = 2.0
"""Seconds without any progress after which `LineWriter.flush` gives up."""
_PIECE: Final = 4096
"""Bytes of one write, unless a line is longer: what a pipe takes in one go (PIPE_BUF), so that lines of several
processes stay whole."""
_LARGE_PIECE: Final = 16 * 1024
"""Bytes of one write to a file, which takes them in one go: each gives the interpreter away, and takes it back from
whoever answers."""


class _Piece(NamedTuple):
    """What is written in one go: text, lines in it, and how much of what is held that was."""

    data: bytes
    lines: int
    held: int


class _Gap:
    """Lines that were left out in one place."""

    def __init__(self, tell: Callable[[int], str]) -> None:
        self.count = 1
        self._tell = tell

    def __str__(self) -> str:
        return self._tell(self.count)


class LineWriter:
    """Writes lines to *stream*. Anybody may put lines, in any thread; the writer's own starts with the first.

    *tell_gap* makes the line that tells how many were left out.
    """

    def __init__(self, stream: TextIO, tell_gap: Callable[[int], str], limit: int = LIMIT) -> None:
        self.stream = stream
        self.dropped = 0
        """Lines that were left out."""
        self.tell_gap = tell_gap
        self._limit = limit
        self._lost = 0  # lines that could not be written, which is yet to be told
        # Reentrant: what ends an object may log, at any moment.
        self._lock = threading.RLock()
        self._written = threading.Condition(self._lock)
        self._lines: list[str | _Gap] = []
        self._held = 0  # bytes, also of those that are being written
        self._progress = 0  # pieces that were written
        self._is_asleep = True  # the thread, until it is woken
        self._loop: asyncio.AbstractEventLoop | None = None  # the one that will wake it
        self._wake = threading.Semaphore(0)
        self._urgent = threading.Event()
        self._writer: threading.Thread | None = None
        self._piece = _LARGE_PIECE if _is_file(stream) else _PIECE

    def put(self, line: str, *, urgent: bool = False) -> None:
        """Have *line* written, without its end; at once, where it is *urgent*."""
        with self._lock:
            held = self._held + len(line)
            if held <= self._limit or (urgent and held <= self._limit * 3 // 2):
                self._held = held
                self._lines.append(line)
            else:
                self._leave_out()
            wakes = self._is_asleep and (urgent or not self._is_woken_later())
            if wakes:
                self._is_asleep = False
            if self._writer is None:
                self._writer = threading.Thread(target=self._run, name="log", daemon=True)
                self._writer.start()
        if urgent:
            self._urgent.set()
        if wakes:
            self._wake.release()

    def _is_woken_later(self) -> bool:
        """Have the event loop of this thread wake the writer, if there is one.

        A thread that is woken wants the interpreter at once, and would take it from the answer to the next request.
        """
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return False
        if loop is not self._loop:
            self._loop = loop
            loop.call_later(GATHER, self._wake_now)
        return True

    def _wake_now(self) -> None:
        with self._lock:
            self._loop = None
            wakes = self._is_asleep and bool(self._lines)
            if wakes:
                self._is_asleep = False
        if wakes:
            self._urgent.set()
            self._wake.release()

    def _leave_out(self) -> None:
        """Leave a line out, and have that told in its place."""
        self.dropped += 1
        gap = self._lines[-1] if self._lines else None
        if isinstance(gap, _Gap):
            gap.count += 1
        else:
            self._lines.append(_Gap(self.tell_gap))
            self._held += 1

    def flush(self) -> None:
        """Wait until all lines are written, as long as there is any progress."""
        self._wake_now()
        self._urgent.set()
        with self._lock:
            while self._held:
                before = self._progress
                if not self._written.wait(PATIENCE) and self._progress == before:
                    return

    def _run(self) -> None:
        while True:
            if not self._wake.acquire(timeout=LOOK) and not self._lines:
                continue
            self._urgent.wait(GATHER)
            self._urgent.clear()
            with self._lock:
                lines, self._lines = self._lines, []
                self._is_asleep = True
            if self._lost and self._write(_encoded(f"{self.tell_gap(self._lost)}\n")):
                self._lost = 0
            for piece in _pieces(lines, self._piece):
                lost = 0 if self._write(piece.data) else piece.lines
                self._lost += lost
                with self._lock:
                    self.dropped += lost
                    self._held -= piece.held
                    self._progress += 1
                    self._written.notify_all()

    def _write(self, data: bytes) -> bool:
        """Write all of *data*, however long that takes. Whether it could be."""
        try:
            descriptor = self.stream.fileno()
        except (OSError, ValueError, AttributeError):  # no file, or none any more
            return self._write_text(data.decode("utf-8"))
        rest = memoryview(data)
        while rest:
            try:
                rest = rest[os.write(descriptor, rest) :]
            except BlockingIOError:  # somebody else made it so
                select.select([], [descriptor], [])
            except OSError:
                time.sleep(GATHER)  # a full disk is tried again, but not all the time
                return False
        return True

    def _write_text(self, text: str) -> bool:
        try:
            self.stream.write(text)
        except (OSError, ValueError, AttributeError):
            return False
        return True


def _pieces(lines: Iterable[str | _Gap], most: int) -> Iterator[_Piece]:
    """*lines* in pieces of *most* bytes, but no less than a line."""
    texts: list[str] = []
    size = count = held = 0
    for line in lines:
        text = str(line)
        length = 1 + (len(text) if text.isascii() else len(_encoded(text)))
        if texts and size + length > most:
            yield _Piece(_encoded("\n".join((*texts, ""))), count, held)
            texts = []
            size = count = held = 0
        texts.append(text)
        size += length
        if type(line) is str:
            count += 1
            held += len(line)
        else:
            held += 1
    if texts:
        yield _Piece(_encoded("\n".join((*texts, ""))), count, held)


def _is_file(stream: TextIO) -> bool:
    """Whether *stream* is a regular file, as far as can be told."""
    try:
        return stat.S_ISREG(os.fstat(stream.fileno()).st_mode)
    except (OSError, ValueError, AttributeError):
        return False


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "backslashreplace")
