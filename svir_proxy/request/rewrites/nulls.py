"""Nulls left out.

A null says nothing, and servers trip over it or act on it: mlx-lm refuses ``max_tokens: null``, mlx-vlm four other
fields, vLLM swallows a call after ``tool_choice: null``.
"""

from __future__ import annotations

from svir_proxy.client_request import Body
from svir_proxy.request.context import Context, without


def leave_out_nulls(body: Body, context: Context) -> Body:
    """Drop top-level fields that are null."""
    names = [name for name, value in body.items() if value is None]
    if not names:
        return body
    context.note(f"nulls={'+'.join(sorted(names))}")
    return without(body, *names)
