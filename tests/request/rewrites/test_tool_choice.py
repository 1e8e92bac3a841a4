"""The choice between tools: the decision table of each form, row by row."""

from __future__ import annotations

from typing import Any, Final

import pytest

from svir_proxy.errors import ProxyError
from svir_proxy.expectation import Expectation
from svir_proxy.request.instructions import call_instruction
from tests.request.support import GONE, Outcome, ask, function, outcome, user

FACTS = ("kept", "unknown", "ignored", "rejected")
F, G, H = function("f"), function("g"), function("h")
NAMED: Final = {"type": "function", "function": {"name": "g"}}
FLAT: Final = {"type": "function", "name": "g"}
SENT = Outcome({}, [])
NO_TOOLS = {"tools": GONE, "tool_choice": GONE}


def _allowed(mode: str, *, flat: bool = False) -> dict[str, Any]:
    inner = {"mode": mode, "tools": [FLAT, {"type": "function", "function": {"name": "h"}}]}
    return {"type": "allowed_tools", **inner} if flat else {"type": "allowed_tools", "allowed_tools": inner}


def _told(*names: str) -> list[dict[str, Any]]:
    return [{"role": "system", "content": call_instruction(names)}, user()]


def _demand(fact: str, names: str, notes: list[str], **changes: Any) -> Outcome:
    """The call is demanded in words, and the answer is checked."""
    expected = Expectation(f"tool_choice.{fact}", calls=frozenset(names))
    return Outcome({"messages": _told(*names), **changes}, [*notes, f"tool_choice.{fact}=instructed"], expected)


TABLE: Final[dict[tuple[str, str], Outcome]] = {
    ("auto", "kept"): SENT,
    ("auto", "unknown"): SENT,
    ("auto", "ignored"): SENT,
    ("auto", "rejected"): Outcome({"tool_choice": GONE}, ["tool_choice.auto=dropped"]),
    ("none", "kept"): SENT,
    ("none", "unknown"): SENT,
    ("none", "ignored"): Outcome(NO_TOOLS, ["tool_choice.none=tools_dropped"]),
    ("none", "rejected"): Outcome(NO_TOOLS, ["tool_choice.none=tools_dropped"]),
    ("required", "kept"): SENT,
    ("required", "unknown"): SENT,
    ("required", "ignored"): _demand("required", "fgh", []),
    ("required", "rejected"): _demand("required", "fgh", ["tool_choice.required=auto"], tool_choice="auto"),
}


@pytest.mark.parametrize(("choice", "fact"), TABLE)
def test_words(choice: str, fact: str) -> None:
    assert outcome(ask(tools=[F, G, H], tool_choice=choice), {f"tool_choice.{choice}": fact}) == TABLE[choice, fact]


@pytest.mark.parametrize("required", FACTS)
@pytest.mark.parametrize("named", FACTS)
@pytest.mark.parametrize("flat", [False, True])
def test_a_named_function(named: str, required: str, flat: bool) -> None:
    facts = {"tool_choice.named": named, "tool_choice.required": required}
    notes = ["tool_choice=nested"] if flat else []
    only = [*notes, "tool_choice.named=only_tool"]
    if named in ("kept", "unknown"):
        expected = Outcome({"tool_choice": NAMED} if flat else {}, notes)
    elif required in ("kept", "unknown"):
        expected = Outcome({"tools": [G], "tool_choice": "required"}, only)
    elif required == "ignored":
        expected = _demand("named", "g", only, tools=[G], tool_choice="required")
    else:
        notes = [*only, "tool_choice.required=auto"]
        expected = _demand("named", "g", notes, tools=[G], tool_choice="auto")
    assert outcome(ask(tools=[F, G, H], tool_choice=FLAT if flat else NAMED), facts) == expected


@pytest.mark.parametrize("fact", FACTS)
@pytest.mark.parametrize("mode", ["auto", "required"])
@pytest.mark.parametrize("flat", [False, True])
def test_allowed_tools(fact: str, mode: str, flat: bool) -> None:
    few = Outcome({"tools": [G, H], "tool_choice": mode}, ["tool_choice.allowed_tools=only_tools"])
    result = outcome(ask(tools=[F, G, H], tool_choice=_allowed(mode, flat=flat)), {"tool_choice.allowed_tools": fact})
    assert result == (SENT if fact == "kept" else few)


def test_allowed_tools_of_which_one_is_required_where_that_is_not_kept() -> None:
    facts = {"tool_choice.allowed_tools": "rejected", "tool_choice.required": "rejected"}
    result = outcome(ask(tools=[F, G, H], tool_choice=_allowed("required")), facts)
    notes = ["tool_choice.allowed_tools=only_tools", "tool_choice.required=auto"]
    assert result == _demand("required", "gh", notes, tools=[G, H], tool_choice="auto")


@pytest.mark.parametrize(
    "choice",
    [
        "any",
        5,
        ["auto"],
        {},
        {"type": "custom", "custom": {"name": "g"}},
        {"type": "function", "function": {"name": "nobody"}},
        {"type": "function", "name": 5},
        {"type": "allowed_tools"},
        {"type": "allowed_tools", "allowed_tools": {"tools": [{"type": "function", "name": "nobody"}, 5]}},
        {"type": ["function"]},
    ],
)
def test_what_the_server_has_to_judge(choice: Any) -> None:
    facts = {f"tool_choice.{form}": "rejected" for form in ("auto", "none", "required", "named", "allowed_tools")}
    assert outcome(ask(tools=[F, {"type": "custom"}], tool_choice=choice), facts) == SENT


@pytest.mark.parametrize(
    "tools", [[{"type": "custom", "custom": {"name": "x"}}], [5], [{"function": {}}], {"f": {}}, 5]
)
def test_a_call_of_what_is_no_function_cannot_be_demanded(tools: Any) -> None:
    assert outcome(ask(tools=tools, tool_choice="required"), {"tool_choice.required": "ignored"}) == SENT


@pytest.mark.parametrize("fact", FACTS)
@pytest.mark.parametrize("choice", [None, "auto", "required", "none", NAMED])
def test_a_server_without_tools(fact: str, choice: Any) -> None:
    body = ask(tools=[F, G], parallel_tool_calls=False, **({} if choice is None else {"tool_choice": choice}))
    if fact in ("kept", "unknown"):
        assert outcome(body, {"tools": fact}) == SENT
    elif choice == "none":
        gone = {**NO_TOOLS, "parallel_tool_calls": GONE}
        assert outcome(body, {"tools": fact}) == Outcome(gone, ["tool_choice.none=tools_dropped"])
    else:
        with pytest.raises(ProxyError) as caught:
            outcome(body, {"tools": fact})
        assert (caught.value.kind, caught.value.param) == ("unsupported_parameter", "tools")
