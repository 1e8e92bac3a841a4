"""Numbers by metric and labels: how they are kept, put together, and carried from one process to another."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import orjson

from svir_proxy.server.metrics.families import BY_NAME, Family

Labels = tuple[str, ...]
Sample = float | list[float]
"""A number; of a histogram how many fell into each bucket (the last: beyond all bounds), and then their sum."""
Values = dict[str, dict[Labels, Sample]]
"""By the family's name and the labels' values."""


def add(values: Values, family: Family, labels: Labels, sample: Sample) -> None:
    """Add *sample* to what *values* have there, as the family says that two come to one."""
    samples = values.setdefault(family.name, {})
    there = samples.get(labels)
    if there is None:
        samples[labels] = sample
    elif isinstance(there, list):
        assert isinstance(sample, list)
        samples[labels] = [a + b for a, b in zip(there, sample, strict=True)]
    else:
        assert not isinstance(sample, list)
        samples[labels] = min(there, sample) if family.merge == "min" else there + sample


def total(parts: Iterable[Values]) -> Values:
    """What *parts* come to together."""
    values: Values = {}
    for part in parts:
        for name, samples in part.items():
            for labels, sample in samples.items():
                add(values, BY_NAME[name], labels, sample)
    return values


def dump(values: Values) -> bytes:
    """*values* as bytes, for another process with the same version of this code."""
    return orjson.dumps({name: list(samples.items()) for name, samples in values.items()})


def load(data: bytes) -> Values:
    """What `dump` made bytes of."""
    found: dict[str, list[tuple[list[str], Any]]] = orjson.loads(data)
    return {name: {tuple(labels): sample for labels, sample in samples} for name, samples in found.items()}
