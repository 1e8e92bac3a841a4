"""What a server's words mean: status, words and labels to the row of the table of errors."""

from __future__ import annotations

import pytest

from svir_proxy.client_request import ClientRequest
from svir_proxy.errors import KINDS
from svir_proxy.response.error_kinds import judge
from svir_proxy.response.error_words import UpstreamError

OVERFLOW = "This model's maximum context length is 4096 tokens."
NOT_MULTIMODAL = "image input is not supported - hint: you may need to provide the mmproj"
ONLY_TEXT = "Only 'text' content type is supported."


def a_request(*parts, model="tide-7b"):
    content = [{"type": "text", "text": "Hi"}, *({"type": part} for part in parts)]
    return ClientRequest.from_body(
        {"model": model, "messages": [{"role": "user", "content": content}]}, id="r", received=7
    )


# status, message, what else was said: the kind
BY_STATUS = [
    (400, "bad value", {}, "invalid_request"),
    (402, "no credit", {}, "upstream_failed"),
    (401, "no key", {}, "upstream_auth_failed"),
    (403, "not yours", {}, "upstream_auth_failed"),
    (407, "", {}, "upstream_auth_failed"),
    (408, "", {}, "upstream_timeout"),
    (413, "body too large", {}, "invalid_request"),
    (418, "", {}, "invalid_request"),
    (422, "bad value", {}, "invalid_request"),
    (429, "slow down", {}, "rate_limit_exceeded"),
    (429, "pay", {"code": "insufficient_quota"}, "quota_exceeded"),
    (301, "moved", {}, "upstream_bad_response"),
    (500, "it broke", {}, "upstream_failed"),
    (502, "it broke", {}, "upstream_failed"),
    (503, "loading", {}, "upstream_unavailable"),
    (504, "", {}, "upstream_timeout"),
    (522, "", {}, "upstream_timeout"),
    (524, "", {}, "upstream_timeout"),
    (529, "", {}, "overloaded"),
    (599, "", {}, "upstream_failed"),
]

BY_WORDS = [
    # a context that is too small, in any wording and under most statuses
    (400, OVERFLOW, {}, "context_length_exceeded"),
    (413, OVERFLOW, {}, "context_length_exceeded"),
    (500, OVERFLOW, {}, "context_length_exceeded"),
    (None, OVERFLOW, {}, "context_length_exceeded"),
    (404, OVERFLOW, {}, "context_length_exceeded"),
    (503, OVERFLOW, {}, "upstream_unavailable"),
    (400, "request (20056 tokens) exceeds the available context size (16384 tokens)", {}, "context_length_exceeded"),
    (400, "Protected conversation exceeds the available context budget.", {}, "context_length_exceeded"),
    (400, "Output reservation leaves no room for compacted context.", {}, "context_length_exceeded"),
    (400, "x", {"code": "context_length_exceeded"}, "context_length_exceeded"),
    (502, "x", {"type": "exceed_context_size_error"}, "context_length_exceeded"),
    (400, "max_tokens=300000 cannot be greater than max_model_len=262144 context length", {}, "invalid_request"),
    (413, "Request too large: tokens per minute, reduce the length of the messages", {}, "invalid_request"),
    (413, "tokens per minute", {"type": "rate_limit_exceeded"}, "rate_limit_exceeded"),
    # a filter
    (400, "blocked", {"code": "content_filter"}, "content_filter"),
    (400, "blocked", {"filtered": True}, "content_filter"),
    # a model
    (404, "The model `x` does not exist.", {}, "model_not_found"),
    (404, "x", {"code": "model_not_found"}, "model_not_found"),
    (404, "x", {"param": "model"}, "model_not_found"),
    (404, "no tide-7b here", {"type": "NotFoundError"}, "model_not_found"),
    (404, "Repo id must be in the form 'namespace/name'", {}, "model_not_found"),
    (503, "x", {"code": "DeploymentNotFound"}, "model_not_found"),
    (400, "Invalid model identifier 'x'", {}, "model_not_found"),
    (400, "model x does not exist", {"param": "messages"}, "invalid_request"),
    (400, "unknown model: this feature is not supported", {}, "invalid_request"),
    # other 404s
    (404, "", {}, "upstream_bad_response"),
    (404, "404 page not found", {}, "upstream_bad_response"),
    (404, "Not Found", {}, "upstream_bad_response"),
    (404, "Unexpected endpoint or method. (POST /chat)", {}, "upstream_bad_response"),
    (404, "the worker died", {}, "upstream_failed"),
    (404, "Invalid value for temperature", {}, "invalid_request"),
    # fields
    (400, "Unsupported parameter: 'max_tokens'", {}, "unsupported_parameter"),
    (422, "Extra inputs are not permitted", {"type": "extra_forbidden"}, "unsupported_parameter"),
    # a 500 for a request that can never work
    (500, "tools param requires --jinja flag", {}, "invalid_request"),
    (500, "Conversation roles must alternate user/assistant", {}, "invalid_request"),
    (500, "cannot identify image file", {}, "upstream_failed"),
]

STREAMED = [
    # an error in a 200, without a status
    ("x", {}, "upstream_failed"),
    ("x", {"type": "invalid_request_error"}, "invalid_request"),
    ("x", {"type": "BadRequestError"}, "invalid_request"),
    ("x", {"code": "INVALID_ARGUMENT"}, "invalid_request"),
    ("x", {"type": "ServiceUnavailableError"}, "upstream_unavailable"),
    ("x", {"type": "overloaded_error"}, "upstream_unavailable"),
    ("x", {"type": "rate_limit_error"}, "rate_limit_exceeded"),
    ("x", {"code": "insufficient_quota", "type": "insufficient_quota"}, "quota_exceeded"),
    ("Error in chat template: jinja", {}, "invalid_request"),
    ("model x not found", {}, "upstream_failed"),
    ("model x not found", {"code": "model_not_found"}, "model_not_found"),
]

PARTS = [
    # status, message, the request's parts: the kind
    (500, NOT_MULTIMODAL, ["image_url"], "image_not_supported"),
    (404, ONLY_TEXT, ["image_url"], "image_not_supported"),
    (None, "This model does not support images.", ["image_url"], "image_not_supported"),
    (400, "audio input is not supported", ["input_audio"], "audio_not_supported"),
    (400, "audio input is not supported", ["image_url", "input_audio"], "audio_not_supported"),
    (400, "file parts are not supported", ["file"], "file_not_supported"),
    (400, "video is not supported", ["video_url"], "invalid_request"),
    (404, ONLY_TEXT, ["input_audio"], "audio_not_supported"),
    (404, ONLY_TEXT, ["file"], "file_not_supported"),
    (404, ONLY_TEXT, ["video_url"], "invalid_request"),
    (400, "streaming is not supported", ["file"], "invalid_request"),
    # an image that is broken is another thing
    (400, "image: not supported base64", ["image_url"], "invalid_request"),
    (500, "cannot identify image file", ["image_url"], "invalid_request"),
    # and so is a request without one
    (500, NOT_MULTIMODAL, [], "upstream_failed"),
    (404, ONLY_TEXT, [], "invalid_request"),
    (503, NOT_MULTIMODAL, ["image_url"], "upstream_unavailable"),
]  # fmt: skip

INNER = [
    # the HTTP status, the one inside that counts: the kind
    (500, 400, "invalid_request"),
    (200, 429, "rate_limit_exceeded"),
    (400, 503, "upstream_unavailable"),
    (200, 401, "upstream_auth_failed"),
    (403, 400, "upstream_auth_failed"),
]


@pytest.mark.parametrize(("status", "message", "labels", "kind"), [*BY_STATUS, *BY_WORDS])
def test_status_and_words(status, message, labels, kind):
    assert judge(UpstreamError(message, **labels), status, status, a_request()) == kind
    assert kind in KINDS


@pytest.mark.parametrize(("message", "labels", "kind"), STREAMED)
def test_an_error_without_a_status(message, labels, kind):
    assert judge(UpstreamError(message, **labels), None, None, a_request()) == kind


@pytest.mark.parametrize(("status", "message", "parts", "kind"), PARTS)
def test_content_a_server_cannot_take(status, message, parts, kind):
    assert judge(UpstreamError(message), status, status, a_request(*parts)) == kind


@pytest.mark.parametrize(("outer", "inner", "kind"), INNER)
def test_the_inner_status_decides_but_for_the_key(outer, inner, kind):
    assert judge(UpstreamError("x"), inner, outer, a_request()) == kind


def test_a_name_in_the_words_needs_a_name_in_the_request():
    said = UpstreamError("something is missing", type="NotFoundError")
    assert judge(said, 404, 404, a_request(model=None)) == "invalid_request"
