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
from svir_proxy.profiles.schema import RequestFacts
from svir_proxy.request.context import Context, Rewrite, without

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
_WORDS: Final = _PROTOCOL | DEMANDS
"""All fields that are not foreign."""
_TOGETHER: Final = {"top_logprobs": "logprobs"}
"""Fields that are refused without another one."""


def is_foreign(name: str) -> bool:
    """Whether the protocol has no such field."""
    return name not in _WORDS


def leaves_out(facts: RequestFacts) -> bool:
    """Whether there is any field that `leave_out_rejected` leaves out, or tells of, at a server of these *facts*."""
    known = facts.optional_fields.values()
    return facts.unknown_fields == "rejected" or facts.stop == "ignored" or "ignored" in known or "rejected" in known


def for_server(facts: RequestFacts) -> Rewrite:
    """`leave_out_rejected` for a server of these *facts*, which finds a request without such fields in one step."""
    told = {name for name, fact in facts.optional_fields.items() if fact in ("ignored", "rejected")} - {"stop"}
    if facts.stop == "ignored":
        told.add("stop")
    harmless = (_WORDS | facts.optional_fields.keys()) - told
    foreign_too = facts.unknown_fields == "rejected"

    def rewrite(body: Body, context: Context) -> Body:
        if harmless.issuperset(body) if foreign_too else told.isdisjoint(body):
            return body
        return leave_out_rejected(body, context)

    return rewrite


def leave_out_rejected(body: Body, context: Context) -> Body:
    """Drop the fields that the profile says, or this proxy has learned, are rejected; tell those that are ignored."""
    facts = context.profile.request
    optional_fields = facts.optional_fields
    rejects_foreign = facts.unknown_fields == "rejected"
    rejected: list[str] = []
    ignored: list[str] = []
    for name, value in body.items():
        fact = facts.stop if name == "stop" else optional_fields.get(name)
        if fact is None:
            if rejects_foreign and name not in _WORDS:
                rejected.append(name)
        elif fact == "rejected":
            if name not in DEMANDS:
                rejected.append(name)
        elif fact == "ignored" and _says_something(name, value):
            ignored.append(name)
    if not rejected and not ignored:
        return body
    for name, other in _TOGETHER.items():
        if other in rejected and name in body and name not in rejected:
            rejected.append(name)
    for name in rejected:
        context.note(f"drop={name}")
    for name in ignored:
        context.note(f"ignored={name}")
    return without(body, *rejected) if rejected else body


def _says_something(name: str, value: Any) -> bool:
    """Whether *value* is other than what holds without the field."""
    return value is not True if name == "parallel_tool_calls" else bool(value)
