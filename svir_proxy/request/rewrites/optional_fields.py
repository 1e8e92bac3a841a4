"""Fields an answer can do without, left out where the server is known to reject them."""

from __future__ import annotations

from svir_proxy.client_request import Body
from svir_proxy.request.context import Context, without


def leave_out_rejected(body: Body, context: Context) -> Body:
    """Drop optional fields that the profile says, or this proxy has learned, are rejected."""
    facts = context.profile.request.optional_fields
    names = [name for name in body if (facts.get(name) == "rejected" or name in context.learned)]
    for name in names:
        context.note(f"drop={name}")
    return without(body, *names) if names else body
