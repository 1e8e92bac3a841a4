"""The benchmarks can be run: nothing here says how fast anything is."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import pytest

BENCHMARKS: Final = Path(__file__).parents[1] / "benchmarks"

CPU: Final = {"nginx": 10.0, "direct": None, "svir": 21.0, "svir_openai": 26.0, "other": 20.0}


def _run(script: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "error", BENCHMARKS / script, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture
def report(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(BENCHMARKS)
    return import_module("harness.report")


def _runs(scenario: str, **figures: dict[str, float | None]) -> list[dict[str, Any]]:
    """Three repetitions of each target, in which *figures* (by key and target) are 10 % less, as given, 10 % more."""
    return [
        {
            "scenario": scenario, "target": target, "repetition": repetition, "load": 1.0, "ok": 10, "elapsed_s": 2.0,
            **{key: by_target[target] * factor for key, by_target in figures.items() if by_target[target] is not None},
        }
        for repetition, factor in enumerate((0.9, 1.0, 1.1))
        for target in CPU
    ]  # fmt: skip


@pytest.fixture
def processes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """The harness, with programs of this test's own."""
    if shutil.which("cc") is None or sys.platform != "linux":
        pytest.skip("needs a C compiler, and Linux")
    monkeypatch.syspath_prepend(BENCHMARKS)
    processes = import_module("harness.processes")
    monkeypatch.setattr(processes, "_BUILD", tmp_path / "build")
    monkeypatch.setattr(processes, "_FLAGS", ("-Wall", "-Wextra", "-Werror"))
    return processes


@pytest.mark.parametrize("stream", [True, False])
def test_the_programs_work_with_each_other(stream: bool, processes: Any, tmp_path: Path) -> None:
    scenario = import_module("harness.scenarios").Scenario("some", "", 4, 20, 4, stream=stream, pieces=30)
    upstream = processes.Running([processes.build("upstream")], tmp_path / "log")
    try:
        port = int(upstream.wait_for_line("listening on", seconds=60).rpartition(":")[2])
        result = processes.generate_load(port, scenario, {}, upstream.pids())
    finally:
        upstream.stop()
    assert (result["bad_status"], result["broken"], result["unfinished"]) == (0, 0, 0)
    assert 16 <= result["ok"] <= 20  # those that began before the first four had ended are not measured
    # Of an answer that had begun on each connection when measuring did, some pieces had come before.
    assert result["pieces"] > 30 * (result["ok"] - 4) if stream else result["pieces"] == 0
    assert result["first_us"]["count"] == result["ok"]
    assert result["rss_kb_max"] > 0


@pytest.mark.parametrize("fault", ["none", "missing", "twice", "no-done", "status"])
def test_an_answer_that_is_not_whole_is_noticed(fault: str, processes: Any) -> None:
    events = [f'data: {{"content":" t={7:016x} s={number} w"}}\n\n' for number in (1, 2, 3)]
    events = {"missing": [events[0], events[2]], "twice": [events[0], *events]}.get(fault, events)
    body = "".join(events) + ("" if fault == "no-done" else "data: [DONE]\n\n")
    status = "503 No" if fault == "status" else "200 OK"
    head = f"HTTP/1.1 {status}\r\ncontent-type: text/event-stream\r\ncontent-length: {len(body)}\r\n\r\n"
    scenario = import_module("harness.scenarios").Scenario("some", "", 1, 1, 0, pieces=3)
    with socket.create_server(("127.0.0.1", 0)) as listener, ThreadPoolExecutor() as pool:
        answered = pool.submit(_answer_once, listener, (head + body).encode())
        result = processes.generate_load(listener.getsockname()[1], scenario, {}, [])
        assert b'"model":"m-3-0-vllm"' in answered.result()
    counts = {"none": "ok", "status": "bad_status"}
    keys = ("ok", "bad_status", "broken", "unfinished")
    assert {key: result[key] for key in keys} == dict.fromkeys(keys, 0) | {counts.get(fault, "broken"): 1}


def _answer_once(listener: socket.socket, answer: bytes) -> bytes:
    connection, _ = listener.accept()
    with connection:
        request = b""
        while b"}]" not in request:
            request += connection.recv(65536)
        connection.sendall(answer)
        while rest := connection.recv(65536):
            request += rest
    return request


def test_the_core_is_measured_saved_and_compared(tmp_path: Path) -> None:
    saved = tmp_path / "figures.json"
    first = _run("core.py", "--quick", "--save", saved)
    assert first.returncode == 0, first.stderr
    kept = json.loads(saved.read_text())
    assert all(f"| {name} |" in first.stdout for name in kept["figures"])
    assert {"content", "byte-wise", "request: image", "line: json", "answer"} <= kept["figures"].keys()
    second = _run("core.py", "--quick", "--only", "content", "--compare", saved)
    assert second.returncode == 0, second.stderr
    assert f"x {kept['commit']}" in second.stdout


def test_run_tells_its_options_and_refuses_what_it_does_not_know() -> None:
    assert "--repetitions" in _run("run.py", "--help").stdout
    unknown = _run("run.py", "--scenarios", "paced,fast")
    assert unknown.returncode == 2
    assert "no such scenario: fast" in unknown.stderr


def test_run_says_what_is_missing(monkeypatch: pytest.MonkeyPatch, report: Any) -> None:
    missing = _run("run.py", "--python", "no-such-python")
    assert missing.returncode == 1
    assert missing.stderr.startswith("no-such-python cannot run the proxy")
    targets = import_module("harness.targets")
    monkeypatch.setattr(shutil, "which", lambda *_, **__: None)
    with pytest.raises(Exception, match="apt-get install nginx"):
        targets.nginx_program()


def test_a_kept_batch_becomes_a_page(tmp_path: Path, report: Any) -> None:
    kept = tmp_path / "batch.json"
    runs = _runs("paced", cpu_us_per_piece=CPU)
    kept.write_text(json.dumps({"machine": {"machine": "2 x some"}, "runs": runs}))
    done = _run("run.py", "--report", kept)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == report.report({"machine": "2 x some"}, runs)
    assert "- machine: 2 x some" in done.stdout


@pytest.mark.parametrize(
    ("scenario", "key", "figures", "row"),
    [
        ("paced", "cpu_us_per_piece", CPU, "| 2.10: pass | 2.60: **FAIL** |"),
        ("paced1000", "rss_kb_max", dict.fromkeys(CPU, 61_440.0), "| 60 (54-66): pass, aim reached | 60 (54-66): pass, aim"),
        ("idle", "rss_mib", dict.fromkeys(CPU, 70.0), "| 70 (63-77): **FAIL** |"),
        ("json", "cpu_ms_per_answer", CPU, "| - | 2.60: pass, aim reached |"),
    ],
)  # fmt: skip
def test_a_goal_is_passed_or_failed(scenario: str, key: str, figures: dict[str, float], row: str, report: Any) -> None:
    table = report.goals_table(report.Results(_runs(scenario, **{key: figures})))
    assert row in table
    assert table.count("not measured") > 0


def test_routers_that_were_measured_have_goals_of_their_own(report: Any) -> None:
    table = report.goals_table(report.Results(_runs("paced", cpu_us_per_piece=CPU)))
    assert "against other | <= 1.25 x other | <= 1 x other | 1.05: pass | 1.30: **FAIL** |" in table


def test_an_answer_that_is_not_whole_is_told(report: Any) -> None:
    runs = _runs("paced1000", broken=dict.fromkeys(CPU, 10.0))
    assert "| 1000 streams: lost | <= 0 | <= 0 | 30: **FAIL** | 30: **FAIL** |" in report.goals_table(
        report.Results(runs)
    )
