"""What a report says: scores that add up, evidence without secrets, words and JSON that agree."""

from __future__ import annotations

import json
from dataclasses import replace

from svir_proxy.conform.exchange import Exchange
from svir_proxy.conform.interview import Interview
from svir_proxy.conform.report import report_on
from svir_proxy.conform.rules import RULES
from svir_proxy.conform.session import hold, leave_out_the_rest
from tests.conform.servers import CONTEXT, MODEL, answer, interviewed, refused, to

KEY = "sk-very-secret"


def test_a_score_is_of_what_showed() -> None:
    report = interviewed(refused(to("tools", "tools, streamed"), 400))
    verdicts = [finding.verdict for finding in report.findings]
    score = report.score
    assert (score.kept, score.rules) == (verdicts.count("kept"), len(RULES))
    assert score.rules - score.shown == verdicts.count("not shown") > 0
    areas = report.areas().values()
    assert [sum(values) for values in zip(*((area.kept, area.shown, area.rules) for area in areas), strict=True)] == [
        score.kept, score.shown, score.rules,
    ]  # fmt: skip


def test_words_and_json_say_the_same() -> None:
    report = interviewed(refused(to("developer"), 500))
    text, told = "\n".join(report.lines()), json.loads(json.dumps(report.as_json()))
    (broken,) = [rule for rule in told["rules"] if rule["verdict"] == "broken"]
    assert broken["name"] == "developer"
    assert "broken  parameters: developer: the role developer is taken" in text
    assert broken["evidence"].splitlines()[0] in text
    assert told["score"]["kept"] == told["score"]["shown"] - 1
    assert {rule["name"] for rule in told["rules"]} == {rule.name for rule in RULES}


def test_a_server_with_full_marks_gets_a_short_report() -> None:
    text = "\n".join(interviewed().lines())
    assert "broken" not in text
    assert "100%" in text


def test_a_narrow_terminal_has_narrow_lists() -> None:
    interview = Interview(MODEL, CONTEXT)
    leave_out_the_rest(interview, "interrupted")
    wide, narrow = ([*report_on("http://server", interview).lines(width)] for width in (116, 80))
    assert max(map(len, narrow)) <= 80 < max(map(len, wide)) <= 116
    assert " ".join(wide).split() == " ".join(narrow).split()


def test_the_key_is_nowhere() -> None:
    """A server that says the key in its errors is quoted without it."""

    def telling(request) -> Exchange:
        right = answer(request)
        return replace(right, status=500, body=b'{"error": "no such key: %b"}' % KEY.encode())

    interview = Interview(MODEL, CONTEXT, keyed=True)
    hold(interview, telling)
    report = report_on(f"http://user:{KEY}@server", interview, [KEY, ""])
    assert KEY not in json.dumps(report.as_json()) + "\n".join(report.lines())
    assert "***" in "\n".join(report.lines())
