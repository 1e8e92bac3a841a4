"""Where workers put their numbers, so that whichever is asked can tell the sum.

One file that has no name and no folder, made by the supervisor and inherited by each worker, with a slot for each.
A worker writes to its own slot only and reads all. No lock: a slot has two halves that are written in turn, each with
a sequence number and a checksum, so that a reader never takes what is half written, and a worker that is killed
while it writes leaves what it wrote before.
"""

from __future__ import annotations

import contextlib
import os
import struct
import zlib
from typing import Any, Final

from svir_proxy.server.metrics.values import Values, dump, load, total

SLOTS: Final = 128
"""Twice as many workers as can be configured: SIGTTIN starts more."""
HALF: Final = 4 * 2**20
"""Bytes of half a slot; of the file only what is written takes memory."""
_CHECKSUM: Final = struct.Struct("<I")
"""Of all that follows."""
_HEAD: Final = struct.Struct("<QIIi")
"""Sequence number; length of what follows, and of the counters in it; the process."""


class Board:
    """The file. May be given to a process that is started, as an argument."""

    def __init__(self) -> None:
        self._fd = _nameless_file()

    def __getstate__(self) -> Any:
        from multiprocessing.reduction import DupFd  # noqa: PLC0415 - one process alone needs none of it

        return DupFd(self._fd)

    def __setstate__(self, state: Any) -> None:
        self._fd = state.detach()

    def close(self) -> None:
        """Give the descriptor back. What is on the board stays with the other processes."""
        os.close(self._fd)

    def write(self, slot: int, counters: Values, gauges: Values) -> None:
        """Put the numbers of this process into *slot*."""
        newest = self._newest(slot)
        sequence = 1 if newest is None else newest[0] + 1
        counted = dump(counters)
        body = counted + dump(gauges)
        data = _HEAD.pack(sequence, len(body), len(counted), os.getpid()) + body
        if _CHECKSUM.size + len(data) <= HALF:  # a thousand series are half of it
            os.pwrite(self._fd, _CHECKSUM.pack(zlib.crc32(data)) + data, self._at(slot, sequence % 2))

    def counters(self, slot: int) -> Values:
        """What the last worker in *slot* had counted."""
        newest = self._newest(slot)
        return {} if newest is None else load(newest[1])

    def read(self) -> tuple[Values, Values]:
        """Counters and gauges of all workers together; those that have ended count, and show no gauges."""
        counters: list[Values] = []
        gauges: list[Values] = []
        for slot in range(SLOTS):
            newest = self._newest(slot)
            if newest is None:
                continue
            _, counted, shown, process = newest
            counters.append(load(counted))
            if _lives(process):
                gauges.append(load(shown))
        return total(counters), total(gauges)

    def _newest(self, slot: int) -> tuple[int, bytes, bytes, int] | None:
        """Sequence number, counters, gauges and process of the newest half that is whole; None: nothing is there."""
        halves = [found for half in (0, 1) if (found := self._half(slot, half)) is not None]
        return max(halves, default=None)

    def _half(self, slot: int, half: int) -> tuple[int, bytes, bytes, int] | None:
        at = self._at(slot, half)
        begin = os.pread(self._fd, _CHECKSUM.size + _HEAD.size, at)
        if len(begin) < _CHECKSUM.size + _HEAD.size:
            return None
        [checksum], head = _CHECKSUM.unpack_from(begin), begin[_CHECKSUM.size :]
        sequence, length, counted, process = _HEAD.unpack(head)
        if not sequence or length > HALF:
            return None
        body = os.pread(self._fd, length, at + len(begin))
        if zlib.crc32(head + body) != checksum:
            return None
        return sequence, body[:counted], body[counted:], process

    def _at(self, slot: int, half: int) -> int:
        return (2 * slot + half) * HALF


def _nameless_file() -> int:
    if hasattr(os, "memfd_create"):
        with contextlib.suppress(OSError):  # an old kernel, or one that forbids it
            return os.memfd_create("svir-metrics")
    import tempfile  # noqa: PLC0415 - where it is needed

    with tempfile.TemporaryFile(prefix="svir-metrics-") as file:
        return os.dup(file.fileno())


def _lives(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
