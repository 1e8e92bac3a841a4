"""What is known of one request, from its head to its end: for its line in the log, and for whoever else counts."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from svir_proxy.errors import ProxyError
from svir_proxy.server.quotas.tokens import Meter

if TYPE_CHECKING:
    from svir_proxy.server.inspector.exhibit import Exhibit
    from svir_proxy.server.tracing.request_trace import RequestTrace


class Progress(Protocol):
    """What has come of an answer so far."""

    @property
    def pieces(self) -> int:
        """Events of the answer that came: about as many as tokens, where it is streamed."""

    @property
    def first_output(self) -> float | None:
        """When the first output came (`time.perf_counter`); None: none yet."""

    @property
    def last_output(self) -> float | None:
        """When the last output came, in the same clock, once no more does; None: there was none to wait for."""

    @property
    def has_reasoning(self) -> bool:
        """Whether it began with reasoning: whose server shows it does so first."""

    @property
    def usage(self) -> dict[str, Any] | None:
        """The server's token counts, as `UsageReported` has them; None: it has reported none."""

    @property
    def finish_reason(self) -> str | None:
        """Why it ended, in OpenAI's words; None: it has not."""


class Granted(Protocol):
    """A request that was let in under limits."""

    def settle(self, record: RequestRecord) -> None:
        """The request is over: count what it took."""


@dataclass(slots=True, eq=False)
class RequestRecord:
    """One request. Whoever learns something of it writes it down here; nothing is taken back but by a failover."""

    id: str
    method: str
    path: str
    key: str | None = None
    """The name of the key that was shown."""
    model: str = ""
    """As the client named it."""
    may: Callable[[str], bool] | None = None
    """Which models' names its key may use, and be told of; None: all."""
    grant: Granted | None = None
    """What it was let in with, to be settled when it is over; None: nothing is counted."""
    meter: Meter | None = None
    """What its tokens are counted with; None: they are not."""
    backend: str = ""
    """Who was asked last."""
    stream: bool = False
    status: int = 0
    """Of the answer; 0: there is none yet."""
    error: ProxyError | None = None
    notes: tuple[str, ...] = ()
    """What was changed, in the words of ``x-svir-rewrites``; known at the end."""
    answer: Progress | None = None
    """The answer to a chat request, while it comes and after it."""
    trace: RequestTrace | None = None
    """Its spans, where it is traced."""
    exhibit: Exhibit | None = None
    """Where the inspector has it written down; None: nobody looks."""
    began: float = field(default_factory=time.perf_counter)
    """When its head had come (`time.perf_counter`)."""
    ended: float | None = None
    """When it was over, in the same clock; None: it is not."""

    @property
    def seconds(self) -> float:
        """How long it took, or has taken until now."""
        return (time.perf_counter() if self.ended is None else self.ended) - self.began

    @property
    def is_fault(self) -> bool:
        """Whether it failed, other than by what the client asked."""
        # A stream that failed has the status 200; its error has the one that it would have had before.
        return self.status >= 500 or (self.error is not None and self.error.status >= 500)
