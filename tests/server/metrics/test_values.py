"""Numbers of several processes come to one, and survive the way between them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from svir_proxy.server.metrics import families
from svir_proxy.server.metrics.families import FAMILIES, Family
from svir_proxy.server.metrics.values import Sample, Values, dump, load, total


def _samples(family: Family) -> st.SearchStrategy[dict[tuple[str, ...], Sample]]:
    number = st.integers(0, 2**40)
    labels = st.tuples(*[st.sampled_from(["", "a", 'q"\\\n', "é"])] * len(family.labels))
    length = len(family.buckets) + 2
    sample = st.lists(number.map(float), min_size=length, max_size=length) if family.buckets else number
    return st.dictionaries(labels, sample, max_size=3)


VALUES = st.fixed_dictionaries({}, optional={family.name: _samples(family) for family in FAMILIES})


@given(VALUES)
def test_what_is_carried_over_is_the_same(values: Values) -> None:
    assert load(dump(values)) == values


@given(st.lists(VALUES, max_size=3), st.randoms())
def test_the_order_does_not_matter_and_nothing_is_changed(parts: list[Values], random: object) -> None:
    before = [dump(part) for part in parts]
    whole = total(parts)
    random.shuffle(parts)  # type: ignore[attr-defined]
    assert total(parts) == whole
    assert sorted(map(dump, parts)) == sorted(before)


def test_how_samples_add_up() -> None:
    histogram = families.RATE.name
    two: list[Values] = [
        {"svir_open_streams": {("b",): 2}, "svir_backend_up": {("b",): 1}, histogram: {("b", "m"): [1.0, 2.0]}},
        {"svir_open_streams": {("b",): 3}, "svir_backend_up": {("b",): 0}, histogram: {("b", "m"): [3.0, 4.0]}},
    ]
    assert total(two) == {
        "svir_open_streams": {("b",): 5},
        "svir_backend_up": {("b",): 0},
        histogram: {("b", "m"): [4.0, 6.0]},
    }
    assert total([]) == {}
