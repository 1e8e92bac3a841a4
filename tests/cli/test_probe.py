"""``probe`` from the command line, against servers on loopback ports."""

from __future__ import annotations

import json
import os
import signal
import socket
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from svir_proxy.cli import main
from svir_proxy.probe.answer import Answer
from svir_proxy.profiles import load_profile
from tests.probe.servers import Serve, model_list, model_server, serving
from tests.probe.simulated import Simulated, json_answer

KEY: Final = "a-very-secret-key"
SHOW: Final = ("--api-key-env", "PROBE_TEST_KEY")
LIAR: Final = {
    "model": "any",
    "tool_choice.named": "ignored",
    "response_format.json_schema": "ignored",
    "images": "rejected",
    "optional_fields.store": "rejected",
}


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROBE_TEST_KEY", f"{KEY}\n")  # as a file that was read leaves it


def _probe(serve: Serve, capsys: pytest.CaptureFixture[str], *options: str, path: str = "/v1") -> tuple[int, str, str]:
    with serving(serve) as url:
        status = main(["probe", f"{url}{path}", *options])
    told = capsys.readouterr()
    return status, told.out, told.err


def test_what_is_learned_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = _probe(model_server(Simulated(LIAR)), capsys)
    assert status == 0
    rows = {line.split()[0]: line.split()[1] for line in out.splitlines() if line.startswith("request.")}
    assert rows["request.tool_choice.required"] == "kept"
    assert rows["request.tool_choice.named"] == "ignored"
    assert rows["request.images"] == "rejected"
    assert rows["request.optional_fields.user"] == "unknown"
    assert "] tool_choice named: ignored" in err
    assert "took    " in out


def test_what_is_written_is_checked_and_served(capsys: pytest.CaptureFixture[str]) -> None:
    status, _, err = _probe(model_server(Simulated(LIAR), key=KEY), capsys, "--write", "mine.yaml", *SHOW)
    assert status == 0
    assert "wrote mine.yaml" in err
    profile = load_profile("mine.yaml")
    assert (profile.extends, profile.server, profile.observed[0].source) == ("generic", "mine", "probe")
    assert profile.request.tool_choice.named == "ignored"
    assert profile.request.optional_fields["store"] == "rejected"
    assert KEY not in Path("mine.yaml").read_text("utf-8")
    backend = {"name": "mine", "base_url": "http://127.0.0.1:1", "profile": "mine.yaml"}
    Path("svir.yaml").write_text(yaml.safe_dump({"backends": [backend]}), encoding="utf-8")
    assert main(["check", "--config", "svir.yaml"]) == 0
    assert "mine extends generic" in capsys.readouterr().out


def test_a_key_is_shown_to_the_server_and_nobody_else(capsys: pytest.CaptureFixture[str]) -> None:
    serve = model_server(Simulated(), key=KEY)
    status, out, err = _probe(serve, capsys, "--json", *SHOW)
    assert status == 0
    assert json.loads(out)["facts"]
    assert KEY not in out + err
    status, out, err = _probe(serve, capsys)
    assert (status, out) == (1, "")
    assert "name the variable that holds it with --api-key-env" in err


def test_several_models(capsys: pytest.CaptureFixture[str]) -> None:
    server = Simulated({"model": "any"})
    status, out, _ = _probe(model_server(server, "text-embedding-1", "b", "c"), capsys)
    assert status == 0
    assert "model   b, one of 2; another: --model" in out
    _, out, _ = _probe(model_server(server, "b", "c"), capsys, "--model", "c", "--json")
    assert json.loads(out)["model"] == "c"


def test_against_a_profile(capsys: pytest.CaptureFixture[str]) -> None:
    serve = model_server(Simulated(LIAR))
    _, out, _ = _probe(serve, capsys, "--diff", "openai", "--json")
    told = json.loads(out)
    assert told["against"] == "openai"
    differ = {entry["fact"] for entry in told["differences"] if entry["verdict"] == "disagrees"}
    assert {"request.tool_choice.named", "request.images"} <= differ
    _, out, _ = _probe(serve, capsys, "--diff", "openai")
    assert "openai says otherwise" in out


def test_a_profile_that_is_named_is_what_is_extended(capsys: pytest.CaptureFixture[str]) -> None:
    serve = model_server(Simulated(LIAR))
    _probe(serve, capsys, "--profile", "openai", "--write", "a.yaml")
    assert load_profile("a.yaml").extends == "openai"
    Path("folder").mkdir()
    _probe(serve, capsys, "--profile", "a.yaml", "--write", "folder/b.yaml")
    assert load_profile("folder/b.yaml").extends == "../a.yaml"


def test_the_limits(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = _probe(model_server(Simulated()), capsys, "--max-tokens", "100")
    assert status == 0
    assert "ended   early: the limit of 100 tokens is reached" in out


def test_ctrl_c_ends_it_with_what_was_found(capsys: pytest.CaptureFixture[str]) -> None:
    usual = model_server(Simulated({"tools": "kept"}))

    def serve(method: str, path: str, headers: dict[str, str], body: Any) -> Answer | None:
        if body is not None and "response_format" in body:
            os.kill(os.getpid(), signal.SIGINT)
            return None
        return usual(method, path, headers, body)

    status, out, _ = _probe(serve, capsys, "--write", "so-far.yaml")
    assert status == 130
    assert "ended   early: interrupted" in out
    assert load_profile("so-far.yaml").request.tool_choice.named == "kept"


def _only(answer: Answer | None, listed: Answer | None = None) -> Serve:
    return lambda method, *_: (listed or answer) if method == "GET" else answer


@pytest.mark.parametrize(
    ("serve", "options", "words"),
    [
        (_only(Answer(200, {"content-type": "text/html"}, b"<html>Welcome!</html>")), (), "no model server answered"),
        (_only(json_answer({"error": "Unexpected endpoint"})), (), "no model server answered"),
        (_only(json_answer({"detail": "Not Found"}, 404)), (), "no model server answered"),
        (_only(json_answer({"detail": "Not Found"}, 404), model_list("m")), (), "check the URL"),
        (_only(json_answer({"error": {"message": "no"}}, 400), model_list("m")), (), "even the plainest request: 400 no"),
        (_only(json_answer({"hello": 1}), model_list("m")), (), "something else than a model server"),
        (_only(Answer(200, {}, b"garbage"), model_list("m")), (), "something else than a model server"),
        (_only(None, model_list("m")), ("--max-seconds", "0.5"), "the limit of 0.5 s"),
    ],
)  # fmt: skip
def test_what_is_no_model_server(
    serve: Serve, options: tuple[str, ...], words: str, capsys: pytest.CaptureFixture[str], monkeypatch: Any
) -> None:
    monkeypatch.setattr("svir_proxy.probe.interview.LONGEST_PAUSE", 0.01)
    monkeypatch.setattr("svir_proxy.probe.recognition.LOADING_SECONDS", 0.1)
    status, out, err = _probe(serve, capsys, "--write", "x.yaml", *options)
    assert (status, out) == (1, "")
    assert words in err
    assert not Path("x.yaml").exists()


def test_nobody_listens(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    assert main(["probe", f"http://127.0.0.1:{port}"]) == 1
    assert "no connection: " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["ftp://x"], "does not start with http"),
        (["http://user:pass@x"], "carries a user name"),
        (["http://x", "--api-key-env", "NOT_SET_ANYWHERE"], "is not set, or empty"),
        (["http://x", "--api-key-env", "BLANK_KEY"], "is not set, or empty"),
        (["http://x", "--api-key-env", "ODD_KEY"], "holds what no header can carry"),
        (["http://x", "--write", "profile.txt"], "name a .yaml file"),
        (["http://x", "--write", "there.yaml"], "is there already"),
        (["http://x", "--write", "no/where.yaml"], "there is no folder no"),
        (["https://x", "--ca-file", "no.pem"], "cannot be read as PEM: No such file"),
        (["https://x", "--ca-file", "there.yaml"], "cannot be read as PEM: "),
        (["http://x", "--diff", "no-such"], "is no built-in profile"),
        (["http://x", "--profile", "no-such"], "is no built-in profile"),
    ],
)
def test_a_command_line_that_cannot_be_followed(
    options: list[str], words: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BLANK_KEY", " \n")
    monkeypatch.setenv("ODD_KEY", "schl\u00fcssel")
    Path("there.yaml").write_text("name: mine")
    assert main(["probe", *options]) == 2
    told = capsys.readouterr().err
    assert words in told
    assert "pass@" not in told
    assert "schl" not in told


@pytest.mark.parametrize("value", ["0", "-1", "x", "inf", "nan"])
def test_a_limit_is_a_number(value: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["probe", "http://x", "--max-seconds", value])
    assert ended.value.code == 2
    assert "is no number above 0" in capsys.readouterr().err
