"""A model server whose every fact is chosen: what it is told to keep, ignore or reject it keeps, ignores or rejects.

Its model is obliging: it calls a function when it is asked to and can see it, does as a system message says, and names
the color of an image. Its tokens are words.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from svir_proxy.probe.answer import Answer, Ask
from svir_proxy.probe.questions import QUESTIONS
from svir_proxy.probe.questions.messages import ORDER, SIGN
from svir_proxy.probe.questions.parts import COLOR, LOOK

GREETING: Final = "Hello! How can I help you today?"
THOUGHT: Final = "They want a greeting."
_PART_KINDS: Final = {"image_url": "images", "input_audio": "audio", "file": "files", "refusal": "refusal_parts"}
_PARTS_TOKENS: Final = 50


class Rejected(Exception):  # noqa: N818
    """The server refuses the request."""


@dataclass
class Simulated:
    """The server. *facts*: what differs from ``kept``, by the paths of a profile below ``request.``."""

    facts: Mapping[str, Any] = field(default_factory=dict)
    counts: bool = True
    """Whether it reports usage."""
    thinks: bool = False
    preopened: bool = False
    """Whether its template opens the think tag, and the server reads neither of them."""
    echoes: bool = False
    calls: int = 9
    """How many functions its model calls in one answer, at most."""
    least: int = 1
    """The smallest limit of tokens that it takes."""
    status: int = 400
    """Of a refusal."""
    pieces: Callable[[str], list[str]] = str.split
    asked: list[Mapping[str, Any]] = field(default_factory=list)

    def fact(self, path: str) -> Any:
        return self.facts.get(path, "kept")

    async def ask(self, ask: Ask, seconds: float) -> Answer:
        """What a wire does."""
        self.asked.append(ask.body)
        return self.answer(ask.body)

    async def get(self, path: str, seconds: float) -> Answer:
        return json_answer({"object": "list", "data": [{"id": "m"}]})

    def answer(self, body: Mapping[str, Any]) -> Answer:
        try:
            return self._answer(body)
        except Rejected as exc:
            return json_answer({"error": {"message": str(exc), "type": "invalid_request_error"}}, self.status)

    def _honours(self, path: str, *, present: bool = True) -> bool:
        """Whether a thing that is *present* has its effect."""
        if present and self.fact(path) == "rejected":
            raise Rejected(f"{path} is not supported")
        return present and self.fact(path) == "kept"

    def _answer(self, body: Mapping[str, Any]) -> Answer:
        for name in body:
            if name.startswith("svir_probe"):
                self._honours("unknown_fields")
            if name in ("max_tokens", "max_completion_tokens"):
                self._honours(f"limit.{name}")
                if body[name] < self.least:
                    raise Rejected("Could not finish the message because the output limit was reached.")
            else:
                self._honours(f"optional_fields.{name}")
        if self.fact("model") != "any" and body["model"] != "m":
            raise Rejected(f"The model {body['model']} does not exist")
        stream = body.get("stream") is True and self.fact("stream") != "never"
        tools = self._tools(body, stream=stream)
        visible = list(self._visible(body["messages"]))
        prompt = " ".join(visible) + "".join(f" {tool} is a tool of some parameters" for tool in tools)
        effort = body.get("reasoning_effort")
        if effort in self.facts.get("reasoning_efforts", {}):
            raise Rejected(f"reasoning_effort {effort} is unknown")
        thinks = self.thinks
        if effort is not None and self._honours("optional_fields.reasoning_effort"):
            thinks = effort not in ("none", "minimal")
        text, calls = self._say(body, visible, tools)
        return self._sent(body, prompt, THOUGHT if thinks else "", text, calls, stream=stream)

    def _tools(self, body: Mapping[str, Any], *, stream: bool) -> list[str]:
        """The names of the functions that get into the prompt."""
        offered = body.get("tools")
        if offered == [] or (not offered and "tool_choice" in body):
            self._honours("empty_tools")
        names = [tool["function"]["name"] for tool in offered or []]
        if not names:
            if "functions" in body and self._honours("legacy_functions"):
                return [function["name"] for function in body["functions"]]
            return []
        for tool in offered:
            self._honours("tool_strict", present="strict" in tool["function"])
            self._honours("empty_parameters", present=not tool["function"].get("parameters"))
        kept = self._honours("tools")
        kept = (not stream or self._honours("stream_with_tools")) and kept
        self._honours("stream_logprobs_with_tools", present=stream and "logprobs" in body)
        choice = body.get("tool_choice")
        if choice == "auto":
            self._honours("tool_choice.auto")
        if choice == "none" and self._honours("tool_choice.none"):
            return []
        return names if kept else []

    def _visible(self, messages: list[dict[str, Any]]) -> Iterator[str]:
        """What gets into the prompt of each message."""
        for at, message in enumerate(messages):
            role, content = message["role"], message.get("content")
            seen = True
            if role == "developer":
                seen = self._honours("developer_role")
            if role == "system" and at:
                seen = self._honours("late_system")
            if at and role == messages[at - 1]["role"] == "user":
                self._honours("consecutive_roles")
            if at + 1 < len(messages) and role == messages[at + 1]["role"] == "user":
                seen = self._honours("consecutive_roles")
            if role == "assistant" and message.get("tool_calls"):
                yield from self._call(message)
            if role == "tool":
                self._honours(
                    "tool_message_name", present=self.fact("tool_message_name") == "rejected" and "name" in message
                )
                if self.fact("tool_message_name") == "required" and "name" not in message:
                    raise Rejected("name is required in a tool message")
            if isinstance(content, list):
                texts = [part["text"] for part in content if part["type"] == "text"]
                path = "tool_content_parts" if role == "tool" else "content_parts"
                if texts and len(texts) == len(content):
                    seen = self._honours(path) and seen
                for part in content:
                    if part["type"] in _PART_KINDS and self._part(part):
                        yield part["type"] + " token" * _PARTS_TOKENS
                content = " ".join(texts)
            elif content is not None and not isinstance(content, str):
                raise Rejected("content must be a string or a list")
            if seen and content:
                yield content

    def _call(self, message: Mapping[str, Any]) -> Iterator[str]:
        self._honours("null_content", present=message.get("content", "") is None)
        self._honours("missing_content", present="content" not in message)
        call = message["tool_calls"][0]
        if self.fact("call_ids") == "alphanumeric_9" and not (call["id"].isalnum() and len(call["id"]) == 9):
            raise Rejected("a tool call id must be 9 letters and digits")
        self._honours("empty_arguments", present=not call["function"]["arguments"])
        yield call["function"]["name"]
        if (key := self.fact("reasoning_history")) in message:
            yield message[key]

    def _part(self, part: Mapping[str, Any]) -> bool:
        path = _PART_KINDS[part["type"]]
        if path == "images" and part["image_url"]["url"].startswith("http"):
            path = "remote_images"
        return self._honours(path)

    def _say(self, body: Mapping[str, Any], visible: list[str], tools: list[str]) -> tuple[str, list[str]]:
        """The model's answer: text, and names of functions it calls."""
        asked = visible[-1] if visible else ""
        choice = body.get("tool_choice")
        named = body.get("function_call", choice)
        if isinstance(choice, dict) and choice["type"] == "allowed_tools":
            forced = ["open_locker"] if self._honours("tool_choice.allowed_tools", present=bool(tools)) else []
        elif isinstance(named, dict):
            path = "legacy_functions" if "function_call" in body else "tool_choice.named"
            forced = ["open_locker"] if self._honours(path, present=bool(tools)) else []
        else:
            forced = []
            if choice == "required" and self._honours("tool_choice.required", present=bool(tools)):
                forced = tools[:1]
        wanted = asked.count("get_weather") and (2 if "two calls" in asked else 1)
        calls = forced or (["get_weather"] * wanted if "get_weather" in tools else [])
        most = self.calls
        if "parallel_tool_calls" in body and self._honours("optional_fields.parallel_tool_calls", present=bool(tools)):
            most = 1
        if calls:
            return "", calls[:most]
        format_ = body.get("response_format", {}).get("type", "text")
        if format_ != "text" and self.fact("response_format.json_object_needs_word") is True and "JSON" not in asked:
            raise Rejected("'messages' must contain the word 'json' in some form")
        if format_ != "text" and self._honours(f"response_format.{format_}"):
            return ('{"fruit": "medlar"}' if format_ == "json_schema" else '{"greeting": "Hello!"}'), []
        if self.echoes:
            return " ".join(visible), []
        if any(ORDER in said for said in visible):
            return SIGN, []
        if asked.endswith(LOOK) or LOOK in asked:
            return (COLOR.title() if any(said.startswith("image_url") for said in visible) else "I see no image."), []
        return GREETING, []

    def _sent(
        self, body: Mapping[str, Any], prompt: str, thought: str, text: str, calls: list[str], *, stream: bool
    ) -> Answer:
        words = text.split()
        finish = "tool_calls" if calls else "stop"
        stop = body.get("stop")
        if stop and self._honours("stop") and stop[0] in text:
            words = text[: text.index(stop[0])].split()
        limit = min(
            (
                body[name]
                for name in ("max_tokens", "max_completion_tokens")
                if name in body and self._honours(f"limit.{name}")
            ),
            default=len(words) + len(thought.split()) + 10,
        )
        thinking = thought.split()[:limit]
        if limit < len(thought.split()) + len(words):
            words, finish = words[: limit - len(thinking)], "length"
        message: dict[str, Any] = {"role": "assistant", "content": " ".join(words)}
        if self.preopened:
            message["content"] = f"{' '.join(thinking)} </think> {' '.join(words)}"
        elif thinking:
            message["reasoning_content"] = " ".join(thinking)
        if calls:
            message["tool_calls"] = [
                {
                    "index": at,
                    "id": f"call_{at}",
                    "type": "function",
                    "function": {"name": name, "arguments": '{"city": "Oslo"}'},
                }
                for at, name in enumerate(calls)
            ]
        usage = {"prompt_tokens": len(prompt.split()), "completion_tokens": len(words) + len(thinking) + 8 * len(calls)}
        choice: dict[str, Any] = {"index": 0, "finish_reason": finish}
        if body.get("logprobs") and self._honours(self._reported(body, stream=stream)):
            tops = [{"token": "a", "logprob": -1}] * self._honours(
                "optional_fields.top_logprobs", present="top_logprobs" in body
            )
            choice["logprobs"] = {"content": [{"token": word, "logprob": 0, "top_logprobs": tops} for word in words]}
        base = {"id": "c", "object": "chat.completion", "created": 1, "model": body["model"]}
        if not stream:
            return json_answer(
                {**base, "choices": [{**choice, "message": message}], **({"usage": usage} if self.counts else {})}
            )
        return self._streamed(body, base, choice, message, words, usage)

    @staticmethod
    def _reported(body: Mapping[str, Any], *, stream: bool) -> str:
        """The fact that log probabilities of an answer are about."""
        if not stream:
            return "optional_fields.logprobs"
        return "stream_logprobs_with_tools" if body.get("tools") else "stream_logprobs"

    def _streamed(  # noqa: PLR0917 -- the parts of one answer
        self,
        body: Mapping[str, Any],
        base: dict[str, Any],
        choice: dict[str, Any],
        message: dict[str, Any],
        words: list[str],
        usage: dict[str, int],
    ) -> Answer:
        finish = choice.pop("finish_reason")
        deltas = [{"role": "assistant", "content": ""}]
        if "reasoning_content" in message:
            deltas.append({"reasoning_content": message["reasoning_content"]})
        so_far = ""
        for at, word in enumerate(message["content"].split()):
            piece = word if not at else f" {word}"
            so_far += piece
            deltas.append({"content": so_far if self.fact("content") == "cumulative" else piece})
        if "tool_calls" in message:
            deltas.append({"tool_calls": message["tool_calls"]})
        chunks = [{**base, "choices": [{**choice, "delta": delta, "finish_reason": None}]} for delta in deltas]
        chunks.append({**base, "choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})
        if "stream_options" in body and self._honours("optional_fields.stream_options"):
            chunks.append({**base, "choices": [], "usage": usage})
        lines = [f"data: {json.dumps(chunk)}\n\n" for chunk in chunks]
        return Answer(200, {"content-type": "text/event-stream"}, "".join([*lines, "data: [DONE]\n\n"]).encode())


def json_answer(value: Any, status: int = 200, **headers: str) -> Answer:
    """An answer of one JSON body."""
    return Answer(status, {"content-type": "application/json", **headers}, json.dumps(value).encode())


FACTS: Final = {fact for question in QUESTIONS for fact in question.facts if "." in fact}
