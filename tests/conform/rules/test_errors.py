"""Servers whose errors break one rule each."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.conform.rules.table import Server, breaks, check
from tests.conform.servers import (
    Applies,
    Change,
    Exchange,
    failures,
    headers,
    in_bytes,
    in_document,
    refused,
    to,
)

LONG = to("too long", "too long, streamed")


def _error(applies: Applies, **keys: object) -> Change:
    return in_document(applies, lambda body: body["error"].update(keys))


def _status(status: int) -> Applies:
    return lambda _, exchange: exchange.status == status


def _too_large(question: str, exchange: Exchange) -> Exchange:
    return replace(exchange, status=413) if LONG(question, exchange) else exchange


SERVERS: dict[str, Server] = {
    "error-type": breaks(headers(failures, content_type="text/html")),
    "error-json": breaks(in_bytes(to("two calls"), lambda _: b"<html>Busy.</html>")),
    "error-shape": breaks(in_document(failures, lambda body: body["error"].update(status=1))),
    "error-kind": breaks(_error(_status(404), type="not_found_error")),
    "error-final": breaks(headers(_status(400), x_should_retry=None)),
    "error-wait": breaks(headers(_status(503), retry_after="soon")),
    "broken-json": breaks(refused(to("broken JSON"), 500, "invalid_json")),
    "broken-json-code": breaks(_error(to("broken JSON"), code=None)),
    "no-object": breaks(refused(to("no JSON object"), 500)),
    "no-messages": breaks(refused(to("no messages"), 500)),
    "empty-messages": breaks(refused(to("empty messages"), 500)),
    "text-messages": breaks(refused(to("messages of text"), 500)),
    "unknown-path": breaks(refused(to("unknown path"), 500)),
    "wrong-method": breaks(refused(to("wrong method"), 500)),
    "wrong-key": breaks(refused(to("wrong key"), 403, "invalid_api_key")),
    "wrong-key-code": breaks(_error(to("wrong key"), code=None)),
    "unknown-model": breaks(refused(to("unknown model"), 400, "model_not_found")),
    "image": breaks(_error(to("image"), code=None)),
    "too-long": breaks(_too_large),
    "too-long-code": breaks(_error(LONG, code=None)),
    "too-long-words": breaks(_error(LONG, message="Too many words.")),
}


@pytest.mark.parametrize("rule", SERVERS)
def test_a_breach_is_found_and_no_other(rule: str) -> None:
    check(rule, SERVERS[rule])
