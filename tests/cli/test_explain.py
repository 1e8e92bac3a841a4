"""``explain`` says what would go to a backend, and why, without sending anything."""

from __future__ import annotations

import io
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from svir_proxy.cli import main

ONE = """
backends:
  - {name: local, base_url: "http://127.0.0.1:8080/v1", profile: llama-cpp, api_key: sk-secret, models: {small: /m/x.gguf}}
"""
TWO = ONE + '  - {name: rack, base_url: "http://127.0.0.1:8000", profile: vllm, models: {big: b}}\n'
DEEP = f'{{"model": "small", "messages": [{{"role": "user", "content": "x"}}], "a": {"[" * 1000 + "]" * 1000}}}'
ASK: dict[str, Any] = {"model": "small", "messages": [{"role": "developer", "content": "x"}]}


def _explain(config: str, body: Any, capsys: pytest.CaptureFixture[str], *options: str) -> tuple[int, str, str]:
    Path("c.yaml").write_text(config)
    Path("r.json").write_text(body if isinstance(body, str) else json.dumps(body))
    status = main(["explain", "--config", "c.yaml", *options, "r.json"])
    told = capsys.readouterr()
    return status, told.out, told.err


def test_each_change_comes_with_its_fact_and_evidence(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = _explain(ONE, ASK, capsys)
    assert status == 0
    assert "backend   local (llama.cpp, profile llama-cpp)" in out
    assert "request   POST http://127.0.0.1:8080/v1/chat/completions" in out
    assert "rewrite   role.developer=system" in out
    assert "because request.developer_role is 'ignored': " in out
    assert json.loads(out.partition("\nbody\n")[2])["model"] == "/m/x.gguf"
    assert "sk-secret" not in out


def test_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = _explain(ONE, ASK, capsys, "--json")
    told = json.loads(out)
    assert (told["backend"], told["profile"], told["checked"]) == ("local", "llama-cpp", None)
    reasons = {reason["note"]: reason for reason in told["rewrites"]}
    assert reasons["role.developer=system"]["fact"] == "request.developer_role"
    assert reasons["role.developer=system"]["evidence"]
    assert all(reason["done"] for reason in reasons.values())


def test_a_demand_that_the_proxy_sees_to(capsys: pytest.CaptureFixture[str]) -> None:
    config = 'backends: [{name: m, base_url: "http://h", profile: mlx-lm}]'
    tools = [{"type": "function", "function": {"name": "f"}}]
    _, out, _ = _explain(config, ASK | {"tools": tools, "tool_choice": "required"}, capsys)
    assert "answer    is held and checked for tool_choice.required" in out


@pytest.mark.parametrize(
    ("options", "model", "backend"),
    [((), "big", "rack"), ((), "small", "local"), (("--backend", "rack"), "any", "rack")],
)
def test_the_backend(options: tuple[str, ...], model: str, backend: str, capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = _explain(TWO, ASK | {"model": model}, capsys, "--json", *options)
    assert json.loads(out)["backend"] == backend


SHARED = """
backends:
  - {name: a, base_url: "http://a", models: {smart: big, "gpt-*": small}, weight: 0}
  - {name: b, base_url: "http://b", models: {smart: large, "*": "*"}}
  - {name: c, base_url: "http://c", models: {smart: huge}, priority: -1}
"""


@pytest.mark.parametrize(
    ("model", "backends", "named"),
    [("smart", ["c", "b", "a"], "huge"), ("gpt-4", ["a"], "small"), ("o3", ["b"], "o3")],
)
def test_the_backends_in_their_order(
    model: str, backends: list[str], named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    told = json.loads(_explain(SHARED, ASK | {"model": model}, capsys, "--json")[1])
    assert [told["backend"], *told["otherwise"]] == backends
    assert told["body"]["model"] == named
    _, out, _ = _explain(SHARED, ASK | {"model": model}, capsys)
    assert ("otherwise b, then a: " in out) is (model == "smart")


@pytest.mark.parametrize(
    ("config", "body", "options", "status", "said"),
    [
        (TWO, ASK | {"model": "any"}, (), 1, "Name it with --backend (local, rack)"),
        (TWO, ASK, ("--backend", "desk"), 1, "there is no such backend"),
        ("", ASK, (), 1, "no backend is configured; name a configuration"),
        ("backends: [{}]", ASK, (), 2, "backends[0].name"),
        (ONE, DEEP, (), 1, "r.json: is nested too deeply to be shown"),
        (ONE, DEEP, ("--json",), 1, "r.json: is nested too deeply to be shown"),
    ],
)
def test_what_cannot_be_explained(
    config: str, body: Any, options: tuple[str, ...], *, status: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    got, out, err = _explain(config, body, capsys, *options)
    assert (got, out) == (status, "")
    assert said in err


@pytest.mark.parametrize(("body", "code"), [("{", "invalid_json"), (ASK | {"n": 2}, "unsupported_parameter")])
def test_a_refusal_is_shown_as_the_client_would_get_it(
    body: Any, code: str, capsys: pytest.CaptureFixture[str]
) -> None:
    status, out, _ = _explain(ONE, body, capsys)
    assert status == 0
    assert json.loads(out)["error"]["code"] == code


def test_a_request_from_standard_input(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    Path("c.yaml").write_text(ONE)
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(json.dumps(ASK).encode())))
    assert main(["explain", "--config", "c.yaml", "-"]) == 0
    assert "backend   local" in capsys.readouterr().out


def test_a_file_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    Path("c.yaml").write_text(ONE)
    assert main(["explain", "--config", "c.yaml", "nowhere.json"]) == 1
    assert "nowhere.json: cannot be read" in capsys.readouterr().err


def test_long_payloads_are_cut_for_reading(capsys: pytest.CaptureFixture[str]) -> None:
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 5000}}
    _, out, _ = _explain(ONE, ASK | {"messages": [{"role": "user", "content": [image]}]}, capsys)
    assert "… (5022 characters)" in out


RULES = """
rules:
  answers:
    - {name: none-of-it, pattern: x, action: block}
    - {name: for-kids, pattern: "y", action: redact, keys: [kid], models: [small]}
    - {name: others, pattern: z, action: redact, models: ["b*"]}
  deprecated: {small: big, "o*": }
auth: {keys: [{name: kid, key: sk-kid}]}
"""
BLOCKED = "answer    is held, and blocked where rule none-of-it finds something"
OTHERS = "answer    is held, and redacted, where rule others finds something"


@pytest.mark.parametrize(
    ("options", "model", "told", "certain"),
    [
        (
            (),
            "small",
            [
                BLOCKED,
                "answer    is held, and redacted, where rule for-kids finds something, for the keys kid",
                "answer    has the header X-AI-Model-Deprecated: big",
            ],
            [True, True],
        ),
        ((), "big", [BLOCKED, OTHERS], [True, True]),
        (  # the server's own word for small
            ("--backend", "local"),
            "/m/x.gguf",
            [
                BLOCKED,
                "answer    is held, and redacted, where rule for-kids finds something, for the keys kid",
                f"{OTHERS}, if no server lists the model",
            ],
            [True, True, False],
        ),
        (
            ("--backend", "rack"),
            "other",
            [
                BLOCKED,
                "answer    is held, and redacted, where rule for-kids finds something, for the keys kid, if no server lists the model",
                f"{OTHERS}, if no server lists the model",
                "answer    has the header X-AI-Model-Deprecated: true",
            ],
            [True, False, False],
        ),
    ],
)
def test_the_rules_for_the_answer(
    options: tuple[str, ...], model: str, told: list[str], certain: list[bool], capsys: pytest.CaptureFixture[str]
) -> None:
    ask = {"model": model, "messages": [{"role": "user", "content": "x"}]}
    _, out, _ = _explain(TWO + RULES, ask, capsys, *options)
    assert [line for line in out.splitlines() if line.startswith("answer ")] == told
    _, out, _ = _explain(TWO + RULES, ask, capsys, *options, "--json")
    rules = json.loads(out)["rules"]
    assert [rule["certain"] for rule in rules["answers"]] == certain
    assert rules["deprecated"] == (told[-1].rpartition(": ")[2] if "header" in told[-1] else None)


PICTURE = [{"type": "image_url", "image_url": {"url": "https://pics.example/a.png"}}]


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("", "image_url_not_allowed"),
        (", remote_images: inline", "data:image/*;base64,(fetched from https://pics.example/a.png)"),
        (", remote_images: pass", '"url": "https://pics.example/a.png"'),
    ],
)
def test_what_becomes_of_an_image_by_url(setting: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    config = f'backends: [{{name: local, base_url: "http://127.0.0.1:8080", profile: vllm{setting}}}]'
    _, out, _ = _explain(config, {"model": "m", "messages": [{"role": "user", "content": PICTURE}]}, capsys)
    assert said in out
