"""What an answer amounts to: answered, refused, or nothing that says anything of the request."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest

from svir_proxy.probe.answer import Answer, Ask, Call, Reader, Reading, read_raw
from tests.probe.simulated import Simulated, json_answer
from tests.probe.support import GENERIC

TOOLS: Final = [{"type": "function", "function": {"name": "get_weather", "parameters": {}}}]
WRITTEN: Final = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Oslo"}}\n</tool_call>'


def _ask(content: Any = "Hi.", *, leave: bool = False, **fields: Any) -> Ask:
    return Ask({"model": "m", "messages": [{"role": "user", "content": content}], **fields}, leave)


def _read(answer: Answer, ask: Ask | None = None, *secrets: str) -> Reading:
    return Reader(GENERIC, secrets).read(ask or _ask(), answer, GENERIC.response)


def _plain(**message: Any) -> Answer:
    choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "", **message}}
    return json_answer({"id": "c", "object": "chat.completion", "model": "m", "choices": [choice]})


def _stream(*deltas: dict[str, Any], end: str = "data: [DONE]\n\n") -> bytes:
    chunks = [{"choices": [{"index": 0, "delta": delta}]} for delta in deltas]
    return ("".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks) + end).encode()


@pytest.mark.parametrize(
    ("answer", "outcome", "kind"),
    [
        (_plain(content="Hi!"), "answered", None),
        (_plain(), "answered", None),
        (Answer(200, {}, _stream({"content": "Hi!"})), "answered", None),
        # the request is at fault
        (json_answer({"error": {"message": "tools is not supported"}}, 400), "refused", "invalid_request"),
        (json_answer({"detail": [{"loc": ["body", "n"], "msg": "Input should be 1"}]}, 422), "refused", "invalid_request"),
        (json_answer({"error": "Unexpected message role."}, 404), "refused", "invalid_request"),
        (json_answer({"error": {"message": "model x does not exist"}}, 404), "refused", "model_not_found"),
        (json_answer({"error": {"message": "Failed to parse messages: Missing 'role'"}}, 500), "refused", "invalid_request"),
        (json_answer({"error": {"message": "not implemented"}}, 501), "refused", "upstream_failed"),
        (json_answer({"error": {"message": "x", "type": "invalid_request_error"}}), "refused", "invalid_request"),
        (Answer(200, {}, b'data: {"error": {"message": "no", "code": 400}}\n\n'), "refused", "invalid_request"),
        # nothing that says anything of the request
        (Answer(None, trouble="no connection"), "failed", None),
        (json_answer({"error": {"message": "slow down"}}, 429), "failed", "rate_limit_exceeded"),
        (json_answer({"error": {"message": "oops"}}, 500), "failed", "upstream_failed"),
        (json_answer({"error": {"message": "loading"}}, 503), "failed", "upstream_unavailable"),
        (json_answer({"error": {"message": "who are you"}}, 401), "failed", "upstream_auth_failed"),
        (json_answer({"detail": "Not Found"}, 404), "failed", "upstream_bad_response"),
        (json_answer({"error": {"message": "the engine died"}}), "failed", "upstream_failed"),
        (json_answer({"hello": "world"}), "failed", "upstream_bad_response"),
        (Answer(200, {}, b"<html>Welcome</html>"), "failed", "upstream_bad_response"),
        (Answer(200, {}, b""), "failed", "stream_truncated"),
        (Answer(200, {}, _stream({"content": "H"}, end=""), whole=False, trouble="cut"), "failed", "stream_truncated"),
        (Answer(400, {}, b'{"error":{"message":"ha', whole=False, trouble="cut"), "failed", "invalid_request"),
    ],
)  # fmt: skip
def test_the_outcome(answer: Answer, outcome: str, kind: str | None) -> None:
    reading = _read(answer)
    assert (reading.outcome, reading.kind) == (outcome, kind)
    assert (reading.words == "") == (outcome == "answered")


def test_an_image_that_is_refused_with_500_is_refused() -> None:
    ask = _ask([{"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}])
    reading = _read(json_answer({"error": {"message": "image input is not supported"}}, 500), ask)
    assert (reading.outcome, reading.kind) == ("refused", "image_not_supported")
    assert reading.words == "500 image input is not supported"


@pytest.mark.parametrize(
    ("body", "outcome"),
    [(_stream({"role": "assistant", "content": ""}, {"content": "H"}, end=""), "answered"), (b"", "answered"),
     (b'data: {"error": {"message": "prompt too long", "code": 400}}\n\n', "refused")],
)  # fmt: skip
def test_who_left_saw_enough(body: bytes, outcome: str) -> None:
    reading = _read(Answer(200, {}, body, whole=False, left=True), _ask(leave=True, stream=True))
    assert reading.outcome == outcome


@pytest.mark.parametrize("stream", [True, False])
def test_calls_are_structured_or_written(*, stream: bool) -> None:
    ask = _ask("Call get_weather", tools=TOOLS, stream=stream)
    reading = _read(Simulated().answer(ask.body), ask)
    assert (reading.calls, reading.written) == ((Call("get_weather", '{"city": "Oslo"}'),), False)
    answer = Answer(200, {}, _stream({"content": WRITTEN})) if stream else _plain(content=WRITTEN)
    reading = _read(answer, ask)
    assert (reading.calls, reading.written) == ((Call("get_weather", '{"city": "Oslo"}'),), True)
    assert not _read(answer, _ask(stream=stream)).calls


@pytest.mark.parametrize("stream", [True, False])
def test_what_the_server_counts(*, stream: bool) -> None:
    ask = _ask(stream=stream, stream_options={"include_usage": True}, max_tokens=2)
    reading = _read(Simulated().answer(ask.body), ask)
    assert (reading.prompt_tokens, reading.completion_tokens, reading.cut) == (1, 2, True)
    ask = _ask()
    reading = _read(Simulated(counts=False).answer(ask.body), ask)
    assert (reading.prompt_tokens, reading.completion_tokens, reading.cut) == (None, None, False)


def test_the_raw_answer() -> None:
    body = (
        b": keepalive\n\n: keepalive\n\n"
        + _stream({"content": "<think>a"}, {"reasoning": "b"}, {"content": "</think>c"}, end="")
        + b'data: {"model": "x", "choices": [{"delta": {}, "logprobs": {"content": [{"token": "c"}, 5]}}]}\n\n'
        + b'data: no JSON\n\ndata: [1]\n\ndata: {"choices": [], "usage": {"prompt_tokens": true}}\n\ndata: [DONE]\n\n'
    )
    raw = read_raw(body)
    assert raw.texts == ("<think>a", "</think>c")
    assert (raw.comments, raw.done, raw.streamed, raw.model) == (2, True, True, "x")
    assert raw.reasoning_keys == {"reasoning"}
    assert raw.logprobs == ({"token": "c"},)
    assert Reading("answered", raw=raw).prompt_tokens is None


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"choices": 5}', b'{"choices": [5]}', b"\xff\xfe", b"<html>"])
def test_a_raw_answer_that_is_none(body: bytes) -> None:
    assert read_raw(body).texts == ()


KEY: Final = 'a-key"of mine'


@pytest.mark.parametrize(
    "answer",
    [
        _plain(content=f"It is {KEY}."),
        _plain(reasoning_content=f"It is {KEY}."),
        _plain(tool_calls=[{"id": "1", "function": {"name": KEY, "arguments": json.dumps({"k": KEY})}}]),
        Answer(200, {}, _stream({"content": "It is a-key"}, {"content": '"of mine.'})),
        json_answer({"error": {"message": f"no {KEY}"}}, 400),
        Answer(401, {}, f"no {KEY}".encode()),
        Answer(None, trouble=f"no connection with {KEY}"),
    ],
)
def test_a_key_is_nowhere(answer: Answer) -> None:
    reading = _read(answer, _ask(tools=TOOLS), KEY)
    told = (reading.words, reading.message, reading.text, reading.reasoning, str(reading.calls), reading.raw.said)
    assert "of mine" not in "".join(told)
    assert "[key]" in "".join(told)
