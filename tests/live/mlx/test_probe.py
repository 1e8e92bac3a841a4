"""A real MLX server is probed: what is learned agrees with the shipped profile, and what does not has its reason."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.live.mlx.scripts import Script
from tests.live.mlx.servers import MLXServer, mlx_server
from tests.live.probe_scripts import GREETING, PHRASES, TEXTS
from tests.live.probing import Probed, checked_and_served, probe

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.live

EXCEPTIONS: Final[dict[str, dict[str, tuple[Any, Any, str]]]] = {
    "mlx-lm": {},
    "mlx-vlm": {
        "request.images": (
            "kept",
            "ignored",
            "the model of the tests sees no images, and the server drops them silently",
        ),
        "request.optional_fields.reasoning_effort": (
            "kept",
            "ignored",
            "the server hands it to the template, and that of the tests does not read it",
        ),
        "request.empty_tools": ("rejected", "ignored", "inherited: no server needs an empty list, so it is left out"),
    },
}
"""By server: what the shipped profile says, what is found, and why both are right."""

LEARNED: Final[dict[str, dict[str, Any]]] = {
    "mlx-lm": {
        "request.stream": "always",
        "request.tools": "kept",
        "request.tool_choice.none": "ignored",
        "request.tool_choice.required": "ignored",
        "request.tool_choice.named": "ignored",
        "request.response_format.json_object": "ignored",
        "request.response_format.json_schema": "ignored",
        "request.optional_fields.logprobs": "kept",
        "request.stream_logprobs": "ignored",
        "request.images": "rejected",
        "request.files": "rejected",
        "request.content_parts": "kept",
    },
    "mlx-vlm": {
        "request.stream": "always",
        "request.tools": "kept",
        "request.tool_choice.none": "kept",
        "request.stop": "ignored",
    },
}


@pytest.fixture(scope="module")
def server(kind: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MLXServer]:
    scripts = {name: Script((text,)) for name, text in TEXTS.items()}
    with mlx_server(kind, tmp_path_factory.mktemp(kind), scripts, PHRASES) as server:
        yield server


@pytest.fixture(scope="module")
def probed(kind: str, server: MLXServer, tmp_path_factory: pytest.TempPathFactory) -> Probed:
    return probe(server.url, tmp_path_factory.mktemp("probe"), kind)


def test_it_is_recognized(kind: str, probed: Probed) -> None:
    assert (probed.report["profile"], probed.report["stopped"]) == (kind, None)


def test_what_matters_is_learned(kind: str, probed: Probed) -> None:
    evidence = {each["fact"]: each["evidence"] for each in probed.report["facts"]}
    learned = {fact: probed.found.get(fact) for fact in LEARNED[kind]}
    assert learned == LEARNED[kind], {fact: evidence[fact] for fact in learned if learned[fact] != LEARNED[kind][fact]}


def test_every_disagreement_is_explained(kind: str, probed: Probed) -> None:
    assert probed.disagreements == {fact: (said, found) for fact, (said, found, _) in EXCEPTIONS[kind].items()}


def test_the_path_of_the_model_is_in_no_evidence(probed: Probed, server: MLXServer) -> None:
    assert server.model not in probed.written.read_text("utf-8")


def test_what_is_written_is_checked_and_serves(kind: str, probed: Probed, server: MLXServer, tmp_path: Path) -> None:
    assert probed.profile.extends == kind
    # The blank lines behind the reasoning are the server's.
    assert checked_and_served(probed, server.url, tmp_path, server.model).lstrip() == GREETING
