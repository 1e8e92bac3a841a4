"""LangChain's ChatOpenAI, streamed and plain."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.clients.client import Client
from tests.clients.job import OBJECT, RESULTS, SCHEMA, TIRED, TOOLS, Job, Outcome, serve

if TYPE_CHECKING:
    from langchain_core.messages import AIMessage

CLIENT = Client(
    name="langchain-openai",
    module="langchain",
    needs="langchain_openai",
    surfaces=("stream", "plain"),
    errors={
        "invalid": "OpenAIInvalidRequestError",
        "context": "OpenAIContextOverflowError",
        "key": "OpenAIAuthenticationError",
        "model": "OpenAIModelNotFoundError",
        "rate": "OpenAIRateLimitError",
        "failed": "OpenAIAPIError",
        "unavailable": "OpenAIAPIError",
        "timeout": "OpenAIAPIError",
        "late": "APIError",
        "late-context": "OpenAIAPIContextOverflowError",
    },
    # It has no place for reasoning.
    differs={"*reasoning*": {"reasoning": ""}, "*/call-reasoned": {"reasoning": ""}, "*/live-call": {"reasoning": ""}},
)

_METHODS: dict[str, Any] = {"object": "json_schema", "object-call": "function_calling"}


def ask(job: Job, outcome: Outcome) -> None:
    """Does a job."""
    from langchain_core.messages import HumanMessage, ToolMessage
    from langchain_openai import ChatOpenAI

    model: Any = ChatOpenAI(
        model=job.model,
        base_url=job.base_url,
        api_key=job.key,
        default_headers=job.headers,
        timeout=TIRED,
        stream_usage=True,
    )
    if job.task in _METHODS:
        chain = model.with_structured_output({"title": OBJECT, **SCHEMA}, method=_METHODS[job.task])
        outcome.value = chain.invoke(job.prompt) if job.surface == "plain" else [*chain.stream(job.prompt)][-1]
        return
    if job.task == "tools":
        model = model.bind_tools(TOOLS)
    messages: list[Any] = [HumanMessage(job.prompt)]
    while True:
        message = _stream(model, messages, outcome) if job.surface == "stream" else model.invoke(messages)
        _take(message, outcome)
        messages.append(message)
        if not message.tool_calls:
            return
        for call in message.tool_calls:
            outcome.calls.append((call["name"], call["args"]))
            messages.append(ToolMessage(RESULTS[call["name"]], tool_call_id=call["id"]))


def _stream(model: Any, messages: list[Any], outcome: Outcome) -> AIMessage:
    whole: Any = None
    for chunk in model.stream(messages):
        whole = chunk if whole is None else whole + chunk
        outcome.text = whole.text
    return whole


def _take(message: AIMessage, outcome: Outcome) -> None:
    outcome.text = str(message.text)
    outcome.reasoning += message.additional_kwargs.get("reasoning_content", "")
    outcome.finish = message.response_metadata.get("finish_reason")
    usage = message.usage_metadata
    outcome.usage = usage and (usage["input_tokens"], usage["output_tokens"])


if __name__ == "__main__":
    serve(ask)
