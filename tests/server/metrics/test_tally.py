"""What requests come to: a table of them, and what is never counted apart."""

from __future__ import annotations

import time
from typing import Any

import pytest

from svir_proxy.errors import ProxyError
from svir_proxy.server.metrics import families
from svir_proxy.server.metrics.families import BY_NAME, Family
from svir_proxy.server.metrics.tally import MAX_SERIES, Tally
from svir_proxy.server.metrics.values import Values
from tests.server.metrics.records import Answered, record

LATE = ProxyError("upstream_timeout", "late")


def known_as(model: str) -> str | None:
    """As a catalog with the models ``m`` and ``n`` and the alias ``gpt-*``."""
    return model if model in ("m", "n", "half \ud83d") else "gpt-*" if model.startswith("gpt-") else None


def counted(*records: Any, tally: Tally | None = None) -> Values:
    tally = tally or Tally()
    for one in records:
        tally.count(one, known_as)
    return tally.values()


def at(values: Values, family: Family) -> dict[tuple[str, ...], Any]:
    """The samples of *family*; those of histograms as count and sum."""
    samples = values.get(family.name, {})
    return {
        labels: (sum(sample[:-1]), round(sample[-1], 6)) if isinstance(sample, list) else sample
        for labels, sample in samples.items()
    }


OF_M = ("b", "m")
ALL_OF_M = ("chat/completions", *OF_M)


@pytest.mark.parametrize(
    ("more", "family", "samples"),
    [
        ({}, families.REQUESTS, {(*ALL_OF_M, "200"): 1}),
        ({"status": 499}, families.REQUESTS, {(*ALL_OF_M, "499"): 1}),
        ({"path": "/v1/embeddings"}, families.REQUESTS, {("embeddings", *OF_M, "200"): 1}),
        ({"path": "/x", "backend": "", "model": ""}, families.REQUESTS, {("other", "", "", "200"): 1}),
        ({}, families.ERRORS, {}),
        ({"error": LATE}, families.ERRORS, {(*ALL_OF_M, "upstream_timeout"): 1}),
        ({"status": 500}, families.ERRORS, {(*ALL_OF_M, "internal_error"): 1}),
        ({"error": LATE}, families.REQUESTS, {(*ALL_OF_M, "200"): 1}),  # a stream that failed later
        # names
        ({"model": "n"}, families.REQUESTS, {("chat/completions", "b", "n", "200"): 1}),
        ({"model": "gpt-9"}, families.REQUESTS, {("chat/completions", "b", "gpt-*", "200"): 1}),
        ({"model": "made up"}, families.REQUESTS, {("chat/completions", "b", "other", "200"): 1}),
        ({"model": "half \ud83d"}, families.REQUESTS, {("chat/completions", "b", "half ?", "200"): 1}),
        # tokens
        ({"answer": Answered()}, families.INPUT, {}),
        ({"answer": Answered(tokens=(7, 3))}, families.INPUT, {OF_M: 7}),
        ({"answer": Answered(tokens=(7, 3))}, families.OUTPUT, {OF_M: 3}),
        ({"answer": Answered(tokens=(7, 3))}, families.CACHED, {OF_M: 0}),
        (
            {"answer": Answered(tokens=(7, 3), details={"prompt_tokens_details": {"cached_tokens": 4}})},
            families.CACHED,
            {OF_M: 4},
        ),
        (
            {"answer": Answered(tokens=(7, 3), details={"completion_tokens_details": {"reasoning_tokens": 2}})},
            families.REASONING,
            {OF_M: 2},
        ),
        # the first token: of streams
        ({"answer": Answered(first=0.5)}, families.FIRST_TOKEN, {}),
        ({"stream": True, "answer": Answered()}, families.FIRST_TOKEN, {}),
        ({"stream": True, "answer": Answered(first=0.5)}, families.FIRST_TOKEN, {OF_M: (1, 0.5)}),
        # speed: from the first token to the last
        ({"answer": Answered(first=9.0, last=11.0, tokens=(7, 21))}, families.RATE, {OF_M: (1, 10.0)}),
        ({"answer": Answered(first=9.0, last=9.049, tokens=(7, 21))}, families.RATE, {}),
        ({"answer": Answered(first=9.0, last=8.0, tokens=(7, 21))}, families.RATE, {}),  # held, and let out at the end
        ({"answer": Answered(first=9.0, tokens=(7, 21))}, families.RATE, {}),
        ({"answer": Answered(last=9.0, tokens=(7, 21))}, families.RATE, {}),
        ({"answer": Answered(first=9.0, last=11.0, tokens=(7, 1))}, families.RATE, {}),
        ({"answer": Answered(first=9.0, last=11.0)}, families.RATE, {}),
        (
            {
                "answer": Answered(
                    first=9.0,
                    last=11.0,
                    tokens=(7, 121),
                    details={"completion_tokens_details": {"reasoning_tokens": 100}},
                )
            },
            families.RATE,
            {OF_M: (1, 10.0)},
        ),
        (
            {
                "answer": Answered(
                    first=9.0,
                    last=11.0,
                    tokens=(7, 121),
                    has_reasoning=True,
                    details={"completion_tokens_details": {"reasoning_tokens": 100}},
                )
            },
            families.RATE,
            {OF_M: (1, 60.0)},
        ),
        # notes
        (
            {"notes": ("model=alias", "nulls=a+b")},
            families.REWRITES,
            {("b", "model=alias"): 1, ("b", "nulls"): 1},
        ),
        (
            {"notes": ("retry.drop=seed", "retry.drop=user", "retry=tool_choice.named")},
            families.RETRIES,
            {(*OF_M, "rejected"): 1},
        ),
        ({"notes": ("tool_choice.required=asked_again",)}, families.RETRIES, {(*OF_M, "unmet"): 1}),
        (
            {"notes": ("failover=a:upstream_failed", "failover=c:overloaded")},
            families.FAILOVERS,
            {("a", "m", "upstream_failed"): 1, ("c", "m", "overloaded"): 1},
        ),
    ],
)
def test_a_request_is_counted(more: dict[str, Any], family: Family, samples: dict[Any, Any]) -> None:
    assert at(counted(record(**more)), family) == samples


def test_requests_add_up() -> None:
    values = counted(record(), record(path="/chat/completions"), record(status=500), record(model="n"))
    assert at(values, families.REQUESTS) == {
        (*ALL_OF_M, "200"): 2,
        (*ALL_OF_M, "500"): 1,
        ("chat/completions", "b", "n", "200"): 1,
    }


def test_endpoints_share_the_speed_of_a_model() -> None:
    answer = Answered(first=1.0, last=2.0, tokens=(1, 11))
    values = counted(record(answer=answer), record(path="/v1/audio/odd", answer=answer))
    assert at(values, families.RATE) == {OF_M: (2, 20.0)}
    assert at(values, families.OUTPUT) == {OF_M: 22}


def test_a_sample_is_in_the_first_bucket_that_it_does_not_exceed() -> None:
    bounds = families.FIRST_TOKEN.buckets
    first = [record(stream=True, answer=Answered(first=seconds), began=0.0) for seconds in (*bounds, bounds[-1] * 2)]
    sample = counted(*first)[families.FIRST_TOKEN.name][OF_M]
    assert isinstance(sample, list)
    assert sample[:-1] == [1] * (len(bounds) + 1)


def test_a_request_lasts_until_it_is_counted() -> None:
    [(count, seconds)] = at(counted(record(began=time.perf_counter() - 3)), families.REQUEST_SECONDS).values()
    assert count == 1
    assert seconds >= 3


def test_counts_go_on_from_those_before() -> None:
    before = counted(record(), record(notes=("model=alias",)))
    values = counted(record(stream=True, answer=Answered(first=1.0)), tally=Tally(before))
    assert at(values, families.REQUESTS) == {(*ALL_OF_M, "200"): 3}
    assert at(values, families.REWRITES) == {("b", "model=alias"): 1}
    assert at(values, families.REQUEST_SECONDS)[ALL_OF_M][0] == 3


def test_what_was_read_stays_as_it_was() -> None:
    tally = Tally(counted(record()))
    first = counted(record(), tally=tally)
    copy = {name: dict(samples) for name, samples in first.items()}
    counted(record(), record(), tally=tally)
    assert first == copy


def test_made_up_names_make_no_series() -> None:
    tally = Tally()
    for number in range(3 * MAX_SERIES):
        made_up = record(path=f"/{number}", model=f"made-up-{number}", notes=(f"drop=made_up_{number}",))
        tally.count(made_up, known_as)
    values = counted(record(), tally=tally)
    assert at(values, families.REQUESTS) == {("other", "b", "other", "200"): 3 * MAX_SERIES, (*ALL_OF_M, "200"): 1}
    assert at(values, families.REWRITES) == {("b", "drop=other"): 3 * MAX_SERIES}
    assert all(len(samples) <= 2 for samples in values.values())
    assert len(tally._usual) == 1, "nothing is remembered of them"


def test_there_are_no_more_series_than_a_limit_whatever_lists_have() -> None:
    tally = Tally()
    for number in range(MAX_SERIES + 500):
        tally.count(record(model=f"listed-{number}"), lambda model: model)
        tally.count(record(notes=(f"odd{number}=x",)), known_as)
    values = tally.values()
    assert len(values[families.REQUESTS.name]) == MAX_SERIES + 1
    assert values[families.REQUESTS.name][("chat/completions", "b", "other", "200")] == 501
    assert len(values[families.REWRITES.name]) == 1001


def test_all_that_is_counted_is_in_the_table() -> None:
    values = counted(
        record(error=LATE, stream=True, notes=("retry=x",), answer=Answered(first=1.0, last=2.0, tokens=(1, 9)))
    )
    for name, samples in values.items():
        for labels, sample in samples.items():
            family = BY_NAME[name]
            assert len(labels) == len(family.labels)
            assert isinstance(sample, list) == bool(family.buckets)
