"""Broken recordings in great number, reproducible by their seed: no coverage guides this, so it also runs in one hurry.

An input that a target does not stand is made smaller and kept.
"""

from __future__ import annotations

import re
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from random import Random
from typing import Final

from fuzz.controls import SIZE
from fuzz.inputs import broken_input
from fuzz.targets import Target

_RULE: Final = re.compile(r"[\w ]+: ([a-z]+(?:-[a-z]+)*): ")
"""The oracle's rule at the head of what it says."""


def mutate(target: Target, count: int, seed: int, findings: Path) -> int:
    """Try *count* inputs and print how they ended; the number of different findings."""
    seeds = [data for data in target.seeds() if len(data) < 1 << 16]
    ended: Counter[str] = Counter()
    found: dict[str, Path] = {}
    size, began = 0, time.monotonic()
    for number in range(count):
        data = broken_input(Random(f"{seed}/{number}"), seeds[number % len(seeds)], seeds)
        size += len(data)
        where = attempt(target, data, ended)
        if where is not None and where not in found:
            print(f"input {number} of seed {seed}: {where}")
            found[where] = _keep(smaller(data, lambda less, at=where: attempt(target, less) == at), findings)
            print(f"  kept as {found[where]}")
    seconds = time.monotonic() - began
    print(f"{count} inputs, {size >> 20} MiB, {seconds:.0f} s, {count / seconds:.0f} a second, {len(found)} findings")
    for word, times in ended.most_common():
        print(f"  {times:8} {word}")
    return len(found)


def attempt(target: Target, data: bytes, ended: Counter[str] | None = None) -> str | None:
    """None where *target* stands *data*; else what gave way, the same for two inputs that find the same."""
    try:
        word = target.check(data)
    except Exception as exc:  # noqa: BLE001 - whatever it is, it is a finding
        frames = [frame for frame in traceback.extract_tb(exc.__traceback__) if "site-packages" not in frame.filename]
        rule = _RULE.match(str(exc)) if isinstance(exc, AssertionError) else None
        return " ".join(
            (type(exc).__name__, rule[1] if rule else "at", f"{Path(frames[-1].filename).name}:{frames[-1].lineno}")
        )
    if ended is not None:
        ended[word] += 1
    return None


def smaller(data: bytes, still: Callable[[bytes], bool]) -> bytes:
    """*data* without whatever can go while *still* holds: lines first, then bytes; the controls stay."""
    controls, body = data[:SIZE], data[SIZE:]
    for separator in (b"\n\n", b"\n", None):
        step = max(1, len(body) // 2)
        while step:
            for shorter in _without(body, separator, step):
                if still(controls + shorter):
                    body = shorter
                    break
            else:
                step //= 2
    return controls + body


def _without(body: bytes, separator: bytes | None, step: int) -> Iterator[bytes]:
    """*body* without each stretch of *step* parts."""
    parts = [body[at : at + 1] for at in range(len(body))] if separator is None else body.split(separator)
    if step > len(parts):
        return
    for at in range(0, len(parts), step):
        yield (separator or b"").join(parts[:at] + parts[at + step :])


def _keep(data: bytes, findings: Path) -> Path:
    findings.mkdir(parents=True, exist_ok=True)
    path = findings / sha256(data).hexdigest()[:16]
    path.write_bytes(data)
    return path
