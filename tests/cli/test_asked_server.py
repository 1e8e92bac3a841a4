"""One way to name a server, for every command that asks one: the same words are taken, and the same are refused."""

from __future__ import annotations

import os
import signal
from itertools import count
from pathlib import Path
from typing import Any, Final, NoReturn

import httpx
import pytest

from svir_proxy.cli import main
from svir_proxy.cli.asked_server import NotAskedError, columns, key_in, model_of, root_of, trust
from svir_proxy.conform.client import Client
from svir_proxy.conform.exchange import Exchange, Request
from svir_proxy.conform.questions import CHAT
from svir_proxy.probe.answer import Answer
from tests.probe.servers import Serve, model_list, model_server, serving
from tests.probe.simulated import Simulated, json_answer

KEY: Final = "a-very-secret-key"
COMMANDS: Final = (["probe"], ["conform"], ["conform", "--corpus"], ["record"])
HTML: Final = Answer(200, {"content-type": "text/html"}, b"<!doctype html><p>Hello</p>")


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["127.0.0.1:8000"], "does not start with http://"),
        (["ftp://h"], "does not start with http://"),
        (["http://"], "names no host"),
        (["http://127.0.0.1:port"], "is no URL"),
        (["http://127.0.0.1:99999"], "is no URL"),
        (["http://[::1"], "is no URL"),
        (["http://someone:pa55word@h"], "in the variable that --api-key-env names"),
        (["http://h/v1/chat/completions"], "leave out /chat/completions"),
        (["http://h", "--api-key-env", "NOT_SET"], "NOT_SET is not set"),
        (["http://h", "--api-key-env", "BLANK"], "BLANK is not set, or empty"),
        (["http://h", "--api-key-env", "ODD"], "holds what no header can carry"),
        (["http://h", "--ca-file", "no.pem"], "--ca-file no.pem: cannot be read as PEM"),
    ],
)
def test_what_names_no_server(
    command: list[str],
    argv: list[str],
    words: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("BLANK", " \n")
    monkeypatch.setenv("ODD", "k\u00e9y-pa55word")
    assert main([*command, *argv]) == 2
    out, err = capsys.readouterr()
    assert words in err
    assert "pa55word" not in out + err


def test_a_key_is_taken_as_a_file_that_was_read_leaves_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("THE_KEY", f"{KEY}\n")
    assert (key_in("THE_KEY"), key_in(None)) == (KEY, "")


def test_who_is_asked_and_trusted() -> None:
    assert root_of("http://h:1/v1/") == "http://h:1"
    assert trust(None) is True


def _lists(*answers: Answer) -> Serve:
    left = iter(answers)
    return lambda *_: next(left)


@pytest.mark.parametrize(
    ("listed", "words"),
    [
        (HTML, "lists no model (status 200): name one with --model"),
        (model_list(), "lists no model"),
        (json_answer({"error": "no"}, 401), "give --api-key-env"),
        (json_answer({"error": "no"}, 403), "(status 403)"),
    ],
)
def test_a_server_that_cannot_be_asked(listed: Answer, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    for command in ("conform", "record"):
        with serving(_lists(listed)) as url:
            assert main([command, url]) == 2
        assert words in capsys.readouterr().err
    assert not Path("recorded").exists()


def test_which_model_is_asked_for() -> None:
    with serving(_lists(model_list("embed-1", "b"), model_list("embed-1", "b"), HTML)) as url, Client(url) as client:
        assert model_of(client, None, keyed=False) == "b"
        assert model_of(client, "embed-1", keyed=False) == "embed-1"
        assert model_of(client, "any", keyed=False) == "any"  # a server may have no list
    with Client("http://127.0.0.1:1") as nobody, pytest.raises(NotAskedError, match="cannot be asked: ConnectError"):
        model_of(nobody, "any", keyed=False)


@pytest.mark.parametrize("command", ["conform", "record"])
def test_ctrl_c_ends_it_with_what_came_until_then(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    usual, chats = model_server(Simulated()), count(1)

    def serve(method: str, path: str, headers: dict[str, str], body: Any) -> Answer | None:
        if method == "POST" and next(chats) == 4:
            os.kill(os.getpid(), signal.SIGINT)
            return None
        return usual(method, path, headers, body)

    with serving(serve) as url:
        assert main([command, url]) == 130
    told = capsys.readouterr()
    if command == "conform":
        assert ": interrupted" in " ".join(told.out.split())
    else:
        assert told.out.splitlines()[0].startswith("recorded/plain: answer")
        assert Path("recorded/plain.case.json").exists()


def test_record_refuses_before_it_asks(capsys: pytest.CaptureFixture[str]) -> None:
    usual, asked = model_server(Simulated()), []

    def serve(method: str, path: str, headers: dict[str, str], body: Any) -> Answer | None:
        asked.append(path)
        return usual(method, path, headers, body)

    Path("recorded").mkdir()
    Path("recorded/stream.case.json").touch()
    with serving(serve) as url:
        assert main(["record", url, "--only", "stream"]) == 2
    assert "recorded/stream.case.json: is there already" in capsys.readouterr().err
    assert asked == ["/v1/models", "/v1/chat/completions"]  # a plain answer, for the stop word


def test_a_server_that_takes_every_question_and_answers_none(capsys: pytest.CaptureFixture[str]) -> None:
    usual = model_server(Simulated())
    with serving(lambda method, *rest: usual(method, *rest) if method == "GET" else None) as url:
        assert main(["conform", url, "--seconds", "1"]) == 2
    assert f"{url} answers no question: no answer in 1 s" in capsys.readouterr().err


@pytest.mark.parametrize(("said", "wide"), [("80", 80), ("10", 60), ("300", 120)])
def test_how_wide_a_report_is(said: str, wide: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", said)
    assert columns(120) == wide


def test_record_leaves_a_server_alone_that_answers_no_more(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    usual, ask = model_server(Simulated()), Client.ask
    chats = count()

    def gone(client: Client, request: Request) -> Exchange:
        if request.path == CHAT and next(chats) > 1:  # the stop word's, and the first that is recorded
            return Exchange(request, failure="no answer", late=True)
        return ask(client, request)

    monkeypatch.setattr(Client, "ask", gone)
    with serving(usual) as url:
        assert main(["record", url]) == 0
    told = capsys.readouterr()
    assert told.out == "recorded/plain: answer, status 200\n"
    assert told.err.count("no answer; not recorded") == 3
    assert "the server answers no more; the rest is not asked\n1 case in" in told.err


@pytest.mark.parametrize("command", ["probe", "conform", "record"])
def test_a_certificate_that_nobody_signed(
    command: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the words of the TLS library, as httpx hands them on."""

    def refuse(*_: object, **__: object) -> NoReturn:
        raise httpx.ConnectError("[SSL: CERTIFICATE_VERIFY_FAILED] self-signed certificate")

    monkeypatch.setattr(httpx.HTTPTransport, "handle_request", refuse)
    monkeypatch.setattr(httpx.AsyncHTTPTransport, "handle_async_request", refuse)
    assert main([command, "https://127.0.0.1:1"]) != 0
    assert "name the authority that signed it with --ca-file" in capsys.readouterr().err
