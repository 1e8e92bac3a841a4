"""The official SDK for Python: chunks as they come, its streaming helper, and plain requests."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tests.clients.client import Client
from tests.clients.job import OBJECT, RESULTS, SCHEMA, TIRED, TOOLS, Job, Outcome, serve

if TYPE_CHECKING:
    from openai import OpenAI
    from openai.types.chat import ChatCompletionMessage

CLIENT = Client(
    name="openai",
    module="openai_python",
    needs="openai",
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
    differs={"helper/length": {"error": "LengthFinishReasonError", "finish": None, "usage": None}},  # it wants to parse
    lacks=("object-call",),
)


def ask(job: Job, outcome: Outcome) -> None:
    """Does a job."""
    from openai import OpenAI

    with OpenAI(base_url=job.base_url, api_key=job.key, default_headers=job.headers, timeout=TIRED) as client:
        if job.task == "object":
            _ask_for_object(client, job, outcome)
            return
        request: dict[str, Any] = {"model": job.model, "messages": job.messages}
        if job.task == "tools":
            request["tools"] = TOOLS
        while True:
            message = _SURFACES[job.surface](client, request, outcome)
            request["messages"].append(message)
            if not message.get("tool_calls"):
                return
            for call in message["tool_calls"]:
                name, arguments = call["function"]["name"], call["function"]["arguments"]
                outcome.calls.append((name, json.loads(arguments)))
                request["messages"].append({"role": "tool", "tool_call_id": call["id"], "content": RESULTS[name]})


def _stream(client: OpenAI, request: dict[str, Any], outcome: Outcome) -> dict[str, Any]:
    """By hand, as most programs do it."""
    outcome.text, reasoning, calls = "", "", []
    options: Any = {"include_usage": True}
    with client.chat.completions.create(**request, stream=True, stream_options=options) as stream:
        for chunk in stream:
            if chunk.usage:
                outcome.usage = (chunk.usage.prompt_tokens, chunk.usage.completion_tokens)
            for choice in chunk.choices:
                outcome.finish = choice.finish_reason or outcome.finish
                outcome.text += choice.delta.content or ""
                reasoning += getattr(choice.delta, "reasoning_content", None) or ""
                for piece in choice.delta.tool_calls or ():
                    if piece.index == len(calls):
                        calls.append(
                            {
                                "id": piece.id,
                                "type": "function",
                                "function": {"name": piece.function.name, "arguments": ""},
                            }
                        )
                    calls[piece.index]["function"]["arguments"] += piece.function.arguments or ""
    outcome.reasoning += reasoning
    message = {
        "role": "assistant",
        "content": outcome.text or None,
        "reasoning_content": reasoning,
        "tool_calls": calls,
    }
    return {key: value for key, value in message.items() if value or key == "content"}


def _helper(client: OpenAI, request: dict[str, Any], outcome: Outcome) -> dict[str, Any]:
    """The helper that puts the pieces together; the text is taken from its events."""
    outcome.text = ""
    with client.chat.completions.stream(**request, stream_options={"include_usage": True}) as stream:
        for event in stream:
            if event.type == "content.delta":
                outcome.text += event.delta
        return _whole(stream.get_final_completion(), outcome)


def _plain(client: OpenAI, request: dict[str, Any], outcome: Outcome) -> dict[str, Any]:
    return _whole(client.chat.completions.create(**request), outcome)


def _whole(completion: Any, outcome: Outcome) -> dict[str, Any]:
    (choice,) = completion.choices
    message: ChatCompletionMessage = choice.message
    outcome.text, outcome.finish = message.content or "", choice.finish_reason
    outcome.reasoning += getattr(message, "reasoning_content", None) or ""
    outcome.usage = completion.usage and (completion.usage.prompt_tokens, completion.usage.completion_tokens)
    return message.to_dict()


def _ask_for_object(client: OpenAI, job: Job, outcome: Outcome) -> None:
    """With a schema that is written down, or with a class that the helpers make one of."""
    from pydantic import BaseModel

    request: dict[str, Any] = {"model": job.model, "messages": job.messages}
    if job.surface == "stream":
        form = {"type": "json_schema", "json_schema": {"name": OBJECT, "schema": SCHEMA, "strict": True}}
        outcome.value = json.loads(_stream(client, {**request, "response_format": form}, outcome)["content"])
        return

    class Trip(BaseModel):
        city: str
        days: int

    if job.surface == "plain":
        completion = client.chat.completions.parse(**request, response_format=Trip)
    else:
        with client.chat.completions.stream(**request, response_format=Trip) as stream:
            completion = stream.get_final_completion()
    outcome.value = completion.choices[0].message.parsed.model_dump()


_SURFACES = {"stream": _stream, "helper": _helper, "plain": _plain}

if __name__ == "__main__":
    serve(ask)
