"""Whether the server is asked to stream, and for usage.

A local server stops generating when the client of a stream leaves, but often not for a plain request; so local servers
are always asked to stream, and the proxy gathers the answer. vLLM and others refuse ``stream_options`` without
``stream``. llama.cpp has no logprobs in a stream with tools, so there a plain request stays plain.
"""

from __future__ import annotations

from svir_proxy.client_request import Body
from svir_proxy.request.context import Context, with_values, without


def decide_stream(body: Body, context: Context) -> Body:
    """Set ``stream`` and ``stream_options``."""
    request = context.request
    stream = request.stream or context.profile.request.stream == "always"
    if stream and not request.stream and body.get("logprobs") and body.get("tools"):
        stream = False
    if not stream:
        return without(body, "stream_options") if "stream_options" in body else body
    if not request.stream:
        context.note("stream=always")
    body = with_values(body, {"stream": True}) if body.get("stream") is not True else body
    fact = context.optional("stream_options")
    if fact == "kept" and not request.include_usage:
        options = body.get("stream_options")
        body = with_values(
            body, {"stream_options": {**(options if isinstance(options, dict) else {}), "include_usage": True}}
        )
    return body
