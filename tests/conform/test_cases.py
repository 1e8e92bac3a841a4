"""The corpus is the same from a clone and from a wheel, and a body is the same however it is cut."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import hatch_build
from svir_proxy.conform import cases
from svir_proxy.conform.cases import SPLITS, Split, cut
from svir_proxy.profiles import builtin_names


@pytest.fixture
def _fresh():
    """What was loaded before is loaded again, now and after the test."""
    readers = (cases.load_cases, cases.load_model_lists, cases._corpus)
    for reader in readers:
        reader.cache_clear()
    yield
    for reader in readers:
        reader.cache_clear()


def _told(corpus: tuple[cases.Case, ...]) -> list[tuple[object, ...]]:
    return [(case.key, case.meta, case.body) for case in corpus]


def test_each_body_has_its_case() -> None:
    bodies = {path.relative_to(cases.FOLDER).as_posix() for path in cases.FOLDER.rglob("*.body")}
    assert bodies <= {f"{case.key}.body" for case in cases.load_cases()}


@pytest.mark.usefixtures("_fresh")
def test_a_wheel_has_what_the_clone_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    exchanges, lists = _told(cases.load_cases()), [(one.key, one.meta) for one in cases.load_model_lists()]
    failures = cases.expected_failures()
    archive = tmp_path / "corpus.tar.gz"
    archive.write_bytes(hatch_build.packed(cases.FOLDER))
    for reader in (cases.load_cases, cases.load_model_lists, cases._corpus):
        reader.cache_clear()
    monkeypatch.setattr(cases, "ARCHIVE", archive)
    monkeypatch.setattr(cases, "FOLDER", tmp_path)
    assert _told(cases.load_cases()) == exchanges
    assert [(one.key, one.meta) for one in cases.load_model_lists()] == lists
    assert cases.expected_failures() == failures


@pytest.mark.usefixtures("_fresh")
def test_an_installation_without_a_corpus_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cases, "FOLDER", tmp_path)
    with pytest.raises(cases.CorpusMissingError, match="no recorded cases"):
        cases.load_cases()


def test_the_name_of_a_profile_chooses_it() -> None:
    assert [name for name in builtin_names() if cases.profile_of(name) != name] == []


@given(st.binary(max_size=500), st.sampled_from(SPLITS), st.text(max_size=5))
def test_pieces_are_the_body(body: bytes, split: Split, seed: str) -> None:
    pieces = cut(body, split, seed)
    assert b"".join(pieces) == body
    assert pieces == cut(body, split, seed)
