"""``check`` tells what is configured, or everything that is wrong, and starts nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from svir_proxy.cli import main


def _check(text: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    Path("c.yaml").write_text(text)
    status = main(["check", "--config", "c.yaml"])
    told = capsys.readouterr()
    return status, told.out, told.err


def test_backends(capsys: pytest.CaptureFixture[str]) -> None:
    Path("mine.yaml").write_text("name: mine\nextends: lm-studio\nserver: Mine\nobserved: [{source: run}]\n")
    Path("mine2.yaml").write_text("name: mine2\nextends: mine.yaml\nserver: Mine\nobserved: [{source: run}]\n")
    text = """
auth: {keys: [sk-secret, sk-other]}
backends:
  - {name: a, base_url: "http://h:1/v1/", api_key: sk-secret}
  - {name: long-name, base_url: "http://h/api/v1", profile: mine.yaml, overrides: {request: {images: rejected}}}
  - {name: c, base_url: "http://h", profile: mine2.yaml}
"""
    assert _check(text, capsys) == (
        0,
        (
            "ok: 3 backends, 127.0.0.1 port 8484, 2 keys\n"
            "  a          http://h:1  generic\n"
            "  long-name  http://h/api  mine extends lm-studio extends generic, with overrides\n"
            "  c          http://h  mine2 extends mine.yaml\n"
        ),
        "",
    )


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "ok: 0 backends (serve looks for model servers on this machine), 127.0.0.1 port 8484, no key needed\n"),
        (
            "server: {port: 1}\nauth: {keys: [k]}",
            "ok: 0 backends (serve looks for model servers on this machine), 127.0.0.1 port 1, 1 key\n",
        ),
        (
            "backends: [{name: a, base_url: 'http://h'}]",
            "ok: 1 backend, 127.0.0.1 port 8484, no key needed\n  a  http://h  generic\n",
        ),
    ],
)
def test_few_backends(text: str, told: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert _check(text, capsys) == (0, told, "")


def test_aliases_that_several_have(capsys: pytest.CaptureFixture[str]) -> None:
    text = """
backends:
  - {name: a, base_url: "http://a", models: {smart: x, mine: y, fast: z}, weight: 3, priority: 1}
  - {name: b, base_url: "http://b", models: {smart: x, "gpt-*": y, fast: z}, priority: 1}
  - {name: c, base_url: "http://c", models: {smart: x, "gpt-*": y}, weight: 0}
"""
    _, out, _ = _check(text, capsys)
    assert out.splitlines()[4:] == [
        "  smart: c, then a (75%) or b (25%)",
        "  fast: a (75%) or b (25%)",
        "  gpt-*: c, then b",
    ]


def test_problems(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = _check("server: {prot: 1}\nbackends: [{name: a, base_url: 'h:1'}]", capsys)
    assert (status, out) == (2, "")
    assert err.splitlines() == [
        "server.prot: is unknown; did you mean port?",
        "backends[0].base_url: does not start with http:// or https://; write http://HOST:PORT",
    ]


def test_what_is_not_wrong_but_surely_not_meant(capsys: pytest.CaptureFixture[str]) -> None:
    text = """
server: {workers: 4}
auth: {keys: [{key: k, expires: 2020-01-31, limits: {requests_per_minute: 9}}]}
"""
    status, out, err = _check(text, capsys)
    assert (status, err) == (0, "")
    assert [line.partition(", ")[0] for line in out.splitlines()[1:]] == [
        "warning: auth.store: is not set",
        "warning: auth.keys[0].expires: is past (2020-01-31T23:59:59Z)",
    ]
