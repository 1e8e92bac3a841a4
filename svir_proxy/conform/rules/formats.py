"""Structured output: ``response_format`` is kept."""

from __future__ import annotations

import json
from typing import Any, Final

from jsonschema import Draft202012Validator

from svir_proxy.conform.questions import SCHEMA
from svir_proxy.conform.reading import Reading
from svir_proxy.conform.rules.rule import KEPT, NOT_SHOWN, Judge, Rule, Verdict, in_answers_to

_OBJECT: Final[dict[str, Any]] = {"type": "object"}


def _fits(schema: dict[str, Any]) -> Judge:
    def judge(reading: Reading) -> Verdict:
        if not reading.answered:
            return f"status {reading.exchange.status}"
        if reading.was_cut or reading.told_unmet:
            return NOT_SHOWN
        try:
            value = json.loads(reading.said["content"])
        except (ValueError, RecursionError):
            return "the content is no JSON"
        error = next(Draft202012Validator(schema).iter_errors(value), None)
        return KEPT if error is None else f"the content does not fit: {error.message[:160]}"

    return judge


FORMATS: Final = tuple(
    Rule(f"{name}{'-stream' if streamed else ''}", "formats", demands + streamed,
         in_answers_to(question + streamed, judge=_fits(schema)))
    for name, question, demands, schema in (
        ("json-object", "json_object", "json_object makes the content a JSON object", _OBJECT),
        ("json-schema", "json_schema", "json_schema makes the content fit the schema", SCHEMA),
    )
    for streamed in ("", ", streamed")
)  # fmt: skip
