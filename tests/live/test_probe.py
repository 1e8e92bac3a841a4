"""A real llama.cpp is probed: what is learned agrees with the shipped profile, and what does not has its reason."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.live.probe_scripts import GREETING, JSON, LOCKER, PHRASES, TEXTS
from tests.live.probing import KEY, Probed, checked_and_served, probe
from tests.live.processes import HERE, llama_server
from tests.live.script_model import Otherwise, write_model
from tests.live.serve_llama import MODEL_NAME

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.live

EXCEPTIONS: Final[dict[str, tuple[str, str, str]]] = {
    "request.developer_role": ("ignored", "kept", "the template of the tests writes any role, most drop this one"),
}
"""What the shipped profile says, what is found, and why both are right."""

LEARNED: Final[dict[str, Any]] = {
    "request.stream": "always",
    "request.model": "any",
    "request.tools": "kept",
    "request.stream_with_tools": "kept",
    "request.tool_choice.auto": "kept",
    "request.tool_choice.none": "ignored",
    "request.tool_choice.required": "kept",
    "request.tool_choice.named": "ignored",
    "request.optional_fields.parallel_tool_calls": "ignored",
    "request.optional_fields.stream_options": "kept",
    "request.optional_fields.reasoning_effort": "kept",
    "request.optional_fields.logprobs": "kept",
    "request.stream_logprobs": "kept",
    "request.stream_logprobs_with_tools": "rejected",
    "request.legacy_functions": "ignored",
    "request.response_format.json_object": "kept",
    "request.response_format.json_schema": "kept",
    "request.stop": "kept",
    "request.content_parts": "kept",
    "request.tool_content_parts": "kept",
    "request.files": "rejected",
    "request.refusal_parts": "rejected",
    "request.empty_arguments": "rejected",
    "request.reasoning_history": "reasoning_content",
}
"""What a good half hour by hand found, too: agreeing by finding nothing would be no agreement."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    pytest.importorskip("xllamacpp", reason="there is no llama.cpp: pip install 'svir-proxy[test]'")
    path = tmp_path_factory.mktemp("model") / "able.gguf"
    scripts = {**TEXTS, "json": JSON, "locker": LOCKER}
    # Held to JSON the model writes some; kept from ending without a call it makes one.
    otherwise = {name: Otherwise(beginning="json", end="locker") for name in ("greeting",)}
    write_model(path, scripts, (HERE / "tags.jinja").read_text(encoding="utf-8"), PHRASES, otherwise)
    with llama_server(path, KEY) as llama:
        yield llama.url


@pytest.fixture(scope="module")
def probed(server: str, tmp_path_factory: pytest.TempPathFactory) -> Probed:
    return probe(server, tmp_path_factory.mktemp("probe"), "llama-cpp")


def test_it_is_recognized(probed: Probed) -> None:
    assert (probed.report["profile"], probed.report["model"]) == ("llama-cpp", MODEL_NAME)
    assert probed.report["stopped"] is None


@pytest.mark.parametrize("fact", LEARNED)
def test_a_fact_is_learned(probed: Probed, fact: str) -> None:
    evidence = {each["fact"]: each["evidence"] for each in probed.report["facts"]}
    assert probed.found.get(fact) == LEARNED[fact], evidence[fact]


def test_every_disagreement_is_explained(probed: Probed) -> None:
    assert probed.disagreements == {fact: (said, found) for fact, (said, found, _) in EXCEPTIONS.items()}


def test_the_wording_of_an_overflow_is_known(probed: Probed) -> None:
    told = {each["fact"]: each for each in probed.report["observations"]}
    assert "exceeds the available context size" in told["overflow"]["evidence"]
    assert "errors" not in told


def test_what_is_written_is_checked_and_serves(probed: Probed, server: str, tmp_path: Path) -> None:
    assert probed.profile.extends == "llama-cpp"
    assert checked_and_served(probed, server, tmp_path, MODEL_NAME) == GREETING
