"""What a rejection teaches about a server: wordings, and the facts they amount to.

Each reader knows one part of a request. It looks at the error only where the request has what the error could be
about, so that a server is never said to reject what it was not sent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from typing import Any, Final

from svir_proxy.client_request import Body
from svir_proxy.request.named_fields import Said

Facts = Mapping[str, str | bool | None]
"""Facts of a profile by dotted path (``request.late_system``)."""

Reader = Callable[[Said, Body], dict[str, str | bool | None]]

_EFFORTS: Final = frozenset({"none", "minimal", "low", "medium", "high", "xhigh", "max", "ultra", "auto", "default"})
"""Values that some server knows; any other is the client's fault, and nothing to remember."""
_CHOICES: Final = ("auto", "none", "required")


def _rejected(*names: str) -> dict[str, str | bool | None]:
    return {f"request.{name}": "rejected" for name in names}


def read_roles(said: Said, body: Body) -> dict[str, str | bool | None]:
    """``Unexpected message role.``, ``System message must be at the beginning.``, ``roles must alternate``."""
    roles = [message.get("role") for message in body["messages"]]
    if "developer" in roles and said.says(
        r"developer|message role|(?:unknown|invalid|unsupported) role|\brole\b.{0,200}should"
    ):
        return _rejected("developer_role")
    if "system" in roles[1:] and said.says(
        r"system (?:message|prompt|role)s?\b.{0,60}\b(?:beginning|first|start|once|one)"
        r"|(?:first|only one)\b.{0,40}\bsystem|role .?system.? after"
    ):
        return _rejected("late_system")
    in_a_row = any(a == b and a in ("user", "assistant") for a, b in pairwise(roles))
    if in_a_row and said.says(
        r"alternat|consecutive|in a row|role .?(user|assistant).? after role .?\1|2 or more assistant"
    ):
        return _rejected("consecutive_roles")
    return {}


def read_content(said: Said, body: Body) -> dict[str, str | bool | None]:
    """``content: value must be a string``, ``The content field ... is empty``, ``Unsupported content part type``."""
    found: set[str] = set()
    if said.says(r"content\b.{0,80}\bstring|sequence, expected a string|single .?text.? element"):
        for message in body["messages"]:
            if _is_text_parts(message.get("content")):
                found.add("tool_content_parts" if message.get("role") in ("tool", "function") else "content_parts")
    if not found and said.says(r"\bcontent\b"):
        for message in _assistants(body):
            if message.get("content") is None:
                found.add("null_content" if "content" in message else "missing_content")
    if said.says(r"refusal|content\[\]\.type|content part"):
        parts = [part for message in _assistants(body) for part in _list(message.get("content"))]
        if any(isinstance(part, dict) and part.get("type") == "refusal" for part in parts):
            found.add("refusal_parts")
    return _rejected(*sorted(found))


def read_history(said: Said, body: Body) -> dict[str, str | bool | None]:
    """Reasoning, call ids, arguments and names that stand in earlier turns."""
    demanded = said.says(r"reasoning(?:_content)?\b.{0,80}(?:must be passed back|required|missing)")
    if demanded and any(True for _ in _assistants(body)):
        return {"request.reasoning_history": "reasoning_content"}
    repeated = any("reasoning_content" in message or "reasoning" in message for message in _assistants(body))
    if repeated and (
        (said.refuses and said.says(r"[.'\"`\]]reasoning(?:_content)?\b|reasoning_content"))
        or said.says("content and thinking")
    ):
        return {"request.reasoning_history": "none"}
    calls = [call for message in _assistants(body) for call in _list(message.get("tool_calls"))]
    if calls and said.says(r"(?:call.?id|\bid\b).{0,80}(?:length of 9|9 (?:alphanumeric |letters|characters))"):
        return {"request.call_ids": "alphanumeric_9"}
    if said.says("arguments") and any(not _arguments(call).strip() for call in calls):
        return _rejected("empty_arguments")
    results = [message for message in body["messages"] if message.get("role") == "tool"]
    if any("name" in message for message in results) and said.refuses and said.says(r"[.'\"`]name\b"):
        return {"request.tool_message_name": "rejected"}
    if any("name" not in message for message in results) and said.says(r"\bname\b.{0,20}(?:empty|required|missing)"):
        return {"request.tool_message_name": "required"}
    return {}


def read_tools(said: Said, body: Body) -> dict[str, str | bool | None]:
    """The tools themselves, and what stands beside none of them."""
    named = any(said.names(name) for name in ("tools", "tool_choice", "parallel_tool_calls"))
    if not body.get("tools"):
        sent = any(name in body for name in ("tools", "tool_choice", "parallel_tool_calls"))
        if sent and named and said.says(r"\btools?\b"):
            return _rejected("empty_tools")
    old = any(message.get("role") == "function" for message in body["messages"])
    if old or "functions" in body or "function_call" in body:
        refused = said.refuses and (said.names("functions") or said.names("function_call"))
        if refused or (old and said.says(r"`function`|'function'|message role")):
            return _rejected("legacy_functions")
    functions = [tool["function"] for tool in _list(body.get("tools")) if _is_function(tool)]
    if any("strict" in function for function in functions) and (
        said.says(r"\bstrict\b") or (said.root == "tools" and said.says("invalid value for parameter"))
    ):
        return _rejected("tool_strict")
    if any(not function.get("parameters") for function in functions) and (
        (said.says(r"\bparameters\b") and said.says(r"\btools?\b|function|object|schema"))
        or said.says(r"discriminator.{0,40}\bobject\b")  # what LM Studio leaves of it
    ):
        return _rejected("empty_parameters")
    return {}


def read_tool_choice(said: Said, body: Body) -> dict[str, str | bool | None]:
    """``Invalid tool_choice type: 'object'``, ``does not support being set to required or object``."""
    choice = body.get("tool_choice")
    if not body.get("tools") or not said.names("tool_choice"):
        return {}
    if said.says(r"does not match|unknown (?:function|tool)|not (?:found|defined)|no (?:such )?(?:function|tool)"):
        return {}  # about the function that was named
    if isinstance(choice, dict):
        form = "allowed_tools" if choice.get("type") == "allowed_tools" else "named"
        other = ["required"] if said.says(r"to required\b") else []
        return _rejected(*(f"tool_choice.{fact}" for fact in (form, *other)))
    if choice in _CHOICES:
        other = ["named"] if choice == "required" and said.says(r"\bobject\b") else []
        return _rejected(*(f"tool_choice.{fact}" for fact in (choice, *other)))
    return {}


def read_response_format(said: Said, body: Body) -> dict[str, str | bool | None]:
    """``'response_format.type' must be 'json_schema' or 'text'``; not the faults of one schema."""
    wanted = body.get("response_format")
    kind = wanted.get("type") if isinstance(wanted, dict) else None
    if kind not in ("json_object", "json_schema"):
        return {}
    if kind == "json_object" and said.says(r"\bword\b.{0,10}\bjson\b"):
        return {"request.response_format.json_object_needs_word": True}
    if not (said.names("response_format") or said.says(rf"\b{kind}\b")):
        return {}
    if said.says(r"response_format\W+json_schema\W|invalid schema|field required|must include|grammar"):
        return {}
    if said.refuses or said.says(r"response_format\W{1,4}type|response_format type"):
        return _rejected(f"response_format.{kind}")
    return {}


def read_token_limit(said: Said, body: Body) -> dict[str, str | bool | None]:
    """``Unsupported parameter: 'max_tokens' ... Use 'max_completion_tokens' instead.``, and the other way round."""
    names = ("max_tokens", "max_completion_tokens")
    for name, other in (names, names[::-1]):
        if name in body and said.refuses and said.names(name):
            return {"request.max_tokens_field": other}
    return {}


def read_stream(said: Said, body: Body) -> dict[str, str | bool | None]:
    """``'stream' is not supported``, ``Cannot use tools with stream``, ``logprobs is not supported with stream``."""
    if body.get("stream") is not True or not said.says(r"\bstream(?:ing)?\b(?!.?options)"):
        return {}
    if body.get("logprobs") and said.says("logprobs"):
        with_tools = bool(body.get("tools")) and said.says("tool")
        return _rejected("stream_logprobs_with_tools" if with_tools else "stream_logprobs")
    if body.get("tools") and said.says(r"\btools?\b.{0,40}\bstream|\bstream.{0,40}\btools?\b"):
        return _rejected("stream_with_tools")
    if said.refuses and (said.names("stream") or said.says(r"\bstream(?:ing)?\b.{0,20}\bsupport|support\w* stream")):
        return {"request.stream": "never"}
    return {}


def read_reasoning_effort(said: Said, body: Body) -> dict[str, str | bool | None]:
    """``Unexpected reasoning effort high. Supported types are ...``, ``does not support thinking``."""
    effort = body.get("reasoning_effort")
    if not isinstance(effort, str) or effort not in _EFFORTS:
        return {}
    if not (said.names("reasoning_effort") or said.says(r"\breasoning value|thinking")):
        return {}
    if said.says(rf"(?<!\w){effort}(?!\w)") or said.blames_value:
        return {f"request.reasoning_efforts.{effort}": None}
    return _rejected("optional_fields.reasoning_effort") if said.refuses else {}


READERS: Final[tuple[Reader, ...]] = (
    read_roles,
    read_tool_choice,
    read_tools,
    read_response_format,
    read_token_limit,
    read_stream,
    read_history,
    read_content,
    read_reasoning_effort,
)
"""The first that finds something decides."""


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _assistants(body: Body) -> Iterator[dict[str, Any]]:
    return (message for message in body["messages"] if message.get("role") == "assistant")


def _is_text_parts(content: Any) -> bool:
    return isinstance(content, list) and all(
        isinstance(part, dict) and part.get("type") == "text" and isinstance(part.get("text"), str) for part in content
    )


def _is_function(tool: Any) -> bool:
    return isinstance(tool, dict) and isinstance(tool.get("function"), dict)


def _arguments(call: Any) -> str:
    """The arguments of an earlier call, as text; any other thing counts as some."""
    function = call.get("function") if isinstance(call, dict) else None
    arguments = function.get("arguments") if isinstance(function, dict) else "{}"
    return arguments if isinstance(arguments, str) else "" if arguments is None else "{}"
