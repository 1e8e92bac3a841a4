"""The model list, and one model."""

from __future__ import annotations

from typing import Final
from urllib.parse import unquote

from svir_proxy.conform.dialect import RULES
from svir_proxy.conform.reading import Reading
from svir_proxy.conform.rules.rule import KEPT, Rule, Verdict, in_answers_to, of_the_checker


def _listed(reading: Reading) -> Verdict:
    if reading.kind != "models":
        return f"status {reading.exchange.status}"
    return KEPT if isinstance(reading.document.get("data"), list) else "the answer is no list of models"


def _one(reading: Reading) -> Verdict:
    if reading.kind != "model":
        return f"status {reading.exchange.status}"
    asked, told = unquote(reading.exchange.request.path).removeprefix("/v1/models/"), reading.document.get("id")
    return KEPT if told == asked else f"id is {told!r}, not {asked!r}"


def _unknown(reading: Reading) -> Verdict:
    status, code = reading.exchange.status, reading.error.get("code")
    if status != 404:
        return f"status {status}, not 404"
    return KEPT if code == "model_not_found" else f"code is {code!r}, not 'model_not_found'"


MODELS: Final = (
    Rule("models-listed", "models", "GET /v1/models lists the models", in_answers_to("models", judge=_listed)),
    Rule("models-shape", "models", "the list and its models have OpenAI's keys, and no more",
         of_the_checker("models", rule="schema")),
    Rule("models-unique", "models", RULES["models-unique"], of_the_checker("models", rule="models-unique")),
    Rule("model-shown", "models", "GET /v1/models/ID shows a model", in_answers_to("model", judge=_one)),
    Rule("model-shape", "models", "a model has OpenAI's keys, and no more", of_the_checker("model", rule="schema")),
    Rule("model-unknown", "models", "a model that is not there is 404 model_not_found",
         in_answers_to("model of no name", judge=_unknown)),
)  # fmt: skip
