"""One request through the rewrites, and what a rewrite may never do."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from svir_proxy.client_request import Body, ClientRequest
from svir_proxy.expectation import Expectation
from svir_proxy.profiles.schema import Profile
from svir_proxy.request import UpstreamRequest, rewrite_request
from svir_proxy.request.retry import apply_learned

GONE: Final = "<gone>"
"""Stands for a field that was left out."""
PLAIN: Final = Profile.model_validate({"name": "plain", "server": "Plain", "observed": [{"source": "run"}]})
"""A server that keeps everything."""
MODEL: Final = "m"
BODIES: Final = Path(__file__).parent / "bodies"


class Outcome(NamedTuple):
    """What became of a request: the fields that differ, what was told, what the answer has to be."""

    changes: dict[str, Any]
    notes: list[str]
    expectation: Expectation | None = None


def user(text: Any = "Hi") -> dict[str, Any]:
    """A user's message."""
    return {"role": "user", "content": text}


def ask(*messages: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """A request body."""
    return {"model": MODEL, "messages": list(messages) or [user()], **fields}


def function(name: str, **more: Any) -> dict[str, Any]:
    """A tool."""
    schema = {"type": "object", "properties": {"at": {"type": "string"}}}
    return {"type": "function", "function": {"name": name, "parameters": schema, **more}}


def call(name: str = "f", arguments: Any = "{}", identity: str = "call_1") -> dict[str, Any]:
    """A call in the history."""
    return {"id": identity, "type": "function", "function": {"name": name, "arguments": arguments}}


def profile(facts: Mapping[str, Any] | None = None, base: Profile = PLAIN) -> Profile:
    """*base* with *facts* of its request, by their path below ``request``."""
    changed = apply_learned(base, {f"request.{path}": value for path, value in (facts or {}).items()})
    return Profile.model_validate(changed.model_dump())


def client(body: dict[str, Any]) -> ClientRequest:
    """*body* as the proxy read it."""
    return ClientRequest.from_body(body, id="r", received=1)


def rewrite(body: dict[str, Any], served: Profile = PLAIN, model: str = MODEL) -> UpstreamRequest:
    """Rewrite *body*; asserts that it is left alone, that what is not changed is shared, and that JSON comes of it."""
    before = copy.deepcopy(body)
    result = rewrite_request(client(body), served, model)
    assert body == before, "a rewrite changed the client's body"
    if len(result.body["messages"]) == len(body["messages"]):
        for new, old in zip(result.body["messages"], body["messages"], strict=True):
            assert new is old or new != old, "an unchanged message was copied"
    json.dumps(result.body)
    assert result.body != body or result.body is body or result.notes, "an unchanged body was copied"
    return result


def outcome(body: dict[str, Any], facts: Mapping[str, Any] | None = None, base: Profile = PLAIN) -> Outcome:
    """What becomes of *body* where *facts* hold."""
    result = rewrite(body, profile(facts, base))
    return Outcome(differences(body, result.body), [*result.notes], result.expectation)


def differences(before: Body, after: Body) -> dict[str, Any]:
    """The top-level fields of *after* that are others than *before*'s; `GONE` for one that it has not."""
    changed = {name: value for name, value in after.items() if name not in before or before[name] != value}
    return changed | dict.fromkeys(set(before) - set(after), GONE)


def bodies() -> dict[str, dict[str, Any]]:
    """The recorded bodies by client and name."""
    return {
        path.relative_to(BODIES).with_suffix("").as_posix(): json.loads(path.read_text("utf-8"))
        for path in sorted(BODIES.glob("*/*.json"))
    }
