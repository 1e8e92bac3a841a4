"""Whether the server is asked to stream, and for usage.

A local server stops generating when the client of a stream leaves, but often not for a plain request; so local servers
are always asked to stream, and the proxy gathers the answer. vLLM and others refuse ``stream_options`` without
``stream``. Where a stream has no logprobs (mlx-lm; llama.cpp with tools), a plain request for them stays plain.
"""

from __future__ import annotations

from svir_proxy.client_request import Body
from svir_proxy.request.context import Context, with_values, without


def decide_stream(body: Body, context: Context) -> Body:
    """Set ``stream`` and ``stream_options``."""
    request = context.request
    stream = request.stream or (context.profile.request.stream == "always" and not _needs_plain(body, context))
    if not stream:
        return without(body, "stream_options") if "stream_options" in body else body
    if body.get("stream") is not True:
        context.note("stream=always")
        body = with_values(body, {"stream": True})
    if context.optional("stream_options") == "kept" and not request.include_usage:
        options = body.get("stream_options")
        asked = {**(options if isinstance(options, dict) else {}), "include_usage": True}
        body = with_values(body, {"stream_options": asked})
    return body


def _needs_plain(body: Body, context: Context) -> bool:
    if not body.get("logprobs"):
        return False
    facts = context.profile.request
    return facts.stream_logprobs in ("ignored", "rejected") or (
        bool(body.get("tools")) and facts.stream_logprobs_with_tools in ("ignored", "rejected")
    )
