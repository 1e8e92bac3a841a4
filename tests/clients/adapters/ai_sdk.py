"""The AI SDK with ``@ai-sdk/openai-compatible``, streamed and plain, with and without structured outputs turned on."""

from __future__ import annotations

from tests.clients.client import Client

CLIENT = Client(
    name="ai",
    module="ai_sdk.mjs",
    needs="@ai-sdk/openai-compatible",
    runs="node",
    surfaces=("stream", "plain", "stream-schema"),
    errors={
        "invalid": "AI_APICallError",
        "context": "AI_APICallError",
        "key": "AI_APICallError",
        "model": "AI_APICallError",
        "rate": "AI_RetryError",
        "failed": "AI_RetryError",
        "unavailable": "AI_RetryError",
        "timeout": "AI_RetryError",
        "late": "Object",
        "late-context": "Object",
    },
    differs={"*/proxy-key": {"requests": 3}},  # it does not read x-should-retry
    lacks=("object-call",),
)
