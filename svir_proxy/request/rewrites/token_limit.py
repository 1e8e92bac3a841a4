"""The output limit under the name this server reads.

OpenAI's newer models refuse ``max_tokens``; strict servers refuse ``max_completion_tokens``; others ignore one of them,
and an ignored limit is an answer without end. Where a client sends both, ``max_completion_tokens`` is the one it means.
"""

from __future__ import annotations

from typing import Final

from svir_proxy.client_request import Body
from svir_proxy.request.context import Context

_OTHER: Final = {"max_tokens": "max_completion_tokens", "max_completion_tokens": "max_tokens"}


def name_token_limit(body: Body, context: Context) -> Body:
    """Keep one limit, under the server's name for it."""
    wanted = context.profile.request.max_tokens_field
    if wanted == "both" or (other := _OTHER[wanted]) not in body:
        return body
    context.note(f"max_tokens={wanted}")
    limit = body["max_completion_tokens" if "max_completion_tokens" in body else "max_tokens"]
    changed = dict(body)
    changed.pop(wanted, None)
    changed[wanted] = limit
    del changed[other]
    return changed
