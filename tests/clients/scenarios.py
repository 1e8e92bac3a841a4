"""The table that all clients share: what the upstream sends, and what a client must see of it.

The scripted upstream says everything in a form that is known to break at least one of the clients when they talk to it
directly, as LM Studio, mlx-lm, vLLM, llama.cpp or Azure do. What a client has to see is what the proxy made of it. The
rows called ``live`` come from a real llama.cpp whose model says what it is told to.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from tests.clients import answers
from tests.clients.answers import SAID, THOUGHT, refused
from tests.clients.wire import USAGE

if TYPE_CHECKING:
    from collections.abc import Callable

    from svir_proxy.conform.upstream import Answer
    from tests.clients.job import Task


@dataclass(frozen=True, slots=True)
class Scenario:
    """One row.

    Attributes:
        upstream: Makes the answer of the scripted upstream; the name of a script of the live model.
        task: What the client does.
        sees: Fields of the outcome; what is not named may be anything.
        error: A key of the clients' tables of exceptions, None where there is no error.
        curable: Whether it is worth asking again, which clients that ask again then do.
        asks: Requests of a client that does what it is told, without those that ask again.
        wrong_key: The client shows a key that the proxy does not know.
        reconnects: The proxy asks once more on a new connection, since the first may only have grown old.
        hasty: The proxy begins its streams at once, as it does when a server is silent for long.
    """

    upstream: Callable[[], Answer] | str
    task: Task = "text"
    sees: dict[str, Any] = field(default_factory=dict)
    error: str | None = None
    curable: bool = False
    asks: int = 1
    wrong_key: bool = False
    reconnects: bool = False
    hasty: bool = False

    @property
    def live(self) -> bool:
        """Whether the upstream is a real one."""
        return isinstance(self.upstream, str)


OSLO: Final = ("get_weather", {"city": "Oslo"})
CET: Final = ("get_time", {"zone": "CET"})
TRIP: Final = {"city": "Oslo", "days": 3}
_TOKENS: Final = (USAGE["prompt_tokens"], USAGE["completion_tokens"])


def _said(text: str = SAID, **sees: Any) -> dict[str, Any]:
    return {"text": text, "reasoning": "", "calls": [], "finish": "stop", **sees}


def _answered(**sees: Any) -> dict[str, Any]:
    return _said(usage=_TOKENS, **sees)


def _error(status: int, code: str | None, message: str) -> dict[str, Any]:
    return {"status": status, "code": code, "message": message}


def _late(code: str, message: str, text: str = SAID) -> dict[str, Any]:
    """After the stream began: no status is left, the text stays."""
    return {"text": text, "status": None, "code": code, "message": message}


SCENARIOS: Final[dict[str, Scenario]] = {
    # ------------------------------------------------------------- answers
    "text": Scenario(answers.plain, sees=_answered()),
    "text-odd": Scenario(answers.odd, sees=_answered()),
    "text-as-json": Scenario(answers.as_json, sees=_answered()),
    "length": Scenario(answers.length, sees=_answered(finish="length")),
    "reasoning": Scenario(answers.reasoning, sees=_answered(reasoning=THOUGHT)),
    "reasoning-tags": Scenario(answers.reasoning_tags, sees=_answered(reasoning=THOUGHT)),
    "call": Scenario(answers.one_call, "tools", _answered(calls=[OSLO]), asks=2),
    "call-parallel": Scenario(answers.parallel, "tools", _answered(calls=[OSLO, CET]), asks=2),
    "call-as-text": Scenario(answers.call_as_text, "tools", _answered(calls=[OSLO]), asks=2),
    "call-reasoned": Scenario(answers.call_reasoned, "tools", _answered(calls=[OSLO], reasoning=THOUGHT), asks=2),
    "object": Scenario(answers.one_object, "object", {"value": TRIP}),
    "object-call": Scenario(answers.object_call, "object-call", {"value": TRIP}),
    "recovers": Scenario(answers.recovers, sees=_answered(), asks=2),
    # ------------------------------------------------------------- errors that no repeat cures
    "invalid": Scenario(
        lambda: refused(400, "messages: the first one must be of the user"),
        sees=_error(400, None, "the first one must be of the user"),
        error="invalid",
    ),
    "context": Scenario(
        answers.context, sees=_error(400, "context_length_exceeded", "maximum context length"), error="context"
    ),
    "wrong-key": Scenario(answers.plain, sees=_error(401, "invalid_api_key", "key"), error="key", wrong_key=True),
    "no-model": Scenario(
        lambda: refused(404, "The model 'x' does not exist", code="model_not_found"),
        sees=_error(404, "model_not_found", "does not exist"),
        error="model",
    ),
    "proxy-key": Scenario(
        lambda: refused(401, "Incorrect API key provided"),
        sees=_error(502, "upstream_auth_failed", "api_key of the backend"),
        error="failed",
    ),
    # ------------------------------------------------------------- errors that a repeat may cure
    "rate": Scenario(
        lambda: refused(429, "Too many requests", 2),
        sees={**_error(429, "rate_limit_exceeded", "Too many requests"), "wait": "2"},
        error="rate",
        curable=True,
    ),
    "failed": Scenario(
        answers.html, sees=_error(502, "upstream_failed", "Internal Server Error"), error="failed", curable=True
    ),
    "dropped": Scenario(
        answers.dropped,
        sees=_error(502, "upstream_failed", "closed the connection"),
        error="failed",
        curable=True,
        reconnects=True,
    ),
    "empty": Scenario(
        answers.nothing, sees=_error(502, "upstream_bad_response", "base_url"), error="failed", curable=True
    ),
    "unavailable": Scenario(
        lambda: refused(503, "Loading model"),
        sees={**_error(503, "upstream_unavailable", "Loading model"), "wait": "1"},
        error="unavailable",
        curable=True,
    ),
    "timeout": Scenario(
        lambda: refused(504, "upstream request timeout"),
        sees=_error(504, "upstream_timeout", "timeout"),
        error="timeout",
        curable=True,
    ),
    # ------------------------------------------------------------- errors after output
    "late-error": Scenario(answers.late_error, sees=_late("upstream_failed", "the slot was lost"), error="late"),
    "late-cut": Scenario(answers.late_cut, sees=_late("stream_truncated", "broke the connection"), error="late"),
    "late-end": Scenario(answers.late_end, sees=_late("stream_truncated", "without a finish reason"), error="late"),
    # ------------------------------------------------------------- after a silence: the stream has begun, empty
    "hasty-text": Scenario(answers.plain, sees=_answered(), hasty=True),
    "hasty-call": Scenario(answers.one_call, "tools", _answered(calls=[OSLO]), asks=2, hasty=True),
    "hasty-context": Scenario(
        answers.context,
        sees=_late("context_length_exceeded", "maximum context length", text=""),
        error="late-context",
        hasty=True,
    ),
    "hasty-failed": Scenario(
        answers.html, sees=_late("upstream_failed", "Internal Server Error", text=""), error="late", hasty=True
    ),
    # ------------------------------------------------------------- a real server
    "live-text": Scenario("answer", sees=_said("It rains in Oslo, seven degrees.")),
    "live-reasoning": Scenario("think", sees=_said("Take a coat.", reasoning="Rain is likely.\n")),
    "live-call": Scenario(
        "call", "tools", _said("It rains in Oslo, seven degrees.", calls=[OSLO], reasoning="Oslo is meant.\n"), asks=2
    ),
    "live-object": Scenario("object", "object", {"value": TRIP}),
}

SCRIPTS: Final = {
    "default": "Nothing was asked.",
    "think": "<think>\nRain is likely.\n</think>\n\nTake a coat.",
    "call": "<think>\nOslo is meant.\n</think>\n\n"
    '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Oslo"}}\n</tool_call>',
    "object": '{"city": "Oslo", "days": 3}',
    "answer": "It rains in Oslo, seven degrees.",
}
"""What the live model says to ``[[s:NAME]]``; the last of several counts, so that a result can lead to ``answer``."""
