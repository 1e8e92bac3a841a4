"""``response_format`` kept true where the server rejects or ignores it.

========  =============================================  =====================================
fact      json_object                                    json_schema
========  =============================================  =====================================
kept      send                                           send
unknown   send                                           send
ignored   instruct, check the answer                     instruct, check the answer
rejected  as the schema ``{"type": "object"}`` where     leave out, then as ignored
          schemas are kept, else leave out, as ignored
========  =============================================  =====================================

LM Studio holds the reasoning of a model to the schema too, so that the whole JSON arrives as reasoning; without
reasoning it arrives as the answer. OpenAI refuses ``json_object`` unless the word JSON stands in the messages.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from svir_proxy.client_request import Body
from svir_proxy.expectation import Expectation
from svir_proxy.request.context import Context, with_values, without
from svir_proxy.request.instructions import add_instruction, json_instruction

_ANY_OBJECT: Final[Mapping[str, Any]] = {"type": "object"}


def keep_response_format(body: Body, context: Context) -> Body:
    """Make the format true."""
    wanted = body.get("response_format")
    kind = wanted.get("type") if isinstance(wanted, dict) else None
    if kind == "json_object":
        return _keep_object(body, context)
    if kind == "json_schema" and isinstance(wanted, dict):
        return _keep_schema(body, context, wanted)
    return body


def _keep_object(body: Body, context: Context) -> Body:
    facts = context.profile.request.response_format
    if facts.json_object in ("kept", "unknown"):
        if facts.json_object_needs_word and not _says_json(body):
            context.note("response_format.json_object=word_added")
            return add_instruction(body, "Answer in JSON.")
        return body
    if facts.json_object == "rejected":
        if facts.json_schema == "kept":
            context.note("response_format.json_object=schema")
            schema = {"type": "json_schema", "json_schema": {"name": "object", "schema": dict(_ANY_OBJECT)}}
            return _without_reasoning(with_values(body, {"response_format": schema}), context)
        body = without(body, "response_format")
    return _expect(body, context, "response_format.json_object", _ANY_OBJECT)


def _keep_schema(body: Body, context: Context, wanted: dict[str, Any]) -> Body:
    fact = context.profile.request.response_format.json_schema
    if fact in ("kept", "unknown"):
        return _without_reasoning(body, context)
    described = wanted.get("json_schema")
    schema = described.get("schema") if isinstance(described, dict) else None
    if fact == "rejected":
        body = without(body, "response_format")
    return _expect(body, context, "response_format.json_schema", schema if isinstance(schema, dict) else _ANY_OBJECT)


def _expect(body: Body, context: Context, fact: str, schema: Mapping[str, Any]) -> Body:
    context.note(f"{fact}=instructed")
    context.expect(Expectation(fact, schema=schema))
    return add_instruction(body, json_instruction(schema))


def _without_reasoning(body: Body, context: Context) -> Body:
    if not context.profile.request.response_format.schema_binds_reasoning or body.get("reasoning_effort") == "none":
        return body
    context.note("reasoning_effort=none")
    return with_values(body, {"reasoning_effort": "none"})


def _says_json(body: Body) -> bool:
    for message in body["messages"]:
        content = message.get("content")
        texts = [content] if isinstance(content, str) else content if isinstance(content, list) else []
        for text in texts:
            said = text.get("text") if isinstance(text, dict) else text
            if isinstance(said, str) and "json" in said.lower():
                return True
    return False
