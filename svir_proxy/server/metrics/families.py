"""Every metric there is: its name, what it counts, by which labels. The page of them is made from this table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

Kind = Literal["counter", "gauge", "histogram", "info"]
Merge = Literal["sum", "min"]

_SECONDS: Final = (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0)
_FIRST: Final = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0)
_RATES: Final = (1.0, 2.5, 5.0, 10.0, 20.0, 30.0, 50.0, 75.0, 100.0, 150.0, 250.0, 500.0, 1000.0, 2500.0)


@dataclass(frozen=True, slots=True)
class Family:
    """One metric.

    Attributes:
        name: Without what its kind adds: ``_total`` of a counter, ``_info``, ``_bucket`` and so on of a histogram.
        kind: As Prometheus has it.
        labels: The labels' names, in the order that values are kept in.
        help: What it says, in a sentence.
        buckets: The upper bounds of a histogram, ascending, without infinity.
        merge: What several workers' gauges come to.
    """

    name: str
    kind: Kind
    labels: tuple[str, ...]
    help: str
    buckets: tuple[float, ...] = ()
    merge: Merge = "sum"

    @property
    def shown_name(self) -> str:
        """The name as queries have it."""
        return self.name + {"counter": "_total", "info": "_info"}.get(self.kind, "")


REQUESTS: Final = Family(
    "svir_requests",
    "counter",
    ("endpoint", "backend", "model", "status"),
    "Requests that have ended, by the HTTP status of their answer. 499: the client left. A stream that failed after it"
    " had begun has 200, and is among the errors.",
)
ERRORS: Final = Family(
    "svir_errors",
    "counter",
    ("endpoint", "backend", "model", "code"),
    "Requests that ended with an error, by the kind of error; also streams that failed after they had begun.",
)
REQUEST_SECONDS: Final = Family(
    "svir_request_duration_seconds",
    "histogram",
    ("endpoint", "backend", "model"),
    "From a request's head to the end of its answer.",
    _SECONDS,
)
FIRST_TOKEN: Final = Family(
    "svir_time_to_first_token_seconds",
    "histogram",
    ("backend", "model"),
    "From the head of a streamed chat request to the first output of its answer, waiting in line included.",
    _FIRST,
)
RATE: Final = Family(
    "svir_output_tokens_per_second",
    "histogram",
    ("backend", "model"),
    "The speed of an answer from its first visible token to its last, where the server reported its tokens and that"
    " took at least 50 ms.",
    _RATES,
)
INPUT: Final = Family(
    "svir_input_tokens",
    "counter",
    ("backend", "model"),
    "Tokens of chat prompts, as the servers reported them.",
)
CACHED: Final = Family(
    "svir_cached_input_tokens",
    "counter",
    ("backend", "model"),
    "Tokens of prompts that were in the server's cache, as reported; part of the input tokens.",
)
OUTPUT: Final = Family(
    "svir_output_tokens", "counter", ("backend", "model"), "Tokens of answers, as the servers reported them."
)
REASONING: Final = Family(
    "svir_reasoning_tokens",
    "counter",
    ("backend", "model"),
    "Tokens of reasoning, as reported; part of the output tokens.",
)
REWRITES: Final = Family(
    "svir_rewrites",
    "counter",
    ("backend", "note"),
    "What was changed in requests, or found odd in answers, in the words of x-svir-rewrites without the client's own.",
)
RETRIES: Final = Family(
    "svir_retries",
    "counter",
    ("backend", "model", "reason"),
    "Requests that a backend was asked a second time: rejected, for a field that it did not take; unmet, for a demand"
    " that its answer did not meet.",
)
FAILOVERS: Final = Family(
    "svir_failovers",
    "counter",
    ("backend", "model", "code"),
    "Requests that went on to another backend, by the one that failed and its kind of error.",
)
OPEN_REQUESTS: Final = Family(
    "svir_open_requests",
    "gauge",
    ("backend",),
    "Requests that are being answered, by the backend that is asked; without one: not yet, or none is.",
)
OPEN_STREAMS: Final = Family(
    "svir_open_streams", "gauge", ("backend",), "Those among the open requests that asked for a stream."
)
PLACES: Final = Family("svir_places", "gauge", ("backend",), "Requests that a backend gets at a time (max_requests).")
PLACES_TAKEN: Final = Family("svir_places_taken", "gauge", ("backend",), "Places at a backend that are taken.")
WAITING: Final = Family("svir_requests_waiting", "gauge", ("backend",), "Requests in line for a place at a backend.")
BREAKER: Final = Family(
    "svir_breaker_state",
    "gauge",
    ("backend", "model", "state"),
    "Workers in which the breaker of a backend's model is in that state, of models that failed last; the model is the"
    " server's own id.",
)
BACKEND_UP: Final = Family(
    "svir_backend_up",
    "gauge",
    ("backend",),
    "1: the backend's model list was read the last time it was asked for; 0: the backend did not answer. Of several"
    " workers the worst. It is asked for every routing.health_seconds, else when a request needs it.",
    merge="min",
)
STORE_UP: Final = Family(
    "svir_limit_store_up",
    "gauge",
    (),
    "1: the store that limits are counted in (auth.store) answers; 0: it does not, and auth.store_down decides. Of"
    " several workers the worst.",
    merge="min",
)
LOG_LINES_DROPPED: Final = Family(
    "svir_log_lines_dropped", "counter", (), "Lines of the log that were left out since stderr took none."
)
WORKERS: Final = Family("svir_workers", "gauge", (), "Processes that serve, and whose numbers these are.")
BUILD: Final = Family("svir_build", "info", ("version", "python"), "The version of svir-proxy, and of Python.")

FAMILIES: Final = (
    *(REQUESTS, ERRORS, REQUEST_SECONDS, FIRST_TOKEN, RATE, INPUT, CACHED, OUTPUT, REASONING),
    *(REWRITES, RETRIES, FAILOVERS, OPEN_REQUESTS, OPEN_STREAMS, PLACES, PLACES_TAKEN, WAITING),
    *(BREAKER, BACKEND_UP, STORE_UP, LOG_LINES_DROPPED, WORKERS, BUILD),
)
BY_NAME: Final = {family.name: family for family in FAMILIES}
