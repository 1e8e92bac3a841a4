"""Which fields an error names, and whether it is about the field or about its value."""

from __future__ import annotations

import pytest

from svir_proxy.errors import ProxyError
from svir_proxy.request.named_fields import Said


def _said(message: str, param: str | None = None) -> Said:
    return Said(ProxyError("invalid_request", message, param))


@pytest.mark.parametrize(
    ("field", "message", "param"),
    [
        ("store", "no", "store"),
        ("store", "no", "body.store"),
        ("store", "no", "$.store"),
        ("store", "no", "#/store/0"),
        ("tools", "no", "tools[0].function.strict"),
        ("tools", "no", "tools.0.function"),
        ("store", "Unknown field: store", None),
        ("store", "unknown field `store`", None),
        ("store", 'Unknown name "store": Cannot find field.', None),
        ("store", "Unsupported parameters: seed, store", None),
        ("store", "(parameter=store, value=True)", None),
        ("store", "store is not supported", None),
        ("store", "error at #/store: no", None),
        ("store", "'loc': 'body.store'", None),
        ("top_k", "top_k: Extra inputs are not permitted", None),
        ("top_k", "topK is unknown", None),
        ("top_k", "Unrecognized request argument supplied: top_k", None),
        ("parallel_tool_calls", "Parallel tool calls are not supported", None),
        ("stream_options", "error at #/stream_options: no", None),
    ],
)
def test_a_field_is_named(field: str, message: str, param: str | None) -> None:
    assert _said(message, param).names(field)


@pytest.mark.parametrize(
    ("field", "message", "param"),
    [
        ("store", "no", None),
        ("store", "no", "messages.0.store"),
        ("store", "We could not store the answer", None),
        ("store", "the store is closed", None),
        ("store", "restore_point is unknown", None),
        ("user", "unknown variant `bot`, expected one of `system`, `user`, `assistant`", None),
        ("user", "Input should be 'system', 'user' or 'assistant'", "messages.0.role"),
        ("max_completion_tokens", "'max_tokens' is not supported. Use 'max_completion_tokens' instead.", None),
        ("top_k", "max_top_k_size is too large", None),
        ("reasoning_content", "messages.1.reasoning_content: no", None),
        ("stream", "Unsupported parameter: 'stream_options'", None),
        ("metadata", "error at #/messages/0/metadata: no", None),
    ],
)
def test_a_field_is_not_named(field: str, message: str, param: str | None) -> None:
    assert not _said(message, param).names(field)


@pytest.mark.parametrize(
    ("message", "refuses", "blames_value"),
    [
        ("Extra inputs are not permitted", True, False),
        ("Unsupported parameter: 'x'", True, False),
        (
            "Unsupported value: 'x' does not support 0 with this model. Only the default (1) value is supported.",
            True,
            False,
        ),
        ("x isn't supported", True, False),
        ("property 'x' is unsupported", True, False),
        ("x is not available for this model", True, False),
        ("x is not yet implemented", True, False),
        ("Unrecognized request argument supplied: x", True, False),
        ("x must be at most 20", False, True),
        ("x=50 is greater than max allowed: 20", False, True),
        ("Input should be a valid integer", False, True),
        ("Invalid value for 'x'", False, True),
        ("x is out of range", False, True),
        ("Stream options can only be defined when stream is set", False, False),
        ("There is something with x", False, False),
    ],
)
def test_the_field_or_its_value(message: str, refuses: bool, blames_value: bool) -> None:
    said = _said(message)
    assert (said.refuses, said.blames_value) == (refuses, blames_value)


def test_param_and_message_are_read_as_one() -> None:
    assert _said("Extra inputs", "tools.0.function.strict").says(r"\.strict: extra")
    assert _said("one\ntwo").says("ONE.two")
    assert not _said("one").says("two")
    assert _said("no").root == ""
