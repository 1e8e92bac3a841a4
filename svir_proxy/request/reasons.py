"""Why a request was changed: each note, the fact behind it, and that fact's evidence."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

from svir_proxy.profiles.schema import Profile

_TABLE: Final[tuple[tuple[str, str | None, str], ...]] = (
    # pattern of the note, the fact behind it (\\1 is the pattern's first group), what was done
    (r"model=alias", None, "the model goes under the server's own id (models of the backend)"),
    (r"model=added", None, "the request names no model, and goes to the one it is answered by"),
    (r"nulls=(.*)", None, "fields that are null are left out: they say nothing, and servers trip over them"),
    (r"text=half_characters_replaced", None, "half of a character, which no server could read, became U+FFFD"),
    (r"file=text", "request.files", "a text file goes as text inside the message"),
    (r"functions=tools", "request.legacy_functions", "the deprecated functions go as tools"),
    (r"tools=none_offered:(.+)", "request.empty_tools", "what only makes sense with tools is left out without them"),
    (r"tools=nested", None, "a tool in the Responses form is brought into Chat Completions' own"),
    (r"tools\.strict=dropped", "request.tool_strict", "strict is left out of the tools"),
    (r"tools\.parameters=empty_object", "request.empty_parameters", "a tool without parameters gets an object schema"),
    (r"tool_choice=nested", None, "a flat choice is brought into the form of Chat Completions"),
    (r"tool_choice\.(\w+)=.+", r"request.tool_choice.\1", "the choice is kept true in another way"),
    (r"response_format\.json_object=word_added", "request.response_format.json_object_needs_word", "the word is added"),
    (r"response_format\.(\w+)=.+", r"request.response_format.\1", "the format is kept true in another way"),
    (r"reasoning_effort=none", "request.response_format.schema_binds_reasoning", "the schema would hold the reasoning"),
    (r"reasoning_effort=.+", "request.reasoning_efforts", "another value, which the server knows"),
    (r"role\.developer=system", "request.developer_role", "developer messages go as system messages"),
    (r"role\.system=.+", "request.late_system", "system messages go in front, as one"),
    (r"role\.consecutive=.+", "request.consecutive_roles", "messages of one role in a row go as one"),
    (r"reasoning_history=.+", "request.reasoning_history", "earlier reasoning goes under the server's own key, or not"),
    (r"history\.arguments=.+", "request.empty_arguments", "an earlier call's empty arguments go as {}"),
    (r"history\.refusal=text", "request.refusal_parts", "an earlier refusal goes as text"),
    (r"history\.call_ids=.+", "request.call_ids", "call ids go in the form the server takes"),
    (r"tool\.name=.+", "request.tool_message_name", "a result names its function, or does not, as the server wants it"),
    (r"history=nulls_dropped", None, "keys that are null in the history are left out: they say nothing"),
    (r"history\.extra_content=restored", None, "what the server demands back with its earlier calls is put back"),
    (r"history=leftovers_dropped", None, "what a client library left in the history is left out"),
    (r"content=flattened", "request.content_parts", "text parts go as one string"),
    (r"content=empty_string", "request.null_content", "a message without content gets an empty one"),
    (r"max_tokens=.+", "request.max_tokens_field", "the output limit goes under the name the server reads"),
    (r"(?:retry\.)?drop=(.*)", r"request.optional_fields.\1", "the field is left out"),
    (r"ignored=stop", "request.stop", "stop sequences go as they are, and do not end the answer"),
    (r"ignored=(.*)", r"request.optional_fields.\1", "the field goes as it is, and has no effect there"),
    (r"add=stream_options", "request.optional_fields.stream_options", "the stream is asked for its usage"),
    (r"add=(.+)", "request.always_send", "the server has to be told"),
    (r"stream=always", "request.stream", "the server is asked to stream, the proxy gathers the answer"),
    (r"stream=never", "request.stream", "the server is asked for a whole answer, the proxy makes the stream of it"),
    (r"failover=.+", None, "that backend failed before any output, for this reason, and the next one was asked"),
    (r"limits=unchecked", None, "the store that limits are counted in did not answer, and the request was let through"),
    (r"rules\.(.+)=blocked", None, "an operator's rule blocked the answer: nothing of its text is there"),
    (r"rules\.(.+)=redacted", None, "what an operator's rule looks for was replaced in the answer"),
    (r"more=untold", None, "there are more changes than a header can tell"),
)
_RULES: Final = tuple((re.compile(pattern), fact, done) for pattern, fact, done in _TABLE)


@dataclass(frozen=True, slots=True)
class Reason:
    """One note, explained.

    Attributes:
        note: The note as ``x-svir-rewrites`` has it.
        done: What was done, in words.
        fact: The dotted path of the profile's fact behind it; None: every server gets it.
        value: The fact's value.
        evidence: What was seen, where the profile says so.
    """

    note: str
    done: str
    fact: str | None = None
    value: Any = None
    evidence: str | None = None


def reason(note: str, profile: Profile) -> Reason:
    """Explain *note* by the facts of *profile*."""
    for pattern, template, done in _RULES:
        found = pattern.fullmatch(note)
        if found is None:
            continue
        if template is None:
            return Reason(note, done)
        fact = found.expand(template)
        try:
            value = profile.fact(fact)
        except KeyError:
            if profile.request.unknown_fields != "rejected":
                return Reason(note, done, fact, "learned")
            fact, value = "request.unknown_fields", "rejected"
        return Reason(note, done, fact, value, profile.evidence.get(fact))
    return Reason(note, "")
