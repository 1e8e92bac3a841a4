"""An exchange as the rules see it, whatever it is."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from svir_proxy.conform.exchange import Exchange, Request
from svir_proxy.conform.interview import Interview
from svir_proxy.conform.reading import Reading
from svir_proxy.conform.rules import RULES
from tests.conform.servers import envelope, stream

CHAT = "/v1/chat/completions"
PLAIN, STREAMED = Request(CHAT, {"model": "m"}), Request(CHAT, {"model": "m", "stream": True})


@pytest.mark.parametrize(
    ("request_", "status", "kind"),
    [
        (PLAIN, 200, "completion"),
        (STREAMED, 200, "stream"),
        (STREAMED, 400, "error"),
        (PLAIN, None, "none"),
        (PLAIN, 302, "none"),
        (Request(CHAT, {"stream": True}, leave=b"x"), 200, "none"),
        (Request("/v1/models"), 200, "models"),
        (Request("/models"), 200, "models"),
        (Request("/v1/models/a/b"), 200, "model"),
    ],
)
def test_the_kind_is_what_the_answer_has_to_be(request_: Request, status: int | None, kind: str) -> None:
    assert Reading("q", Exchange(request_, status)).kind == kind


def test_an_error_is_found_in_a_body_and_in_a_stream() -> None:
    body = envelope(404, "model_not_found")
    assert Reading("q", Exchange(PLAIN, 404, body=json.dumps(body).encode())).error == body["error"]
    assert Reading("q", stream(STREAMED, [body])).error == body["error"]
    assert Reading("q", Exchange(PLAIN, 404, body=b'{"error": "text"}')).error == {}


def test_evidence_shows_the_event_and_the_word_that_is_meant() -> None:
    reading = Reading("stream", stream(STREAMED, [{"first": 1}, {"pad": "x" * 500, "timings": {}}]))
    told = reading.evidence("'timings' was unexpected", "event 2").splitlines()
    assert told[0] == "stream: event 2: 'timings' was unexpected"
    assert '"timings"' in told[1]
    assert "first" not in told[1]


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "choices",
                    "delta",
                    "message",
                    "tool_calls",
                    "function",
                    "error",
                    "usage",
                    "index",
                    "id",
                    "content",
                    "data",
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)
_BODY = (
    st.binary(max_size=60)
    | _JSON.map(lambda value: json.dumps(value).encode())
    | st.lists(_JSON, max_size=4).map(
        lambda items: b"".join(b"data: %b\n\n" % json.dumps(item).encode() for item in items)
    )
)


@given(body=_BODY, status=st.sampled_from([200, 400, 500, 302]), streamed=st.booleans())
def test_no_answer_stops_a_rule(body: bytes, status: int, streamed: bool) -> None:
    """Whatever comes back to whatever question, each rule has its verdicts."""
    request: dict[str, Any] = {"model": "m", "stream": streamed, "stop": ["word"], "tools": []}
    interview = Interview("m")
    for question in (
        "plain",
        "stream",
        "tools",
        "two calls",
        "json_schema",
        "stop",
        "too long",
        "unknown model",
        "max_tokens",
    ):
        interview.take(question, Exchange(Request(CHAT, request), status, {}, body))
    interview.take("models", Exchange(Request("/v1/models"), status, {}, body))
    interview.take("model", Exchange(Request("/v1/models/m"), status, {}, body))
    for rule in RULES:
        assert all(isinstance(verdict, str) for verdict in rule.look(interview))
