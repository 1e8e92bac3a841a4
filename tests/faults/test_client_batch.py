"""A batch of clients by chance, and that its judge is not deaf."""

from __future__ import annotations

import pytest

from svir_proxy.conform.judge import Seen
from tests.faults.client_batch import names, plan, run
from tests.faults.clients import Hear


async def test_a_batch() -> None:
    report = await run(400, seed=0)
    assert report.findings == []
    assert report.clients.total() == 400
    assert len(report.clients) == 11
    assert min(report.answers["stream"], report.answers["whole"], report.answers["invalid_request"]) > 50
    before, after = report.objects
    assert after < before + 20, "the proxy kept something of each client"


def test_a_seed_is_a_plan() -> None:
    assert plan("1/7") == plan("1/7")
    assert plan("1/7") != plan("1/8")


def test_plans_of_one_batch_share_no_exchange() -> None:
    called = [name for number in range(50) for name in names(f"1/{number}", 10)]
    assert len(set(called)) == len(called)
    assert max(len(plan(f"1/{number}").turns) for number in range(500)) <= 10


_ERROR = b'{"error":{"message":"no body","type":"invalid_request_error","param":null,"code":null}}'
_TOLD = {"x-request-id": "r", "content-length": str(len(_ERROR))}


@pytest.mark.parametrize(
    ("hear", "seen"),
    [
        (Hear("invalid_request"), Seen(422, _TOLD, _ERROR)),
        (Hear("invalid_request"), Seen(400, {}, _ERROR)),
        (Hear("invalid_request"), Seen(400, _TOLD, b"{}")),
        (Hear("invalid_request", says="another"), Seen(400, _TOLD, _ERROR)),
        (Hear("invalid_json"), Seen(400, _TOLD, _ERROR)),
        (Hear("invalid_request", headers=(("connection", "close"),)), Seen(400, _TOLD, _ERROR)),
        (Hear("overloaded"), Seen(503, _TOLD, _ERROR.replace(b"invalid_request_error", b"upstream_error"))),
        (Hear(), Seen(400, _TOLD, _ERROR)),
        (Hear(head=True), Seen(200, _TOLD, b"x")),
        (Hear("unknown_url", head=True), Seen(200, _TOLD, b"")),
        (Hear(chat="whole"), Seen(200, _TOLD, b"{}")),
    ],
)
def test_the_judge(hear: Hear, seen: Seen) -> None:
    assert list(hear.judge(seen))


def test_the_judge_lets_what_is_right_pass() -> None:
    assert list(Hear("invalid_request", says="no body").judge(Seen(400, _TOLD, _ERROR))) == []
    assert list(Hear("invalid_request", head=True).judge(Seen(400, _TOLD, b""))) == []
