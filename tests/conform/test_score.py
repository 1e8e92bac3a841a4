"""Scores: of what showed, and 100 % is nothing less."""

from __future__ import annotations

import pytest

from svir_proxy.conform.score import Score


@pytest.mark.parametrize(
    ("verdicts", "score", "share", "full"),
    [
        ([], Score(0, 0, 0), "-", True),
        (["kept", "not shown"], Score(1, 1, 2), "100%", True),
        (["kept"] * 999 + ["broken"], Score(999, 1000, 1000), "99%", False),
    ],
)
def test_a_score(verdicts: list, score: Score, share: str, *, full: bool) -> None:
    assert Score.of(verdicts) == score
    assert (score.share, score.full) == (share, full)
    assert share in str(score)
    assert score.as_json() == {"kept": score.kept, "shown": score.shown, "rules": score.rules}
