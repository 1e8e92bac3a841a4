"""Usage: when it is told, and that it adds up."""

from __future__ import annotations

from typing import Final

from svir_proxy.conform.dialect import RULES
from svir_proxy.conform.reading import Reading
from svir_proxy.conform.rules.rule import KEPT, NOT_SHOWN, Rule, Verdict, in_answers_of, of_the_checker


def _plain(reading: Reading) -> Verdict:
    if not reading.answered or not reading.document:
        return NOT_SHOWN
    return KEPT if reading.said["usage"] else "the answer has no usage"


def _asked(reading: Reading) -> bool:
    return reading.asks_for_usage and reading.answered


USAGE: Final = (
    Rule("usage-plain", "usage", "a plain answer has its usage", in_answers_of("completion", judge=_plain)),
    Rule("usage-unasked", "usage", RULES["usage-unasked"],
         of_the_checker("stream", rule="usage-unasked", shows=lambda reading: not reading.asks_for_usage)),
    Rule("usage-missing", "usage", RULES["usage-missing"],
         of_the_checker("stream", rule="usage-missing", shows=_asked)),
    Rule("usage-once", "usage", RULES["usage-once"], of_the_checker("stream", rule="usage-once", shows=_asked)),
    Rule("usage-order", "usage", RULES["usage-order"], of_the_checker("stream", rule="usage-order", shows=_asked)),
    Rule("usage-total", "usage", RULES["usage-total"],
         of_the_checker("stream", "completion", rule="usage-total", shows=lambda reading: bool(reading.said["usage"]))),
)  # fmt: skip
