"""The rewrites, in order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from svir_proxy.client_request import Body, ClientRequest
from svir_proxy.profiles.schema import Profile
from svir_proxy.request.context import Context, Rewrite
from svir_proxy.request.rewrites.history import repair_history
from svir_proxy.request.rewrites.model import name_model
from svir_proxy.request.rewrites.nulls import leave_out_nulls
from svir_proxy.request.rewrites.optional_fields import leave_out_rejected
from svir_proxy.request.rewrites.parts import gate_parts
from svir_proxy.request.rewrites.roles import translate_roles
from svir_proxy.request.rewrites.stream import decide_stream
from svir_proxy.request.rewrites.token_limit import name_token_limit
from svir_proxy.request.rewrites.tools import keep_tool_choice, leave_out_empty_tools, translate_functions

REWRITES: Final[tuple[Rewrite, ...]] = (
    leave_out_nulls,
    gate_parts,
    name_model,
    translate_functions,
    leave_out_empty_tools,
    keep_tool_choice,
    translate_roles,
    repair_history,
    name_token_limit,
    leave_out_rejected,
    decide_stream,
)
"""What comes earlier may make work for what comes later: functions become tools before tools are judged."""


@dataclass(frozen=True, slots=True)
class UpstreamRequest:
    """What goes to the backend: the body, and what was changed in it."""

    body: Body
    notes: tuple[str, ...]

    @property
    def stream(self) -> bool:
        """Whether the server is asked to stream."""
        return self.body.get("stream") is True


def rewrite_request(
    request: ClientRequest, profile: Profile, model: str, learned: frozenset[str] = frozenset()
) -> UpstreamRequest:
    """The body for a backend of *profile*, whose name for the model is *model*; raises ProxyError to refuse.

    *learned* are optional fields that the backend was seen to reject for this model.
    """
    context = Context(request, profile, model, learned)
    body: Body = request.body
    for rewrite in REWRITES:
        body = rewrite(body, context)
    return UpstreamRequest(body, tuple(context.notes))
