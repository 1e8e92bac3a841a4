"""What a client is expected to see in a scenario, and where what it saw is different."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from tests.clients.job import RESULTS
from tests.clients.scenarios import SCENARIOS

if TYPE_CHECKING:
    from tests.clients.client import Client
    from tests.clients.run import Seen


_EARLY: Final = {"late": ("failed", 502), "late-context": ("context", 400)}
"""What a late error is to a plain request, which sees it before any output: the kind, and the status."""


def expectation(client: Client, surface: str, name: str) -> dict[str, Any]:
    """Fields of the outcome, `error` for the exception's class, and `requests`; those not named may be anything."""
    scenario, plain = SCENARIOS[name], surface.endswith("plain")
    different = client.different(surface, name)
    tries = different.pop("tries", client.tries)
    kind, curable, sees = scenario.error, scenario.curable, scenario.sees
    if plain and kind in _EARLY:
        kind, status = _EARLY[kind]
        curable, sees = kind == "failed", {**sees, "status": status, "text": ""}
    return {
        **sees,
        "error": kind and client.errors[kind],
        "requests": tries if curable else scenario.asks,
        **different,
    }


def differences(expected: dict[str, Any], seen: Seen) -> list[str]:
    """Each field that is not as expected, one line each."""
    outcome = {**seen.outcome, "calls": [tuple(call) for call in seen.outcome["calls"]]}
    usage = outcome["usage"]
    told = outcome | {"requests": seen.requests, "usage": usage and tuple(usage)}
    found = []
    for field, value in expected.items():
        if value is ...:  # whatever the client says
            continue
        if field == "error":
            if (value is None) == bool(told["errors"]) or (value and value not in told["errors"]):
                found.append(f"exception {told['errors']} ({told['message']}), not {value}")
        elif field == "message":
            if value not in told["message"]:
                found.append(f"message {told['message']!r} lacks {value!r}")
        elif told[field] != value:
            found.append(f"{field} {told[field]!r}, not {value!r}")
    return found


def reaches(name: str, seen: Seen) -> bool:
    """Whether the scripted server was asked as often as the proxy was."""
    scenario = SCENARIOS[name]
    if scenario.live:
        return True
    if scenario.wrong_key:
        return not seen.received
    most = seen.requests * 2 if scenario.reconnects else seen.requests
    return seen.requests <= len(seen.received) <= most


def history_differences(expected: dict[str, Any], body: dict[str, Any]) -> list[str]:
    """What is wrong in a second turn with the history that the server is sent: calls, results, and reasoning.

    A client that has a place for reasoning repeats it, and the proxy passes it on under the server's key.
    """
    _, answer, *tools = body["messages"]
    said = {
        "calls": [
            (call["function"]["name"], json.loads(call["function"]["arguments"])) for call in answer["tool_calls"]
        ],
        "ids": [call["id"] for call in answer["tool_calls"]],
        "results": [tool["content"] for tool in tools],
        "reasoning": answer.get("reasoning_content") or "",
    }
    wanted = {
        "calls": expected["calls"],
        "ids": [tool["tool_call_id"] for tool in tools],
        "results": [RESULTS[name] for name, _ in expected["calls"]],
        "reasoning": expected["reasoning"],
    }
    return [f"history: {key} {value!r}, not {wanted[key]!r}" for key, value in said.items() if value != wanted[key]]
