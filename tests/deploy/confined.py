"""Runs Python under a filter of system calls, as systemd makes one of a unit's settings.

``python confined.py FILTER ARGUMENT...``: FILTER is a file with JSON, ``calls`` that are allowed and ``families`` of sockets.
Any other call is refused with EPERM, and so is memory that can be written and run, or that becomes
executable later (MemoryDenyWriteExecute).
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import sys
from pathlib import Path
from typing import Final

LIBRARY: Final = "libseccomp.so.2"
ALLOW: Final = 0x7FFF0000
REFUSE: Final = 0x00050000 | errno.EPERM
EQUAL: Final = 4
MASKED: Final = 7
PROT_WRITE: Final = 2
PROT_EXEC: Final = 4


class Comparison(ctypes.Structure):
    """``struct scmp_arg_cmp``."""

    _fields_ = (("argument", ctypes.c_uint), ("how", ctypes.c_int), ("a", ctypes.c_uint64), ("b", ctypes.c_uint64))


def confine(calls: list[str], families: list[int]) -> None:
    """Refuse from now on what is not among *calls*, for this process and those that it starts."""
    library = ctypes.CDLL(LIBRARY)
    library.seccomp_init.restype = ctypes.c_void_p
    context = ctypes.c_void_p(library.seccomp_init(REFUSE))
    for name in calls:
        number = library.seccomp_syscall_resolve_name(name.encode())
        if number < 0:
            continue  # another architecture's
        compared: list[tuple[int, int, int, int] | None] = [None]
        if name == "socket":
            compared = [(0, EQUAL, family, 0) for family in families]
        elif name in ("mprotect", "pkey_mprotect"):
            compared = [(2, MASKED, PROT_EXEC, 0)]
        elif name == "mmap":
            compared = [(2, MASKED, PROT_EXEC, 0), (2, MASKED, PROT_WRITE, 0)]
        for one in compared:
            arguments = None if one is None else (Comparison * 1)(Comparison(*one))
            failed = library.seccomp_rule_add_array(context, ALLOW, number, 0 if one is None else 1, arguments)
            assert not failed, name
    assert library.seccomp_load(context) == 0


if __name__ == "__main__":
    given = json.loads(Path(sys.argv[1]).read_text("utf-8"))
    confine(given["calls"], given["families"])
    os.execv(sys.executable, [sys.executable, *sys.argv[2:]])
