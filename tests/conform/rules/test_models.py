"""Servers whose model list breaks one rule each."""

from __future__ import annotations

import pytest

from tests.conform.rules.table import Server, breaks, check
from tests.conform.servers import in_document, refused, to

SERVERS: dict[str, Server] = {
    "models-listed": breaks(refused(to("models"), 404)),
    "models-shape": breaks(in_document(to("models"), lambda body: body["data"][0].update(meta={}))),
    "models-unique": breaks(in_document(to("models"), lambda body: body["data"].append(body["data"][0]))),
    "model-shown": breaks(in_document(to("model"), lambda body: body.update(id="model"))),
    "model-shape": breaks(in_document(to("model"), lambda body: body.pop("owned_by"))),
    "model-unknown": breaks(refused(to("model of no name"), 404)),
}


@pytest.mark.parametrize("rule", SERVERS)
def test_a_breach_is_found_and_no_other(rule: str) -> None:
    check(rule, SERVERS[rule])
