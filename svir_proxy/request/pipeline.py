"""The rewrites, in order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from svir_proxy.client_request import Body, ClientRequest
from svir_proxy.expectation import Expectation
from svir_proxy.profiles.schema import Profile
from svir_proxy.request.context import Context, Rewrite
from svir_proxy.request.rewrites.always_send import add_fields
from svir_proxy.request.rewrites.call_ids import shape_call_ids
from svir_proxy.request.rewrites.content import shape_content
from svir_proxy.request.rewrites.history import repair_history
from svir_proxy.request.rewrites.legacy_functions import translate_functions
from svir_proxy.request.rewrites.model import name_model
from svir_proxy.request.rewrites.nulls import leave_out_nulls
from svir_proxy.request.rewrites.optional_fields import leave_out_rejected
from svir_proxy.request.rewrites.parts import gate_parts
from svir_proxy.request.rewrites.reasoning_effort import translate_effort
from svir_proxy.request.rewrites.response_format import keep_response_format
from svir_proxy.request.rewrites.roles import order_messages, translate_roles
from svir_proxy.request.rewrites.stream import decide_stream
from svir_proxy.request.rewrites.token_limit import name_token_limit
from svir_proxy.request.rewrites.tool_choice import keep_tool_choice
from svir_proxy.request.rewrites.tool_definitions import define_tools, leave_out_empty_tools
from svir_proxy.request.rewrites.tool_messages import name_results

REWRITES: Final[tuple[Rewrite, ...]] = (
    leave_out_nulls,
    gate_parts,
    name_model,
    translate_functions,
    leave_out_empty_tools,
    define_tools,
    translate_roles,
    order_messages,
    repair_history,
    name_results,
    shape_content,
    shape_call_ids,
    keep_tool_choice,
    keep_response_format,
    translate_effort,
    name_token_limit,
    leave_out_rejected,
    add_fields,
    decide_stream,
)
"""What comes earlier makes work for what comes later: functions become tools before tools are judged, messages have
their order before an instruction is added to the first of them."""


@dataclass(frozen=True, slots=True)
class UpstreamRequest:
    """What goes to the backend, what was changed in it, and what the answer has to be."""

    body: Body
    notes: tuple[str, ...]
    expectation: Expectation | None

    @property
    def stream(self) -> bool:
        """Whether the server is asked to stream."""
        return self.body.get("stream") is True


def rewrite_request(request: ClientRequest, profile: Profile, model: str) -> UpstreamRequest:
    """The body for a backend of *profile*, whose name for the model is *model*; raises ProxyError to refuse."""
    context = Context(request, profile, model)
    body: Body = request.body
    for rewrite in REWRITES:
        body = rewrite(body, context)
    # A demanded call comes before a demanded format: an answer with calls has no text that could match.
    expectation = context.expectations[0] if context.expectations else None
    return UpstreamRequest(body, tuple(context.notes), expectation)
