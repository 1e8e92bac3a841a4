"""What an answer's reading depends on beside its bytes: the profiles and the requests there are."""

from __future__ import annotations

import json
from typing import Any, Final

from svir_proxy.client_request import ClientRequest
from svir_proxy.conform.cases import Case, load_cases
from svir_proxy.profiles.loader import builtin_names, load_profile
from svir_proxy.profiles.schema import Profile
from tests.support.core import profile_of, request_of
from tests.support.text_calls import TOOLS

_SAID: Final = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}
_TOOLS: Final = [
    {"type": "function", "function": {"name": name, "parameters": {"type": "object", "properties": properties}}}
    for name, properties in (
        ("look", {"a": {"type": "string"}, "n": {"type": "integer"}, "deep": {"type": "object"}}),
        ("lookup", {}),
        ("get_weather", {"city": {"type": "string"}, "days": {"type": ["integer", "null"]}}),
        *((name, schema["properties"]) for name, schema in TOOLS.items()),
    )
]
_SCHEMA: Final = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
_FORMATS: Final[list[dict[str, Any]]] = [
    {"type": "json_object"},
    {"type": "json_schema", "json_schema": {"name": "s", "schema": _SCHEMA}},
]
_NAMED: Final = {"type": "function", "function": {"name": "look"}}


def _profiles() -> list[Profile]:
    made = [load_profile(name) for name in builtin_names()]
    for facts in ({"content": "cumulative"}, {"reasoning": "think_tags_preopened"}, {"text_calls": False}):
        made += (load_profile("generic", {"response": facts}), load_profile("mlx-lm", {"response": facts}))
    return made + [profile_of(case) for case in load_cases() if case.overrides]


def _bodies() -> list[dict[str, Any]]:
    made: list[dict[str, Any]] = []
    for stream in ({}, {"stream": True}, {"stream": True, "stream_options": {"include_usage": True}}):
        made += [{**_SAID, **stream, **more} for more in ({}, *({"response_format": each} for each in _FORMATS))]
        made += [
            {**_SAID, **stream, "tools": _TOOLS, "tool_choice": choice}
            for choice in ("auto", "none", "required", _NAMED)
        ]
    recorded = (case.request for case in load_cases() if request_of(case) is not None)
    decisive = ("stream", "stream_options", "tools", "tool_choice", "functions", "function_call", "response_format")
    found = {json.dumps([body.get(key) for key in decisive], sort_keys=True): body for body in recorded}
    return made + list(found.values())


PROFILES: Final = _profiles()
"""The built-in ones, some with the rarer ways of reading, and those of the cases."""
REQUESTS: Final = [ClientRequest.from_body(body, id="req-1", received=1_790_000_000) for body in _bodies()]
"""Made-up ones in every shape, then the recorded cases', each once."""


def numbers(position: int) -> tuple[int, ...]:
    """The controls that pick the request at *position*."""
    return divmod(position, 1 << 8) if len(REQUESTS) > 1 << 8 else (position,)


def position_of_profile(case: Case) -> int:
    """Where the case's profile stands in `PROFILES`."""
    key = (case.profile, json.dumps(case.overrides))
    if key not in _FOUND:
        profile = profile_of(case)
        _FOUND[key] = next(at for at, known in enumerate(PROFILES) if known == profile)
    return _FOUND[key]


def position_of_tools() -> int:
    """Where a streamed request with tools stands that answers may call in text."""
    return next(at for at, known in enumerate(REQUESTS) if known.stream and set(TOOLS) <= set(known.tool_names))


def position_of_request(case: Case) -> int:
    """Where a request like the case's stands in `REQUESTS`; 0 where the proxy refuses it."""
    request = request_of(case)
    return 0 if request is None else _POSITIONS[_shape(request)]


def _shape(request: ClientRequest) -> tuple[Any, ...]:
    return request.stream, request.include_usage, request.tool_names, request.tool_choice, request.named_tool


_FOUND: Final[dict[tuple[str, str], int]] = {}
_POSITIONS: Final = {_shape(request): at for at, request in reversed(list(enumerate(REQUESTS)))}
