"""LiteLLM as a client, with its two providers for servers of this kind, streamed and plain."""

from __future__ import annotations

import json
from typing import Any, Final

from tests.clients.client import Client
from tests.clients.job import OBJECT, RESULTS, SCHEMA, TIRED, TOOLS, Job, Outcome, serve

_NOTHING: Final[dict[str, Any]] = {"finish": None, "usage": None}
_LATE: Final[dict[str, Any]] = {"error": "MidStreamFallbackError", "status": 500}

CLIENT = Client(
    name="litellm",
    module="litellm",
    needs="litellm",
    surfaces=("openai", "openai-plain", "hosted_vllm", "hosted_vllm-plain"),
    errors={
        "invalid": "BadRequestError",
        "context": "ContextWindowExceededError",
        "key": "AuthenticationError",
        "model": "NotFoundError",
        "rate": "RateLimitError",
        "failed": "BadGatewayError",
        "unavailable": "ServiceUnavailableError",
        "timeout": "Timeout",
        "late": "MidStreamFallbackError",
        "late-context": "ContextWindowExceededError",
    },
    differs={
        "*": {"code": ...},  # in the message at best
        "hosted_vllm*": {"tries": 1},
        "hosted_vllm*/recovers": {"error": "ServiceUnavailableError", "requests": 1, "text": "", **_NOTHING},
        # What it makes of an error in a stream.
        "openai/late-*": _LATE,
        "openai/hasty-failed": _LATE,
        "openai/hasty-context": {"status": 400},
        "hosted_vllm/late-*": _LATE,
        "hosted_vllm/hasty-failed": _LATE,
        "hosted_vllm/hasty-context": _LATE,
    },
    lacks=("object-call",),
)


def ask(job: Job, outcome: Outcome) -> None:
    """Does a job."""
    provider, _, plain = job.surface.partition("-")
    request: dict[str, Any] = {
        "model": f"{provider}/{job.model}",
        "api_base": job.base_url,
        "api_key": job.key,
        "extra_headers": job.headers,
        "messages": job.messages,
        "timeout": TIRED,
    }
    if job.task == "object":
        form = {"name": OBJECT, "schema": SCHEMA, "strict": True}
        request["response_format"] = {"type": "json_schema", "json_schema": form}
    elif job.task == "tools":
        request["tools"] = TOOLS
    while True:
        message = _ask(request, outcome, plain=bool(plain))
        if job.task == "object":
            outcome.value = json.loads(outcome.text)
        request["messages"].append(message.model_dump(exclude_none=True))
        if not message.tool_calls:
            return
        for call in message.tool_calls:
            name = call.function.name
            outcome.calls.append((name, json.loads(call.function.arguments)))
            request["messages"].append({"role": "tool", "tool_call_id": call.id, "content": RESULTS[name]})


def _ask(request: dict[str, Any], outcome: Outcome, *, plain: bool) -> Any:
    import litellm

    if plain:
        completion: Any = litellm.completion(**request)
    else:
        chunks, outcome.text = [], ""
        for chunk in litellm.completion(**request, stream=True, stream_options={"include_usage": True}):
            chunks.append(chunk)
            for choice in chunk.choices:
                outcome.text += choice.delta.content or ""
        completion = litellm.stream_chunk_builder(chunks, messages=request["messages"])
    (choice,) = completion.choices
    outcome.text, outcome.finish = choice.message.content or "", choice.finish_reason
    outcome.reasoning += getattr(choice.message, "reasoning_content", None) or ""
    outcome.usage = (completion.usage.prompt_tokens, completion.usage.completion_tokens)
    return choice.message


if __name__ == "__main__":
    serve(ask)
