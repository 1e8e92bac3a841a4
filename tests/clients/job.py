"""What a client is asked to do and what it saw: the words that the tests and the processes of the clients share.

Standard library only: a client may run in an environment of its own.
"""

from __future__ import annotations

import json
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Task = Literal["text", "tools", "object", "object-call"]
"""text: ask, and read the answer. tools: offer `TOOLS`, answer each call from `RESULTS`, ask again until there is no
call. object: ask for an object of `SCHEMA` in the client's own way. object-call: the same, by way of a call."""

TIRED: Final = 60.0
"""Seconds after which a client gives up on an answer; nothing here takes that long."""


def _tool(name: str, description: str, argument: str) -> dict[str, Any]:
    parameters = {
        "type": "object",
        "properties": {argument: {"type": "string"}},
        "required": [argument],
        "additionalProperties": False,
    }
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


TOOLS: Final = [
    _tool("get_weather", "The weather in a city", "city"),
    _tool("get_time", "The time in a zone", "zone"),
]
RESULTS: Final = {"get_weather": "rain, 7 degrees [[s:answer]]", "get_time": "12:30"}
"""What each tool answers; the end of the first is for the live model."""
OBJECT: Final = "Trip"
SCHEMA: Final = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
    "required": ["city", "days"],
    "additionalProperties": False,
}


@dataclass(frozen=True, slots=True)
class Job:
    """One thing to ask.

    Attributes:
        id: Sent as ``x-request-id``, so that the proxy's log tells how often it was asked.
        surface: The way of the client that is used, such as its streaming or its plain call.
        model: Names what the upstream answers.
        key: The key to show.
        task: What to ask for.
        base_url: The proxy's, with ``/v1``.
        prompt: What the user says.
    """

    id: str
    surface: str
    model: str
    key: str
    task: Task
    base_url: str
    prompt: str

    @property
    def messages(self) -> list[Any]:
        """The prompt, in the shape of the API."""
        return [{"role": "user", "content": self.prompt}]

    @property
    def headers(self) -> dict[str, str]:
        """Headers that the client adds."""
        return {"x-request-id": self.id}


def plan_of(jobs: Sequence[Job]) -> str:
    """The plan: the jobs, and for other languages what stands in this file."""
    shared = {"tools": TOOLS, "results": RESULTS, "object": OBJECT, "schema": SCHEMA, "tired": TIRED}
    return json.dumps({"jobs": [asdict(job) for job in jobs], **shared})


@dataclass(slots=True)
class Outcome:
    """What the client made of it.

    Attributes:
        text: The text of the last answer; what came before an error stays.
        reasoning: All of it, or None where the client has no place for it.
        calls: Name and arguments of each call, in order.
        finish: The last finish reason, in the client's words.
        usage: Input and output tokens of the last answer, if the client tells.
        value: The object asked for.
        errors: The class of the exception and its bases, empty without one: what ``except`` can name.
        status, code, message: What the client tells of the error.
        wait: ``Retry-After``, as it can be had from the error.
    """

    text: str = ""
    reasoning: str | None = ""
    calls: list[tuple[str, Any]] = field(default_factory=list)
    finish: str | None = None
    usage: tuple[int, int] | None = None
    value: Any = None
    errors: list[str] = field(default_factory=list)
    status: int | None = None
    code: str | None = None
    message: str = ""
    wait: str | None = None

    def fail(self, error: BaseException) -> None:
        """Notes an exception as it shows itself."""
        body = getattr(error, "body", None)
        told = body if isinstance(body, dict) else {}
        self.errors = [base.__name__ for base in type(error).__mro__ if base.__module__ != "builtins"] or [
            type(error).__name__
        ]
        self.status = getattr(error, "status_code", None)
        self.code = getattr(error, "code", None) or told.get("code")
        self.message = getattr(error, "message", None) or str(error)
        response = getattr(error, "response", error)
        headers = getattr(error, "litellm_response_headers", None) or getattr(response, "headers", None) or {}
        self.wait = headers.get("retry-after")


def serve(ask: Callable[[Job, Outcome], None]) -> None:
    """Does the jobs of the plan in the first file named, all at once, and writes the outcomes to the second."""
    jobs = [Job(**job) for job in json.loads(Path(sys.argv[1]).read_text("utf-8"))["jobs"]]

    def run(job: Job) -> Outcome:
        outcome = Outcome()
        try:
            ask(job, outcome)
        except Exception as error:  # noqa: BLE001 -- which one is what the tests want to know
            outcome.fail(error)
        return outcome

    with ThreadPoolExecutor(len(jobs)) as pool:
        outcomes = {job.id: asdict(outcome) for job, outcome in zip(jobs, pool.map(run, jobs), strict=True)}
    Path(sys.argv[2]).write_text(json.dumps(outcomes), "utf-8")
