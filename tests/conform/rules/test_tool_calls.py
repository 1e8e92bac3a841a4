"""Servers whose tool calls break one rule each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from svir_proxy.conform.exchange import Exchange, Request
from svir_proxy.conform.questions import HISTORY_ID
from tests.conform.rules.table import Server, breaks, check
from tests.conform.servers import (
    Applies,
    Change,
    answer,
    becomes,
    chunk,
    holding,
    in_document,
    in_events,
    refused,
    said,
    to,
)

CALLED = holding(b'"tool_calls": [')
TEXT = {"role": "assistant", "content": '<tool_call>{"name": "open_locker"}', "refusal": None}
NO_CALL = {"role": "assistant", "content": "I will not.", "refusal": None}


def _pieces(edit: Callable[[list[dict[str, Any]]], object], applies: Applies = CALLED) -> Change:
    """Edits the pieces of the calls in a stream."""

    def edit_them(items: list[Any]) -> None:
        deltas = [item["choices"][0]["delta"] for item in items if isinstance(item, dict) and item["choices"]]
        edit([piece for delta in deltas for piece in delta.get("tool_calls", [])])

    return in_events(edit_them, applies)


def _openings(**keys: Any) -> Change:
    return _pieces(lambda pieces: [piece.update(keys) for piece in pieces if "id" in piece])


def _mixed(items: list[Any]) -> None:
    """The second call begins before the first has its arguments."""
    items[2], items[3] = items[3], items[2]


def _says(question: str, message: dict[str, Any]) -> Change:
    """The model says something, and calls nothing."""
    return in_document(to(question), lambda body: body["choices"][0].update(message=message, finish_reason="stop"))


def _says_streamed(question: str) -> Change:
    return in_events(lambda items: [items[0], chunk({"content": "No."}), chunk({}, "stop"), items[-1]], to(question))


def _as_if(choice: str) -> Callable[[Request], Exchange]:
    """The answer to another tool_choice."""
    return lambda request: answer(Request(request.path, {**request.body, "tool_choice": choice}))


SERVERS: dict[str, Server] = {
    "tool-shape": breaks(_openings(name="open_locker")),
    "tool-opening": breaks(_pieces(lambda pieces: [piece.pop("type", None) for piece in pieces]), "tool-shape"),
    "tool-continuation": breaks(_pieces(lambda pieces: pieces[1].update(
        id=pieces[0]["id"], type="function", function={**pieces[1]["function"], "name": pieces[0]["function"]["name"]}), to("tools, streamed"))),
    "tool-index": breaks(_pieces(lambda pieces: [piece.update(index=piece["index"] + 1) for piece in pieces])),
    "tool-apart": breaks(in_events(_mixed, to("two calls, streamed"))),
    "tool-id": breaks(_openings(id="call_0")),
    "tool-id-fresh": breaks(said(to("another call"), b"call_0", HISTORY_ID.encode())),
    "tool-arguments": breaks(said(to("tools"), rb'{\"id\": 7}', rb'{\"id\": 7')),
    "tool-text": breaks(_says("tools", TEXT)),
    "finish-calls": breaks(said(to("tools"), b'"finish_reason": "tool_calls"', b'"finish_reason": "stop"')),
    "choice-none": breaks(becomes(to("tool_choice none"), _as_if("auto"))),
    "choice-none-stream": breaks(becomes(to("tool_choice none, streamed"), _as_if("auto"))),
    "choice-required": breaks(_says("tool_choice required", NO_CALL)),
    "choice-required-stream": breaks(_says_streamed("tool_choice required, streamed")),
    "choice-named": breaks(said(to("tool_choice named"), b"get_weather", b"open_locker")),
    "choice-named-stream": breaks(said(to("tool_choice named, streamed"), b"get_weather", b"open_locker")),
    "tool-history": breaks(refused(to("history of a call"), 400)),
}  # fmt: skip


@pytest.mark.parametrize("rule", SERVERS)
def test_a_breach_is_found_and_no_other(rule: str) -> None:
    check(rule, SERVERS[rule])
