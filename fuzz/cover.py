"""Coverage-guided fuzzing of one target with atheris (libFuzzer). Imported to run it alone, as it instruments."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from random import Random

import atheris

from fuzz.controls import SIZE

with atheris.instrument_imports(include=["svir_proxy"]):
    from fuzz.targets import TARGETS

from fuzz.inputs import broken_input

_LONGEST = 1 << 14
"""Bytes of an input: long enough for a stream of every kind of event, short enough for many a second."""
_SLOWEST = 60
"""Seconds for one input, by the clock on the wall: a shared machine stalls for half a minute, endless loops longer."""


def cover(name: str, folder: Path, seconds: int, more: Sequence[str] = ()) -> None:
    """Fuzz target *name* for *seconds*; does not return. *folder*: its corpus grows there, and findings are kept.

    *more* are further flags of libFuzzer.
    """
    target = TARGETS[name]
    seeds = [data for data in target.seeds() if len(data) <= _LONGEST]
    corpus, found = folder / name, folder / "found" / name
    corpus.mkdir(parents=True, exist_ok=True)
    found.mkdir(parents=True, exist_ok=True)
    for number, data in enumerate(seeds):
        (corpus / f"seed-{number:04}").write_bytes(data)

    def mutated(data: bytes, longest: int, seed: int) -> bytes:
        """Half of the inputs are broken as streams and JSON, half as bytes, by libFuzzer's own means."""
        random = Random(seed)
        if random.randrange(2):
            return atheris.Mutate(data, longest)
        return broken_input(random, data, seeds, longest)

    def run(data: bytes) -> None:
        if len(data) >= SIZE:
            target.check(data)

    flags = [f"-artifact_prefix={found}/", f"-max_len={_LONGEST}", f"-timeout={_SLOWEST}", "-rss_limit_mb=2048"]
    arguments = [sys.argv[0], str(corpus), *flags, f"-max_total_time={seconds}", "-print_final_stats=1", *more]
    atheris.Setup(arguments, run, custom_mutator=mutated)
    atheris.Fuzz()
