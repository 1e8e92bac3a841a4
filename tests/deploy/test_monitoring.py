"""Alerts and dashboard: by Prometheus' own tools, and against what a real proxy tells a real Prometheus."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
import yaml

from svir_proxy.conform.upstream import Answer, ScriptedUpstream, json_answer
from tests.cli.processes import serve
from tests.cli.test_prometheus import PATIENCE, prometheus
from tests.deploy.processes import ROOT
from tests.docs.pages import page
from tests.server.support import ANSWER, CHAT, COMPLETION, STREAM

ALERTS: Final = ROOT / "deploy/prometheus/alerts.yml"
ALERT_TESTS: Final = ROOT / "tests/deploy/alerts.test.yml"
DASHBOARD: Final[dict[str, Any]] = json.loads((ROOT / "deploy/grafana/dashboards/svir-proxy.json").read_text("utf-8"))
PANELS: Final[list[dict[str, Any]]] = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
VARIABLES: Final = {variable["name"]: variable for variable in DASHBOARD["templating"]["list"]}
METRIC: Final = re.compile(r"\bsvir_[a-z_]+")
RULES: Final[list[dict[str, Any]]] = yaml.safe_load(ALERTS.read_text("utf-8"))["groups"][0]["rules"]


def _expressions() -> Iterator[tuple[str, str]]:
    """Where each query of the dashboard is, and the query with what Grafana puts into it."""
    for panel in PANELS:
        for target in panel["targets"]:
            text = re.sub(r"\$(?:job|backend|model)\b", ".*", target["expr"]).replace("$__rate_interval", "1m")
            assert "$" not in text
            yield f"{panel['title']} {target['refId']}", text


EXPRESSIONS: Final = list(_expressions())


def _promtool(*arguments: str | Path) -> str:
    if shutil.which("promtool") is None:
        pytest.skip("there is no promtool: apt-get install prometheus")
    done = subprocess.run(["promtool", *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


# ----------------------------------------------------------------- by Prometheus' own tools


def test_the_configuration_of_prometheus_is_right() -> None:
    said = _promtool("check", "config", ROOT / "deploy/prometheus/prometheus.yml")
    assert f"SUCCESS: {len(RULES)} rules found" in said


def test_each_alert_takes_what_it_should() -> None:
    _promtool("test", "rules", ALERT_TESTS)
    tested = {
        case["alertname"]
        for test in yaml.safe_load(ALERT_TESTS.read_text("utf-8"))["tests"]
        for case in test["alert_rule_test"]
    }
    assert tested == {rule["alert"] for rule in RULES}


def test_prometheus_can_read_each_query_of_the_dashboard(tmp_path: Path) -> None:
    rules = [{"record": f"query:{number}", "expr": text} for number, (_, text) in enumerate(EXPRESSIONS)]
    (tmp_path / "rules.yml").write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": rules}]}))
    _promtool("check", "rules", tmp_path / "rules.yml")


# ----------------------------------------------------------------- as a whole


def test_the_page_says_what_to_do_about_each_alert() -> None:
    rows = page("docs/operations/monitoring.md").rows("| alert |")
    assert [re.findall(r"`(\w+)`", cells[0]) for cells in rows] == [[rule["alert"]] for rule in RULES]


def test_the_dashboard_hangs_together() -> None:
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(ids) == len(set(ids))
    assert len({panel["title"] for panel in PANELS}) == len(PANELS)
    used = {
        name for panel in PANELS for target in panel["targets"] for name in re.findall(r"\$(?!__)(\w+)", target["expr"])
    }
    used |= {
        name for variable in VARIABLES.values() for name in re.findall(r"\$(\w+)", str(variable.get("definition", "")))
    }
    assert used | {"datasource"} == set(VARIABLES)
    for holder in (*PANELS, *(target for panel in PANELS for target in panel["targets"])):
        assert holder["datasource"] == {"type": "prometheus", "uid": "${datasource}"}


def test_no_two_panels_lie_on_each_other() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        place = panel["gridPos"]
        cells = {(place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])}
        assert not cells & taken, panel["title"]
        assert all(x < 24 for x, _ in cells), panel["title"]
        taken |= cells


# ----------------------------------------------------------------- against a real scrape


def _families(text: str) -> set[str]:
    """The names that a series of a page may have."""
    kinds = dict(re.findall(r"^# TYPE (\S+) (\w+)$", text, re.MULTILINE))
    parts = {"histogram": ("_bucket", "_sum", "_count"), "counter": ("",), "gauge": ("",), "info": ("",)}
    return {f"{name}{part}" for name, kind in kinds.items() for part in parts[kind]}


async def _traffic(base_url: str) -> None:
    """A request that goes well, a stream, one that goes on to another backend, one that fails, one that is refused."""
    async with httpx.AsyncClient(base_url=base_url, trust_env=False, timeout=20) as client:
        asked = [
            (CHAT, "good", 200),
            (STREAM, "good", 200),
            (CHAT, "moves", 200),
            (CHAT, "bad", 502),
            (CHAT, "not-there", 404),
        ]
        for body, model, status in asked:
            response = await client.post("/v1/chat/completions", json={**body, "model": model})
            assert response.status_code == status, response.text


async def _page(base_url: str) -> str:
    async with httpx.AsyncClient(base_url=base_url, trust_env=False, timeout=20) as client:
        return (await client.get("/metrics")).text


def _config(folder: Path, *base_urls: str) -> Path:
    models: list[dict[str, str]] = [{"good": "good", "moves": "bad", "bad": "bad"}, {"moves": "good"}]
    backends = [
        {"name": f"b{n}", "base_url": url, "profile": "openai", "priority": n, "models": has, "max_requests": 4}
        for n, (url, has) in enumerate(zip(base_urls, models, strict=True))
    ]
    path = folder / "svir.yaml"
    path.write_text(yaml.safe_dump({"backends": backends, "routing": {"breaker_failures": 1, "health_seconds": 1}}))
    return path


SHOWN: Final[dict[str, set[str]]] = {
    "Requests a second A": set(),
    "Failing A": set(),
    "Requests by status A": {"200", "404", "502"},
    "Requests by backend A": {"b0", "b1"},
    "Errors by code A": {"model_not_found", "upstream_failed"},
    "First token by backend A": {"b0"},
    "Tokens a second A": set(),
    "Who answers A": {"b0", "b1"},
    "Breakers that are open A": {"b0", "bad"},
    "Places B": {"b0", "b1"},
    "Failovers A": {"b0", "upstream_failed"},
    "Workers A": set(),
}
"""Panels, and labels that have to be among what they show of that traffic."""


async def test_each_query_has_an_answer_for_a_real_proxy(tmp_path: Path) -> None:
    """Names and labels are those that the proxy has, and what happened shows on the panels that are for it."""
    usage = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}
    streamed = Answer(headers={"content-type": "text/event-stream"}, pieces=[ANSWER])
    answer = json_answer({**COMPLETION, "usage": usage})
    answer.then = streamed
    streamed.then = json_answer({**COMPLETION, "usage": usage})
    script = {"good": answer, "bad": json_answer({"error": {"message": "broken"}}, 500)}
    other = {"good": json_answer({**COMPLETION, "usage": usage})}
    async with (
        ScriptedUpstream(script) as one,
        ScriptedUpstream(other) as two,
        serve(_config(tmp_path, one.base_url, two.base_url)) as serving,
        prometheus(tmp_path, {"svir-proxy": (serving.base_url.removeprefix("http://"), {})}, [ALERTS]) as server,
    ):
        await server.until('up{job="svir-proxy"}', {"svir-proxy": 1})
        await _traffic(serving.base_url)  # after the first scrape: a rate needs something to grow from
        await server.until('sum by (job) (svir_requests_total{endpoint="chat/completions"})', {"svir-proxy": 5})
        text = await _page(serving.base_url)

        families = _families(text)
        definitions = [str(variable.get("definition", "")) for variable in VARIABLES.values()]
        for where, query in (
            *EXPRESSIONS,
            *((rule["alert"], rule["expr"]) for rule in RULES),
            *((text, text) for text in definitions),
        ):
            assert set(METRIC.findall(query)) <= families, where

        for title, labels in SHOWN.items():
            query = dict(EXPRESSIONS)[title]
            async with asyncio.timeout(PATIENCE):  # a rate has a value from the second scrape on
                while not (found := (await server.get("/api/v1/query", query=query))["result"]):  # noqa: ASYNC110 - nobody tells
                    await asyncio.sleep(0.1)
            assert labels <= {value for entry in found for value in entry["metric"].values()}, title
        for where, query in EXPRESSIONS:
            assert (await server.get("/api/v1/query", query=query))["resultType"] == "vector", where

        groups = (await server.get("/api/v1/rules"))["groups"]
        async with asyncio.timeout(PATIENCE):
            while any(rule["health"] == "unknown" for group in groups for rule in group["rules"]):
                await asyncio.sleep(0.1)
                groups = (await server.get("/api/v1/rules"))["groups"]
        assert {rule["name"]: rule["health"] for group in groups for rule in group["rules"]} == {
            rule["alert"]: "ok" for rule in RULES
        }
