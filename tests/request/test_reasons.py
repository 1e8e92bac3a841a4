"""Each note, explained by a fact and its evidence."""

from __future__ import annotations

import pytest

from svir_proxy.profiles.loader import load_profile
from svir_proxy.profiles.schema import Profile
from svir_proxy.request.reasons import Reason, reason
from tests.request.support import PLAIN, profile


@pytest.mark.parametrize(
    ("note", "fact", "value"),
    [
        ("model=alias", None, None),
        ("nulls=a+b", None, None),
        ("file=text", "request.files", "kept"),
        ("tool_choice.named=only_tool", "request.tool_choice.named", "kept"),
        ("tool_choice.required=instructed", "request.tool_choice.required", "kept"),
        ("tool_choice=nested", None, None),
        ("response_format.json_object=word_added", "request.response_format.json_object_needs_word", False),
        ("response_format.json_object=schema", "request.response_format.json_object", "kept"),
        ("reasoning_effort=none", "request.response_format.schema_binds_reasoning", False),
        ("reasoning_effort=low", "request.reasoning_efforts", {}),
        ("drop=seed", "request.optional_fields.seed", "rejected"),
        ("retry.drop=seed", "request.optional_fields.seed", "rejected"),
        ("drop=top_k", "request.optional_fields.top_k", "learned"),
        ("ignored=seed", "request.optional_fields.seed", "rejected"),
        ("ignored=stop", "request.stop", "kept"),
        ("add=stream_options", "request.optional_fields.stream_options", "kept"),
        ("add=context", "request.always_send", {}),
        ("tool.name=added", "request.tool_message_name", "any"),
    ],
)
def test_a_note(note: str, fact: str | None, value: object) -> None:
    served = profile({"optional_fields": {"seed": "rejected", "stream_options": "kept"}})
    told = reason(note, served)
    assert told.done
    assert (told.note, told.fact, told.value, told.evidence) == (note, fact, value, None)


def test_a_foreign_field_is_left_out_because_foreign_fields_are_rejected() -> None:
    told = reason("drop=top_k", profile({"unknown_fields": "rejected"}))
    assert (told.fact, told.value) == ("request.unknown_fields", "rejected")


def test_evidence_is_given_where_the_profile_has_it() -> None:
    served = Profile.model_validate(PLAIN.model_dump() | {"evidence": {"request.files": "400 no files"}})
    assert reason("file=text", served).evidence == "400 no files"
    assert reason("stream=always", load_profile("llama-cpp")).evidence


def test_a_note_of_nobody() -> None:
    assert reason("what=ever", PLAIN) == Reason("what=ever", "")
