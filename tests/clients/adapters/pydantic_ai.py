"""Pydantic AI's agent with its model for Chat Completions, streamed and plain."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.clients.client import Client
from tests.clients.job import RESULTS, TIRED, Job, Outcome, serve

CLIENT = Client(
    name="pydantic-ai",
    module="pydantic_ai",
    needs="pydantic_ai",
    surfaces=("stream", "plain"),
    errors={
        "invalid": "ModelRequestRejectedError",
        "context": "ModelContextWindowExceededError",
        "key": "ModelAuthenticationError",
        "model": "ModelNotFoundError",
        "rate": "ModelRateLimitError",
        "failed": "ModelServerError",
        "unavailable": "ModelUnavailableError",
        "timeout": "ModelServerError",
        "late": "ModelAPIError",
        "late-context": "ModelContextWindowExceededError",
    },
    differs={"*/object-call": {"finish": "tool_call"}, "*/hasty-context": {"status": 400}},
)


def ask(job: Job, outcome: Outcome) -> None:
    """Does a job."""
    asyncio.run(_ask(job, outcome))


async def _ask(job: Job, outcome: Outcome) -> None:
    from pydantic import BaseModel
    from pydantic_ai import Agent, NativeOutput, ToolOutput
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    class Trip(BaseModel):
        city: str
        days: int

    def get_weather(city: str) -> str:
        """The weather in a city."""
        return RESULTS["get_weather"]

    def get_time(zone: str) -> str:
        """The time in a zone."""
        return RESULTS["get_time"]

    outputs: dict[str, Any] = {"object": NativeOutput(Trip), "object-call": ToolOutput(Trip, name="Trip")}
    agent: Any = Agent(
        OpenAIChatModel(job.model, provider=OpenAIProvider(base_url=job.base_url, api_key=job.key)),
        tools=[get_weather, get_time] if job.task == "tools" else [],
        output_type=outputs.get(job.task, str),
        model_settings={"extra_headers": job.headers, "timeout": TIRED},
    )
    if job.surface == "plain":
        run = await agent.run(job.prompt)
        output, messages = run.output, run.all_messages()
    else:
        async with agent.iter(job.prompt) as run:
            async for node in run:
                if Agent.is_model_request_node(node):
                    await _stream(node, run, outcome)
        output, messages = run.result.output, run.result.all_messages()
    outcome.value = output.model_dump() if isinstance(output, BaseModel) else None
    _take(messages, outcome)


async def _stream(node: Any, run: Any, outcome: Outcome) -> None:
    from pydantic_ai.messages import PartDeltaEvent, PartStartEvent, TextPart, TextPartDelta

    outcome.text = ""
    async with node.stream(run.ctx) as stream:
        async for event in stream:
            if isinstance(event, PartStartEvent) and isinstance(event.part, TextPart):
                outcome.text += event.part.content
            elif isinstance(event, PartDeltaEvent) and isinstance(event.delta, TextPartDelta):
                outcome.text += event.delta.content_delta


def _take(messages: list[Any], outcome: Outcome) -> None:
    from pydantic_ai.messages import ModelResponse, TextPart, ThinkingPart, ToolCallPart

    for message in messages:
        if isinstance(message, ModelResponse):
            parts = message.parts
            outcome.text = "".join(part.content for part in parts if isinstance(part, TextPart))
            outcome.reasoning += "".join(part.content for part in parts if isinstance(part, ThinkingPart))
            outcome.calls += [(part.tool_name, part.args_as_dict()) for part in parts if isinstance(part, ToolCallPart)]
            outcome.finish = message.finish_reason
            outcome.usage = (message.usage.input_tokens, message.usage.output_tokens)


if __name__ == "__main__":
    serve(ask)
