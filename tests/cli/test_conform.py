"""``conform`` as a command: what it prints, and its status."""

from __future__ import annotations

import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import pytest

from svir_proxy.cli import main
from svir_proxy.cli.conform import prompt
from svir_proxy.conform.exchange import Exchange, Request
from svir_proxy.conform.interview import PROMPTS
from svir_proxy.conform.rules import RULES
from tests.conform.servers import CONTEXT, MODEL, answer

KEY = "sk-the-key"


class _Handler(BaseHTTPRequestHandler):
    """The server that keeps every rule, over HTTP; with ``strange`` it tells foreign things."""

    server: Any

    def do_GET(self) -> None:
        self._answer(Request(self.path, key=self._key()))

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers["content-length"]))
        try:
            body = json.loads(raw)
        except ValueError:
            body = None
        odd = not isinstance(body, dict)
        self._answer(Request(self.path, None if odd else body, raw if odd else None, "POST", self._key()))

    def _key(self) -> Any:
        return "right" if self.headers.get("authorization") == f"Bearer {KEY}" else "wrong"

    def _answer(self, request: Request) -> None:
        exchange: Exchange = answer(request)
        body = (
            exchange.body.replace(b'"object": ', b'"timings": {}, "object": ') if self.server.strange else exchange.body
        )
        self.send_response(exchange.status or 500)
        for name, value in {**exchange.headers, "content-length": str(len(body)), "connection": "close"}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Says nothing."""


class _Server(ThreadingHTTPServer):
    strange = False


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("THE_KEY", KEY)
    with _Server(("127.0.0.1", 0), _Handler) as made:
        thread = Thread(target=made.serve_forever, args=(0.01,))
        thread.start()
        yield made
        made.shutdown()
        thread.join()


def _conform(server: _Server, *options: str) -> int:
    url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    return main(["conform", url, "--api-key-env", "THE_KEY", "--context", str(CONTEXT), *options])


def test_full_marks(server: _Server, capsys: pytest.CaptureFixture[str]) -> None:
    assert _conform(server, "--json") == 0
    told = capsys.readouterr()
    report = json.loads(told.out)
    assert (report["model"], report["score"]) == (MODEL, {"kept": len(RULES), "shown": len(RULES), "rules": len(RULES)})
    assert "1/" in told.err
    assert KEY not in told.out + told.err


def test_less(server: _Server, capsys: pytest.CaptureFixture[str]) -> None:
    server.strange = True
    assert _conform(server, "--quiet") == 1
    told = capsys.readouterr()
    assert "broken  streams: chunk-foreign" in told.out
    assert "'timings' was unexpected" in told.out
    assert told.err == ""


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["conform"], "which server?"),
        (["conform", "localhost:1"], "does not start with http://"),
        (["conform", "http://127.0.0.1:1", "--api-key-env", "NOT_SET"], "NOT_SET is not set"),
        (["conform", "http://127.0.0.1:1"], "cannot be asked"),
    ],
)
def test_nobody_can_be_asked(argv: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(argv) == 2
    assert words in capsys.readouterr().err


def test_a_server_that_wants_a_key(server: _Server, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["conform", f"http://127.0.0.1:{server.server_address[1]}"]) == 2
    assert "give --api-key-env" in capsys.readouterr().err


@pytest.mark.parametrize(
    "options", [["--prompt", "text"], ["--prompt", "song=la"], ["--context", "0"], ["--seconds", "x"]]
)
def test_options_that_are_none(options: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["conform", "http://127.0.0.1:1", *options])
    assert ended.value.code == 2


def test_the_rules_can_be_read(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["conform", "--rules"]) == 0
    out = capsys.readouterr().out
    assert all(rule.name in out and rule.demands in out for rule in RULES)


@pytest.mark.parametrize("purpose", PROMPTS)
def test_each_purpose_can_have_other_words(purpose: str) -> None:
    assert prompt(f"{purpose}=a=b") == (purpose, "a=b")
