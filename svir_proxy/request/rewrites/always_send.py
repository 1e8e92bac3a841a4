"""Fields a server has to be told so that it does what everyone expects.

mlx-vlm rewrites a conversation that does not fit and answers what is left of it, unless ``context_management`` is an
empty list.
"""

from __future__ import annotations

from svir_proxy.client_request import Body
from svir_proxy.request.context import Context, with_values


def add_fields(body: Body, context: Context) -> Body:
    """Add the profile's fields that the request does not set, unless the server has come to reject them."""
    wanted = context.profile.request.always_send
    if not wanted:
        return body
    missing = {
        name: value for name, value in wanted.items() if name not in body and context.optional(name) != "rejected"
    }
    for name in missing:
        context.note(f"add={name}")
    return with_values(body, missing) if missing else body
