"""``reasoning_effort`` in the words this server, or its chat template, knows."""

from __future__ import annotations

from svir_proxy.client_request import Body
from svir_proxy.request.context import Context, with_values, without


def translate_effort(body: Body, context: Context) -> Body:
    """Replace a value the server is known not to take."""
    effort = body.get("reasoning_effort")
    known = context.profile.request.reasoning_efforts
    if not isinstance(effort, str) or effort not in known:
        return body
    instead = known[effort]
    if instead is None:
        context.note("reasoning_effort=left_out")
        return without(body, "reasoning_effort")
    context.note(f"reasoning_effort={instead}")
    return with_values(body, {"reasoning_effort": instead})
