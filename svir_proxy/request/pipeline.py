"""The rewrites, in order, and which of them a request goes through."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from svir_proxy.client_request import Body, ClientRequest
from svir_proxy.expectation import Expectation
from svir_proxy.profiles.schema import Profile, RequestFacts
from svir_proxy.request.concerns import (
    ALWAYS,
    BEYOND_TEXT,
    EFFORT,
    FORMAT,
    LIMIT,
    NULLS,
    RENAMED,
    SETTINGS,
    STREAM,
    TOOLS,
    added_by,
    concerns,
)
from svir_proxy.request.context import Context, Rewrite
from svir_proxy.request.rewrites.always_send import add_fields
from svir_proxy.request.rewrites.call_ids import shape_call_ids
from svir_proxy.request.rewrites.content import shape_content
from svir_proxy.request.rewrites.history import repair_history
from svir_proxy.request.rewrites.legacy_functions import translate_functions
from svir_proxy.request.rewrites.model import name_model
from svir_proxy.request.rewrites.nulls import leave_out_nulls
from svir_proxy.request.rewrites.optional_fields import for_server, leave_out_rejected, leaves_out
from svir_proxy.request.rewrites.parts import gate_parts
from svir_proxy.request.rewrites.reasoning_effort import translate_effort
from svir_proxy.request.rewrites.response_format import keep_response_format
from svir_proxy.request.rewrites.roles import order_messages, orders, translate_roles
from svir_proxy.request.rewrites.stream import decide_stream
from svir_proxy.request.rewrites.token_limit import name_token_limit
from svir_proxy.request.rewrites.tool_choice import keep_tool_choice
from svir_proxy.request.rewrites.tool_definitions import define_tools, leave_out_empty_tools
from svir_proxy.request.rewrites.tool_messages import name_results
from svir_proxy.values import value


class Step(NamedTuple):
    """A rewrite, and when it could do anything at all: else it is not run."""

    rewrite: Rewrite
    about: int
    """The sum of what it is about: it leaves a request alone that holds nothing of it, and whose earlier rewrites had
    nothing of it to add."""
    where: Callable[[RequestFacts], bool] = lambda _: True
    """The servers that it does anything for."""
    prepared: Callable[[RequestFacts], Rewrite] | None = None
    """Makes what does the same for one server, sooner; None: nothing does."""


REWRITES: Final = (
    Step(leave_out_nulls, NULLS),
    Step(gate_parts, BEYOND_TEXT),
    Step(name_model, RENAMED),
    Step(translate_functions, TOOLS | BEYOND_TEXT, lambda server: server.legacy_functions not in ("kept", "unknown")),
    Step(leave_out_empty_tools, TOOLS, lambda server: server.empty_tools == "rejected"),
    Step(define_tools, TOOLS),
    Step(translate_roles, BEYOND_TEXT, lambda server: server.developer_role != "kept"),
    Step(order_messages, ALWAYS, orders),
    Step(repair_history, BEYOND_TEXT),
    Step(name_results, BEYOND_TEXT, lambda server: server.tool_message_name != "any"),
    Step(shape_content, BEYOND_TEXT),
    Step(shape_call_ids, BEYOND_TEXT, lambda server: server.call_ids != "any"),
    Step(keep_tool_choice, TOOLS),
    Step(keep_response_format, FORMAT),
    Step(translate_effort, EFFORT | FORMAT, lambda server: bool(server.reasoning_efforts)),
    Step(name_token_limit, LIMIT, lambda server: server.max_tokens_field != "both"),
    Step(leave_out_rejected, SETTINGS, leaves_out, for_server),
    Step(add_fields, ALWAYS, lambda server: bool(server.always_send)),
    Step(decide_stream, STREAM),
)
"""What comes earlier makes work for what comes later: functions become tools before tools are judged, messages have
their order before an instruction is added to the first of them."""


@value
class UpstreamRequest:
    """What goes to the backend, what was changed in it, and what the answer has to be."""

    body: Body
    notes: tuple[str, ...] = ()
    expectation: Expectation | None = None

    @property
    def stream(self) -> bool:
        """Whether the server is asked to stream."""
        return self.body.get("stream") is True


def rewrite_request(request: ClientRequest, profile: Profile, model: str) -> UpstreamRequest:
    """The body for a backend of *profile*, whose name for the model is *model*; raises ProxyError to refuse."""
    body = request.body
    held = concerns(body)
    if model and model != request.model:
        held |= RENAMED
    plans = profile.request.plans
    try:
        plan = plans[held]
    except KeyError:
        plan = plans[held] = _plan(held, profile.request)
    if not plan:
        return UpstreamRequest(body)
    context = Context(request, profile, model)
    for rewrite in plan:
        body = rewrite(body, context)
    return UpstreamRequest(body, context.notes, context.expectation)


def _plan(held: int, facts: RequestFacts) -> tuple[Rewrite, ...]:
    """The rewrites, in order, that a request which holds *held* goes through to a server of these *facts*."""
    held |= added_by(facts)
    steps = [step for step in REWRITES if step.about & held and step.where(facts)]
    return tuple(step.rewrite if step.prepared is None else step.prepared(facts) for step in steps)
