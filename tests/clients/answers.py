"""What the scripted upstream answers, in forms that are known to break at least one of the clients."""

from __future__ import annotations

from typing import Any, Final

from svir_proxy.conform.upstream import Answer, json_answer
from tests.clients.wire import DONE, USAGE, call, chunk, completion, event, stream, text, usage

PIECES: Final = ("Sm\u00f8rre", "br\u00f8d \U0001f389, ", "twice.\n")
"""What is said in all of them."""
SAID: Final = "".join(PIECES)
THOUGHT: Final = "Rain is\nlikely."
"""What is thought before, in those with reasoning."""
_SAID: Final = [chunk({"content": piece}) for piece in PIECES]


def plain() -> Answer:
    """As OpenAI says it."""
    return text(*PIECES)


def odd() -> Answer:
    """No role, an empty id, content as parts, a running total in each chunk, a finish of its own, no [DONE]; CRLF."""
    odd: dict[str, Any] = {"id": "", "created": 1.79e9, "object": "chat.completion", "timings": {"ms": 1}}
    said = b""
    for tokens, piece in enumerate(PIECES):
        delta = {"content": [{"type": "text", "text": piece}], "tool_calls": None}
        said += chunk(delta, "", **odd, usage={**USAGE, "completion_tokens": tokens})
    body = b": ping\n\n" + said + chunk({}, "eos", **odd, usage=USAGE)
    return stream(b"\xef\xbb\xbf" + body.replace(b"data:", b"event: message\ndata:").replace(b"\n", b"\r\n"))


def reasoning() -> Answer:
    """Under ``reasoning``, which several clients do not read."""
    thought = [chunk({"role": "assistant", "content": None, "reasoning": piece}) for piece in ("Rain is\n", "likely.")]
    return stream(*thought, *_SAID, chunk({}, "stop"), usage(), DONE)


def reasoning_tags() -> Answer:
    """Inline, which no client reads; the tags are cut."""
    pieces = ("<th", "ink>Rain is\nlik", "ely.</", "think>", *PIECES)
    return stream(*(chunk({"content": piece}) for piece in pieces), chunk({}, "stop"), usage(), DONE)


def one_call() -> Answer:
    """No id, no index, the name in two pieces, the arguments as an object; finish ``stop``."""
    pieces = (call(name="get_"), call(name="weather"), call(arguments={"city": "Oslo"}))
    return stream(*pieces, chunk({}, "stop"), usage(), DONE, then=plain())


def parallel() -> Answer:
    """Two calls that share an id, in pieces that alternate."""
    pieces = (
        call(0, "call_1", "get_weather", ""),
        call(1, "call_1", "get_time", ""),
        call(1, arguments='{"zone":'),
        call(0, arguments='{"city":'),
        call(0, arguments='"Oslo"}'),
        call(1, arguments='"CET"}'),
    )
    return stream(*pieces, chunk({}, "tool_calls"), usage(), DONE, then=plain())


def call_as_text() -> Answer:
    """As the model wrote it."""
    pieces = ("<tool", '_call>\n{"name": "get_weather", "argu', 'ments": {"city": "Oslo"}}\n</tool_call>')
    return stream(*(chunk({"content": piece}) for piece in pieces), chunk({}, "stop"), DONE, then=plain())


def call_reasoned() -> Answer:
    """Reasoning, then a call; the reasoning has to come back with the call."""
    pieces = (chunk({"reasoning": "Rain is\n"}), chunk({"reasoning": "likely."}))
    said = call(0, "a", "get_weather", '{"city": "Oslo"}')
    return stream(*pieces, said, chunk({}, "tool_calls"), DONE, then=plain())


def one_object() -> Answer:
    pieces = ('{"city": "Os', 'lo", "days": 3}')
    return stream(*(chunk({"content": piece}) for piece in pieces), chunk({}, "stop"), usage(), DONE)


def object_call() -> Answer:
    return stream(call(0, "", "Trip", '{"city": "Oslo", "days": 3}'), chunk({}, "stop"), usage(), DONE)


def late_error() -> Answer:
    """A 200, text, then an error without the usual keys and with a numeric code."""
    return stream(*_SAID, b"event: error\n" + event({"error": {"message": "the slot was lost", "code": 500}}))


def context() -> Answer:
    """As LM Studio says it: status 200, an event, no code."""
    message = "The number of tokens to keep from the initial prompt is greater than the context length."
    return stream(b"event: error\n" + event({"error": {"message": message}}))


def recovers() -> Answer:
    answer = refused(503, "Loading model", 1)
    answer.then = plain()
    return answer


def refused(status: int, message: str, wait: int | None = None, **more: Any) -> Answer:
    answer = json_answer(
        {"error": {"message": message, "type": "api_error", "param": None, "code": None, **more}}, status
    )
    answer.headers = {**answer.headers, **({} if wait is None else {"retry-after": str(wait)})}
    return answer


def as_json() -> Answer:
    """One object, although a stream was asked for."""
    return Answer(200, {"content-type": "application/json"}, [completion({"content": SAID}, "stop")])


def length() -> Answer:
    """The limit was reached, in another server's word."""
    return stream(*_SAID, chunk({}, "max_tokens"), usage(), DONE)


def late_cut() -> Answer:
    """The connection breaks after some text."""
    return stream(*_SAID, cut=True)


def late_end() -> Answer:
    """The answer just ends after some text, which most clients take for all of it."""
    return stream(*_SAID)


def html() -> Answer:
    """A 500 of something in between."""
    return Answer(500, {"content-type": "text/html"}, [b"<h1>Internal Server Error</h1>"])


def nothing() -> Answer:
    """A stream without an answer."""
    return stream(DONE)


def dropped() -> Answer:
    """The connection is closed without a word."""
    return Answer(None)
