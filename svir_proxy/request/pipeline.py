"""The rewrites, in order, and which of them a request goes through."""

from __future__ import annotations

from functools import cache
from typing import Final, NamedTuple

from svir_proxy.client_request import Body, ClientRequest
from svir_proxy.expectation import Expectation
from svir_proxy.profiles.schema import Profile
from svir_proxy.request.concerns import ALWAYS, BEYOND_TEXT, EFFORT, FORMAT, LIMIT, NULLS, TOOLS, concerns
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

REWRITES: Final[tuple[tuple[Rewrite, int], ...]] = (
    (leave_out_nulls, NULLS),
    (gate_parts, BEYOND_TEXT),
    (name_model, ALWAYS),
    (translate_functions, TOOLS | BEYOND_TEXT),
    (leave_out_empty_tools, TOOLS),
    (define_tools, TOOLS),
    (translate_roles, BEYOND_TEXT),
    (order_messages, ALWAYS),
    (repair_history, BEYOND_TEXT),
    (name_results, BEYOND_TEXT),
    (shape_content, BEYOND_TEXT),
    (shape_call_ids, BEYOND_TEXT),
    (keep_tool_choice, TOOLS),
    (keep_response_format, FORMAT),
    (translate_effort, EFFORT | FORMAT),
    (name_token_limit, LIMIT),
    (leave_out_rejected, ALWAYS),
    (add_fields, ALWAYS),
    (decide_stream, ALWAYS),
)
"""What comes earlier makes work for what comes later: functions become tools before tools are judged, messages have
their order before an instruction is added to the first of them. Beside each rewrite stands what it is about: it leaves
a request alone that holds nothing of it, and whose earlier rewrites had nothing of it to add."""


class UpstreamRequest(NamedTuple):
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
    body = request.body
    for rewrite in _concerned(concerns(body)):
        body = rewrite(body, context)
    # A demanded call comes before a demanded format: an answer with calls has no text that could match.
    expectation = context.expectations[0] if context.expectations else None
    return UpstreamRequest(body, tuple(context.notes), expectation)


@cache
def _concerned(held: int) -> tuple[Rewrite, ...]:
    """The rewrites, in order, of requests that hold *held*; as many answers as there are sums."""
    return tuple(rewrite for rewrite, about in REWRITES if about & held)
