"""Whatever clients send, labels have few values."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from svir_proxy.server.metrics.labels import ENDPOINTS, endpoint_of, note_of, printable


@pytest.mark.parametrize(
    ("path", "endpoint"),
    [
        ("/v1/chat/completions", "chat/completions"),
        ("/chat/completions", "chat/completions"),
        ("//v1//chat/completions/", "chat/completions"),
        ("/v1/embeddings", "embeddings"),
        ("/v1/audio/speech", "audio/speech"),
        ("/v1/audio/whatever/else", "audio"),
        ("/v1/images/x", "images"),
        ("/v1/models/org/name", "models"),
        ("/v1/models", "models"),
        ("/healthz", "healthz"),
        ("/metrics", "metrics"),
        ("/", "other"),
        ("/wp-login.php", "other"),
        ("/v1/v1/chat/completions", "other"),
    ],
)
def test_a_path_is_an_endpoint(path: str, endpoint: str) -> None:
    assert endpoint_of(path) == endpoint


@given(st.text(alphabet="/v1chatmodelsaudio .x\ud800", max_size=30))
def test_there_are_no_other_endpoints(path: str) -> None:
    assert endpoint_of(path) in {*ENDPOINTS.values(), "audio", "images", "models", "other"}


@pytest.mark.parametrize(
    ("note", "told"),
    [
        ("model=alias", "model=alias"),
        ("tool_choice.required=unmet", "tool_choice.required=unmet"),
        ("drop=seed", "drop=seed"),
        ("retry.drop=logprobs", "retry.drop=logprobs"),
        ("drop=what_a_client_made_up", "drop=other"),
        ("ignored=stop", "ignored=stop"),
        ("add=reasoning_split", "add=other"),
        ("nulls=a+made+up", "nulls"),
        ("failover=rack:upstream_failed", "failover"),
        ("tools=none_offered:tools+tool_choice", "tools=none_offered"),
        ("response_format.json_schema=repeat_failed:upstream_failed", "response_format.json_schema=repeat_failed"),
        ("odd", "odd"),
    ],
)
def test_a_note_is_told_without_what_a_client_wrote(note: str, told: str) -> None:
    assert note_of(note) == told


def test_half_a_character_can_be_told() -> None:
    assert printable("a\ud83dé") == "a?é"
