"""Whether the server is asked to stream, and for usage.

A local server stops generating when the client of a stream leaves, but often not for a plain request; so local servers
are always asked to stream, and the proxy gathers the answer. Where a server cannot stream (GPT4All; llama-cpp-python
with tools), it is asked for the whole answer, and the proxy makes a stream of it. Where a stream has no logprobs
(mlx-lm; llama.cpp with tools), a plain request for them stays plain, and a stream comes without them.

vLLM and others refuse ``stream_options`` without ``stream``.
"""

from __future__ import annotations

from typing import Final

from svir_proxy.client_request import Body
from svir_proxy.profiles.schema import Fact
from svir_proxy.request.context import Context, with_values, without

_LOST: Final = ("ignored", "rejected")


def decide_stream(body: Body, context: Context) -> Body:
    """Set ``stream`` and ``stream_options``."""
    if not _is_stream(body, context):
        if context.request.stream:
            context.note("stream=never")
        elif "stream_options" in body:
            context.note("drop=stream_options")
        else:
            return body
        return without(body, "stream_options", *(["stream"] if context.request.stream else []))
    if body.get("stream") is not True:
        context.note("stream=always")
        body = with_values(body, {"stream": True})
    if body.get("logprobs"):
        body = _without_logprobs(body, context)
    return _ask_for_usage(body, context)


def _is_stream(body: Body, context: Context) -> bool:
    facts = context.profile.request
    if facts.stream == "never" or (facts.stream_with_tools in _LOST and body.get("tools")):
        return False
    if context.request.stream or facts.stream != "always":
        return context.request.stream
    return not body.get("logprobs") or _stream_logprobs(body, context) not in _LOST


def _stream_logprobs(body: Body, context: Context) -> Fact:
    """What becomes of logprobs in a stream of this request."""
    facts = context.profile.request
    if body.get("tools") and facts.stream_logprobs_with_tools != "kept":
        return facts.stream_logprobs_with_tools
    return facts.stream_logprobs


def _without_logprobs(body: Body, context: Context) -> Body:
    fact = _stream_logprobs(body, context)
    if fact == "ignored":
        context.note("ignored=logprobs")
    if fact != "rejected":
        return body
    context.note("drop=logprobs")
    return without(body, "logprobs", "top_logprobs")


def _ask_for_usage(body: Body, context: Context) -> Body:
    options = body.get("stream_options", {})
    if isinstance(options, dict) and options.get("include_usage") is True:
        return body
    # Where tokens are counted it is tried, too: a server that refuses says so before any output, and is remembered.
    asked_of = ("kept", "unknown") if context.request.is_counted else ("kept",)
    if context.optional("stream_options") not in asked_of or not isinstance(options, dict):
        return body
    context.note("add=stream_options")
    return with_values(body, {"stream_options": {**options, "include_usage": True}})
