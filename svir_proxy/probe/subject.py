"""What is known of the server so far, on which later questions lean."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from svir_proxy.probe.answer import Ask
from svir_proxy.profiles import Profile
from svir_proxy.profiles.schema import ResponseFacts

FIRST_ROOM: Final = 64
"""Tokens that a small answer takes, if the model does not think."""
MOST_ROOM: Final = 1024
"""Tokens that are given to one that does."""

Messages = list[dict[str, Any]]


@dataclass(slots=True)
class Subject:
    """The server that is asked.

    Attributes:
        model: The model that is asked for.
        base: The profile of its kind, else `generic`.
        local: Whether it runs on this machine or in a private network.
        limit: The name under which it takes a limit of output tokens; None: it takes neither.
        room: The limit that leaves place for an answer, behind reasoning if there is any.
        response: What the bytes of its answers mean: what is learned of them counts from then on.
        least: The smallest limit it takes: models that think refuse one in which they cannot end.
        cool: Whether it takes ``temperature``.
        counts: Whether its ``prompt_tokens`` rise with the prompt: then they show what became part of it.
        calls: Whether the model calls a tool when it is asked to.
        streams_tools: Whether it takes tools in a stream.
        control: Its answer to `hello` with nothing else asked.
        control_tokens: How many tokens that answer took.
        echoes: It repeats what it is told: what it says shows nothing.
        thinks: It reasons without being asked to.
        tools: What became of tools: a word of the profile's vocabulary.
        context: The most tokens that a prompt may have, if the server says so.
    """

    model: str
    base: Profile
    response: ResponseFacts = field(init=False)
    local: bool = True
    limit: str | None = "max_tokens"
    room: int = FIRST_ROOM
    least: int = 1
    cool: bool = True
    counts: bool = False
    calls: bool = False
    streams_tools: bool = True
    control: str = ""
    control_tokens: int | None = None
    echoes: bool = False
    thinks: bool = False
    tools: str = "unknown"
    context: int | None = None

    def __post_init__(self) -> None:
        self.response = self.base.response

    def learn(self, **response: str) -> None:
        """From now on answers are read so."""
        self.response = self.response.model_copy(update=response)

    def ask(self, messages: str | Messages, *, room: int | None = None, leave: bool = False, **fields: Any) -> Ask:
        """A request with *fields*; a text is a user's message. *room*: the limit of tokens, if not the usual one."""
        body: dict[str, Any] = {"model": self.model, "messages": said(messages)}
        if self.cool:
            body["temperature"] = 0
        if self.limit is not None:
            body[self.limit] = self.room if room is None else room
        return Ask({**body, **fields}, leave)


def said(messages: str | Messages) -> Messages:
    """A text as the one message of a user; messages as they are."""
    return [{"role": "user", "content": messages}] if isinstance(messages, str) else messages
