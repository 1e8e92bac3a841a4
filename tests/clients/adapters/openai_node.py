"""The official SDK for JavaScript: chunks as they come, its streaming helper, and plain requests."""

from __future__ import annotations

from tests.clients.client import Client

CLIENT = Client(
    name="openai-node",
    module="openai.mjs",
    needs="openai",
    runs="node",
    surfaces=("stream", "helper", "plain"),
    errors={
        "invalid": "BadRequestError",
        "context": "BadRequestError",
        "key": "AuthenticationError",
        "model": "NotFoundError",
        "rate": "RateLimitError",
        "failed": "InternalServerError",
        "unavailable": "InternalServerError",
        "timeout": "InternalServerError",
        "late": "APIError",
        "late-context": "APIError",
    },
    # The helper keeps the last piece only of a key it does not know.
    differs={
        "helper/reasoning": {"reasoning": "likely."},
        "helper/reasoning-tags": {"reasoning": "ely."},
        "helper/call-reasoned": {"reasoning": "likely."},
        "helper/live-*": {"reasoning": ...},
    },
    lacks=("object-call",),
)
