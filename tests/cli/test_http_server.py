"""The HTTP server in a process of its own: its line, its signals, its status."""

from __future__ import annotations

import contextlib
import http.client
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final
from unittest import mock

import pytest

from svir_proxy.cli import http_server
from svir_proxy.settings import Settings

_LISTENING: Final = re.compile(r"listening on http://(\[::1\]|127\.0\.0\.1|localhost):(\d+)\n")
PATIENCE: Final = 30
_ROOT: Final = Path(__file__).parents[2]


@contextlib.contextmanager
def started(
    app: str = "app", *, workers: int = 1, host: str = "127.0.0.1", port: int = 0, drain: int = 10
) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "tests.cli.apps", app, str(workers), host, str(port), str(drain)]
    with subprocess.Popen(command, cwd=_ROOT, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def announced(process: subprocess.Popen[str]) -> tuple[str, int]:
    assert process.stderr is not None
    line = process.stderr.readline()
    found = _LISTENING.fullmatch(line)
    assert found, line
    return found[1].strip("[]"), int(found[2])


@contextlib.contextmanager
def connected(address: tuple[str, int]) -> Iterator[http.client.HTTPConnection]:
    connection = http.client.HTTPConnection(*address, timeout=PATIENCE)
    try:
        yield connection
    finally:
        connection.close()


def get(address: tuple[str, int]) -> tuple[str, set[str]]:
    """The body and the names of the headers."""
    with connected(address) as connection:
        connection.request("GET", "/")
        response = connection.getresponse()
        assert response.status == 200
        return response.read().decode(), {name.lower() for name, _ in response.getheaders()}


def accepts(address: tuple[str, int]) -> bool:
    try:
        socket.create_connection(address, PATIENCE).close()
    except ConnectionError:
        return False
    return True


@pytest.mark.parametrize("stop", [signal.SIGTERM, signal.SIGINT])
def test_it_says_where_it_listens_and_ends_with_status_0(stop: signal.Signals) -> None:
    with started() as process:
        body, headers = get(announced(process))
        assert body == str(process.pid)
        assert not {"server", "date"} & headers
        process.send_signal(stop)
        _, rest = process.communicate(timeout=PATIENCE)
    assert (process.returncode, rest) == (0, "")


@pytest.mark.parametrize("impatient", [False, True], ids=["one signal", "two signals"])
def test_nothing_is_left_undone_however_it_ends(impatient: bool) -> None:
    with started("telling") as process:
        address = announced(process)
        with connected(address) as connection:
            if impatient:
                connection.request("GET", "/endless")
                assert connection.getresponse().readline() == b"begun\n"
            process.send_signal(signal.SIGINT)
            if impatient:
                while accepts(address):
                    pass
                process.send_signal(signal.SIGINT)
            _, rest = process.communicate(timeout=PATIENCE)
    assert rest.splitlines().count("settled") == 1


def test_a_running_answer_ends_before_the_process_does() -> None:
    with started() as process:
        address = announced(process)
        with connected(address) as connection:
            connection.putrequest("POST", "/stream")
            connection.putheader("content-length", "2")
            connection.endheaders(b"1")
            response = connection.response_class(connection.sock, method="POST")
            response.begin()
            assert response.readline() == b"begun\n"
            process.send_signal(signal.SIGTERM)
            while accepts(address):
                pass
            connection.send(b"2")
            assert response.read() == b"ended\n"
            response.close()
        assert process.wait(PATIENCE) == 0


def test_an_answer_that_does_not_end_is_cut_at_the_drain_limit() -> None:
    with started(drain=0) as process:
        with connected(announced(process)) as connection:
            connection.request("GET", "/endless")
            response = connection.getresponse()
            assert response.readline() == b"begun\n"
            process.send_signal(signal.SIGTERM)
            with pytest.raises(http.client.IncompleteRead):
                response.read()
        assert process.wait(PATIENCE) == 0


def test_ipv6_is_bracketed() -> None:
    with started(host="::1") as process:
        address = announced(process)
        assert address[0] == "::1"
        assert get(address)[0] == str(process.pid)


@pytest.mark.parametrize("workers", [1, 2])
def test_a_port_in_use_is_one_line(workers: int) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with started(port=port, workers=workers) as process:
            _, said = process.communicate(timeout=PATIENCE)
    assert said == (
        f"cannot listen on http://127.0.0.1:{port}: address already in use; choose another with --host or --port\n"
    )
    assert process.returncode == 1


def test_an_application_that_does_not_start_is_a_failure() -> None:
    with started("broken") as process:
        _, said = process.communicate(timeout=PATIENCE)
    assert "listening" not in said
    assert process.returncode == 1


def test_settings_that_were_told_to_be_refused_are_not_taken_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "_TAKING", 0.0)
    later: list[Any] = []
    application = mock.Mock()
    server = http_server.Server(application, Settings())
    server._loop = mock.Mock(call_soon_threadsafe=lambda *call: later.append(call))  # a loop that stands still
    with pytest.raises(TimeoutError):
        server.reload(Settings())
    for callback, *arguments in later:
        callback(*arguments)
    assert later
    application.reload.assert_not_called()
