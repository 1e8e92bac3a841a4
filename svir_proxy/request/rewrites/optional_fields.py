"""Fields an answer can do without, left out where the server rejects them, and told where it ignores them.

========  ================  ====================================
fact      optional field    field outside the protocol
========  ================  ====================================
kept      send              send
unknown   send              send
ignored   send, note        send (no one knows what it would do)
rejected  leave out, note   leave out, note
========  ================  ====================================

A field without which the answer would be another one (`DEMANDS`) is never left out; a server's refusal of it is the
client's to see. Ignored stop sequences are told as ignored fields are.
"""

from __future__ import annotations

from typing import Any, Final

from svir_proxy.client_request import Body
from svir_proxy.request.context import Context, without

DEMANDS: Final = frozenset(
    {
        "messages",
        "model",
        "n",
        "stream",
        "stop",
        "tools",
        "tool_choice",
        "functions",
        "function_call",
        "response_format",
        "max_tokens",
        "max_completion_tokens",
        # the same outside the protocol: llama.cpp, vLLM, SGLang
        "grammar",
        "json_schema",
        "structured_outputs",
        "guided_json",
        "guided_regex",
        "guided_choice",
        "guided_grammar",
        "regex",
        "ebnf",
    }
)
"""Fields without which an answer would not be what was asked for."""

_PROTOCOL: Final = frozenset(
    {
        "audio",
        "frequency_penalty",
        "logit_bias",
        "logprobs",
        "metadata",
        "modalities",
        "parallel_tool_calls",
        "prediction",
        "presence_penalty",
        "prompt_cache_key",
        "prompt_cache_retention",
        "reasoning_effort",
        "safety_identifier",
        "seed",
        "service_tier",
        "store",
        "stream_options",
        "temperature",
        "top_logprobs",
        "top_p",
        "user",
        "verbosity",
        "web_search_options",
    }
)
_TOGETHER: Final = {"top_logprobs": "logprobs"}
"""Fields that are refused without another one."""


def is_foreign(name: str) -> bool:
    """Whether the protocol has no such field."""
    return name not in _PROTOCOL and name not in DEMANDS


def leave_out_rejected(body: Body, context: Context) -> Body:
    """Drop the fields that the profile says, or this proxy has learned, are rejected; tell those that are ignored."""
    names = [name for name in body if _is_rejected(name, context)]
    names += [name for name, other in _TOGETHER.items() if other in names and name in body and name not in names]
    for name in names:
        context.note(f"drop={name}")
    for name, value in body.items():
        fact = context.profile.request.stop if name == "stop" else context.optional(name)
        if fact == "ignored" and _says_something(name, value):
            context.note(f"ignored={name}")
    return without(body, *names) if names else body


def _is_rejected(name: str, context: Context) -> bool:
    facts = context.profile.request
    if name in DEMANDS:
        return False
    if name in facts.optional_fields:
        return context.optional(name) == "rejected"
    return facts.unknown_fields == "rejected" and is_foreign(name)


def _says_something(name: str, value: Any) -> bool:
    """Whether *value* is other than what holds without the field."""
    return value is not True if name == "parallel_tool_calls" else bool(value)
