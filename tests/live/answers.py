"""Asks through the SDK, streamed or not, and gives the same shape for both."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import httpx

from svir_proxy.conform import dialect
from tests.live.processes import NO_TLS

if TYPE_CHECKING:
    from collections.abc import Iterable

    import openai
    from openai.types import CompletionUsage
    from openai.types.chat import ChatCompletion, ChatCompletionChunk


def _tool(name: str, **properties: str) -> dict[str, Any]:
    schema = {"type": "object", "properties": {key: {"type": kind} for key, kind in properties.items()}}
    return {"type": "function", "function": {"name": name, "parameters": {**schema, "required": [*properties]}}}


TOOLS: Final[list[Any]] = [_tool("open_locker", id="integer"), _tool("get_weather", city="string", days="integer")]


@dataclass
class Answer:
    """What a client made of an answer."""

    content: str = ""
    reasoning: str = ""
    calls: list[tuple[str, str]] = field(default_factory=list)
    """Name and arguments of each call."""
    ids: list[str] = field(default_factory=list)
    finish_reason: str | None = None
    usage: list[CompletionUsage] = field(default_factory=list)
    """Every report of the tokens used."""

    def take(self, chunks: Iterable[ChatCompletionChunk]) -> None:
        """Adds the chunks of a stream; what came before an error stays."""
        for chunk in chunks:
            self.usage += [chunk.usage] if chunk.usage else []
            for choice in chunk.choices:
                self.finish_reason = choice.finish_reason or self.finish_reason
                self.content += choice.delta.content or ""
                self.reasoning += getattr(choice.delta, "reasoning_content", "")
                for piece in choice.delta.tool_calls or []:
                    assert piece.function is not None
                    if piece.id:
                        self.ids.append(piece.id)
                        self.calls.append((piece.function.name or "", ""))
                    name, arguments = self.calls[piece.index]
                    self.calls[piece.index] = (name, arguments + (piece.function.arguments or ""))

    @classmethod
    def of(cls, completion: ChatCompletion) -> Answer:
        """The answer to a plain request."""
        (choice,) = completion.choices
        calls = choice.message.tool_calls or []
        return cls(
            content=choice.message.content or "",
            reasoning=getattr(choice.message, "reasoning_content", ""),
            calls=[(call.function.name, call.function.arguments) for call in calls if call.type == "function"],
            ids=[call.id for call in calls],
            finish_reason=choice.finish_reason,
            usage=[completion.usage] if completion.usage else [],
        )


def prompt(script: str) -> list[Any]:
    """Messages that make the model say *script*."""
    return [{"role": "user", "content": f"Please answer. [[s:{script}]]"}]


def ask(client: openai.OpenAI, script: str, *, streamed: bool, **request: Any) -> Answer:
    """The whole answer to a request for *script*."""
    request = {"model": "scripted", "messages": prompt(script), **request}
    if not streamed:
        return Answer.of(client.chat.completions.create(**request))
    answer = Answer()
    with client.chat.completions.create(stream=True, **request) as stream:
        answer.take(stream)
    return answer


def check_wire(client: openai.OpenAI, script: str, *, streamed: bool) -> None:
    """Ask past the SDK, with tools and usage: every byte of the answer is in the dialect."""
    body: dict[str, Any] = {"model": "scripted", "messages": prompt(script), "stream": streamed, "tools": TOOLS}
    if streamed:
        body["stream_options"] = {"include_usage": True}
    response = httpx.post(
        f"{client.base_url}chat/completions",
        json=body,
        headers={"authorization": f"Bearer {client.api_key}"},
        verify=NO_TLS,
    )
    assert response.status_code == 200
    if streamed:
        assert dialect.check_stream(response.content, True) == []
    else:
        assert dialect.check_completion(response.content) == []
