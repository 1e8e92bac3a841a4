"""The one corrective repeat of a request whose demand was not met: what was answered, what was wrong with it, again.

Where the server keeps schemas but not ``tool_choice``, the repeat asks for the call itself as JSON of a schema, which
it cannot help giving; the proxy reads such a text as the call that it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from svir_proxy.client_request import Body, ClientRequest
from svir_proxy.expectation import Expectation
from svir_proxy.profiles.schema import Profile
from svir_proxy.request.context import with_values, without
from svir_proxy.request.instructions import call_instruction, correction, json_instruction
from svir_proxy.request.rewrites.roles import merge_consecutive


def correct(
    body: Body, expectation: Expectation, request: ClientRequest, profile: Profile, *, problem: str, said: str
) -> Body:
    """The body of the repeat: *body* got the answer *said*, which failed *expectation* because of *problem*."""
    if expectation.calls is not None:
        instruction = call_instruction(sorted(expectation.calls))
    else:
        instruction = json_instruction(expectation.schema or {})
    messages = [*body["messages"]]
    if said.strip():
        messages.append({"role": "assistant", "content": said})
    messages.append({"role": "user", "content": correction(problem, instruction)})
    if profile.request.consecutive_roles in ("ignored", "rejected"):
        messages = merge_consecutive(messages)
    body = with_values(body, {"messages": messages})
    constrainable = profile.request.response_format.json_schema == "kept" and profile.response.text_calls
    if expectation.calls is None or not constrainable or "response_format" in body:
        return body
    schema = call_schema({name: request.tool_parameters().get(name, {}) for name in expectation.calls})
    wanted = {"type": "json_schema", "json_schema": {"name": "call", "schema": schema, "strict": True}}
    body = with_values(without(body, "tools", "tool_choice", "parallel_tool_calls"), {"response_format": wanted})
    if profile.request.response_format.schema_binds_reasoning:
        body = with_values(body, {"reasoning_effort": "none"})
    return body


def call_schema(parameters: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """The schema of ``{"name", "arguments"}`` for a call of one of the functions in *parameters*."""
    forms = [
        {
            "type": "object",
            "properties": {"name": {"const": name}, "arguments": dict(schema) or {"type": "object"}},
            "required": ["name", "arguments"],
            "additionalProperties": False,
        }
        for name, schema in sorted(parameters.items())
    ]
    return forms[0] if len(forms) == 1 else {"anyOf": forms}
