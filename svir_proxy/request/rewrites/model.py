"""The model under the server's own name."""

from __future__ import annotations

from svir_proxy.client_request import Body
from svir_proxy.request.context import Context, with_values


def name_model(body: Body, context: Context) -> Body:
    """Put the server's id of the model in place of the client's name for it."""
    if not context.model or body.get("model") == context.model:
        return body
    context.note("model=alias" if context.request.model else "model=added")
    return with_values(body, {"model": context.model})
