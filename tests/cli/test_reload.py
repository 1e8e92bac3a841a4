"""When files count as changed, what is read anew, what stays, and what is said; threads, but no processes."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from svir_proxy.cli import main
from svir_proxy.cli.reload import INTERVAL, Reloader, Source, Terminal, Watch
from svir_proxy.settings import Settings

_A: Final = "backends: [{name: a, base_url: 'http://a'}]\n"
_B: Final = "backends: [{name: b, base_url: 'http://b'}]  # of another size: clocks of files are coarse\n"
_PATIENCE: Final = 30


def _nothing(settings: Settings) -> Settings:
    return settings


class Running:
    """A proxy that only notes what it is told to serve."""

    def __init__(self, text: str = _A, flags: dict[str, Any] | None = None) -> None:
        Path("c.yaml").write_text(text)
        self.source = Source(Path("c.yaml"), flags or {}, _nothing)
        self.settings = self.source.read()
        self.served: list[Settings] = []
        self.reloader = Reloader(self.source, self.settings, self.served.append)

    def polled(self, times: int = 3) -> list[list[str]]:
        """The names of the backends of each configuration that is served, after so many looks at the files."""
        for _ in range(times):
            self.reloader.poll()
        served, self.served[:] = [[backend.name for backend in settings.backends] for settings in self.served], []
        return served


# ----------------------------------------------------------------- when


def test_a_change_counts_when_two_looks_see_the_same() -> None:
    running = Running()
    assert running.polled() == []
    Path("c.yaml").write_text(_B)
    assert running.polled(1) == [], "it may be half-written"
    Path("c.yaml").write_text(_B * 2)
    assert running.polled(1) == [], "it still changes"
    Path("c.yaml").write_text(_B + "\n")
    assert running.polled(1) == []
    assert running.polled(1) == [["b"]]
    assert running.polled(5) == [], "once"


def _written(path: Path, text: str) -> None:
    path.write_text(text)


def _replaced(path: Path, text: str) -> None:
    other = path.with_suffix(".new")
    other.write_text(text)
    os.utime(other, ns=(path.stat().st_atime_ns, path.stat().st_mtime_ns))
    other.replace(path)


def _removed_and_made(path: Path, text: str) -> None:
    path.unlink()
    path.write_text(text)


@pytest.mark.parametrize("change", [_written, _replaced, _removed_and_made])
def test_however_it_is_changed(change: Callable[[Path, str], None]) -> None:
    running = Running()
    change(Path("c.yaml"), _B)
    assert running.polled() == [["b"]]


def test_as_kubernetes_changes_it() -> None:
    """A folder of links to a folder that is a link, which is swapped."""
    for name, text in (("one", _A), ("two", _B)):
        Path(name).mkdir()
        Path(name, "c.yaml").write_text(text)
    Path("data").symlink_to("one")
    running = Running()
    Path("c.yaml").unlink()
    Path("c.yaml").symlink_to("data/c.yaml")
    assert running.polled() == [["a"]]
    Path("data.new").symlink_to("two")
    Path("data.new").replace("data")
    assert running.polled() == [["b"]]


_NAMING: Final = """
auth: {keys_file: keys, keys: [{key_file: key}]}
backends:
  - {name: a, base_url: "http://a", profile: mine.yaml, api_key_file: api-key}
"""
_PROFILE: Final = "name: mine\nserver: Mine\nobserved: [{source: run}]\n"
_NAMED: Final = {"keys": "k1", "key": "k2", "api-key": "k3", "mine.yaml": f"{_PROFILE}extends: base.yaml\n"}


@pytest.mark.parametrize("name", [*_NAMED, "base.yaml"])
def test_the_files_that_are_named_count_as_well(name: str) -> None:
    named = {**_NAMED, "base.yaml": _PROFILE.replace("mine", "base")}
    for path, text in named.items():
        Path(path).write_text(text)
    running = Running(_NAMING)
    change = "request: {images: rejected}\n" if name.endswith(".yaml") else "0"
    Path(name).write_text(named[name].rstrip() + ("\n" if name.endswith(".yaml") else "") + change)
    running.reloader.poll()
    running.reloader.poll()
    [settings] = running.served
    [backend] = settings.backends
    assert backend.key is not None
    seen = {
        "keys": settings.auth.hashed()[1] != running.settings.auth.hashed()[1],
        "key": settings.auth.hashed()[0] != running.settings.auth.hashed()[0],
        "api-key": backend.key.get_secret_value() == "k30",
        "mine.yaml": backend.loaded_profile.request.images == "rejected" and name == "mine.yaml",
        "base.yaml": backend.loaded_profile.request.images == "rejected" and name == "base.yaml",
    }
    assert [changed for changed, is_so in seen.items() if is_so] == [name]


def test_a_file_that_was_missing_counts_when_it_comes(caplog: pytest.LogCaptureFixture) -> None:
    running = Running()
    Path("c.yaml").write_text("backends: [{name: a, base_url: 'http://a', api_key_file: key}]")
    assert running.polled() == []
    assert "backends[0].api_key_file: key cannot be read" in caplog.text
    Path("key").write_text("k")
    assert running.polled() == [["a"]]


def test_a_configuration_that_comes_later() -> None:
    """Without a file the one at the usual place counts as soon as it is there."""
    source = Source(None, {}, _nothing)
    served: list[Settings] = []
    reloader = Reloader(source, source.read(), served.append)
    Path("config").mkdir()
    Path("config/svir.yaml").write_text(_B)
    for _ in range(2):
        reloader.poll()
    assert [settings.backends[0].name for settings in served] == ["b"]


def test_one_that_goes_away_is_missed(caplog: pytest.LogCaptureFixture) -> None:
    Path("config").mkdir()
    Path("config/svir.yaml").write_text(_A)
    source = Source(None, {}, _nothing)
    served: list[Settings] = []
    reloader = Reloader(source, source.read(), served.append)
    Path("config/svir.yaml").unlink()
    for _ in range(2):
        reloader.poll()
    assert served == []
    assert "config/svir.yaml: cannot be read (No such file or directory)" in caplog.text


def test_changes_can_be_left_to_whoever_asks() -> None:
    running = Running(f"server: {{reload: false}}\n{_A}")
    Path("c.yaml").write_text(_B)
    assert running.polled() == []
    running.reloader.reload()
    assert running.polled(0) == [["b"]]
    Path("c.yaml").write_text(_A)
    assert running.polled() == [["a"]], "and it says now that they count"


def test_the_environment_is_read_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NAME", "one")
    running = Running("backends: [{name: '${NAME}', base_url: 'http://a'}]")
    monkeypatch.setenv("NAME", "two")
    running.reloader.reload()
    assert running.polled(0) == [["two"]]


# ----------------------------------------------------------------- what is said


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        (
            "server: {prot: 1}\nbackends: [{name: a, base_url: 'h:1'}]",
            [
                "server.prot: is unknown; did you mean port?",
                "backends[0].base_url: does not start with http:// or https://; write http://HOST:PORT",
            ],
        ),
        ("backends: [", ["c.yaml: line 1, column 12: expected the node content, but found '<stream end>'"]),
        ("backends: [{name: '${NOPE}'}]", ["needs the environment variable NOPE, which is not set; set it"]),
    ],
)
def test_a_bad_file_changes_nothing_and_says_why_as_check_does(
    text: str, lines: list[str], caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.INFO, "svir_proxy")
    running = Running()
    Path("c.yaml").write_text(text)
    assert running.polled(6) == []
    said = [record.getMessage() for record in caplog.records]
    assert all(line.startswith("the configuration was not reloaded, the one before stays: ") for line in said)
    assert {record.levelname for record in caplog.records} == {"ERROR"}
    for line in lines:
        assert sum(one.endswith(line) for one in said) == 1, "once, not at each look"
    assert main(["check", "--config", "c.yaml"]) == 2
    assert [line.partition("stays: ")[2] for line in said] == capsys.readouterr().err.splitlines()
    Path("c.yaml").write_text(_B)
    assert running.polled() == [["b"]]
    assert caplog.records[-1].getMessage() == "the configuration was reloaded"


@pytest.mark.parametrize(
    ("flags", "text", "lines"),
    [
        ({}, "server: {port: 9000, workers: 3}", ["server.port: 9000 needs a restart; until then it is 8484",
                                                  "server.workers: 3 needs a restart; until then it is 1"]),
        ({}, "server: {host: localhost}", ["server.host: localhost needs a restart; until then it is 127.0.0.1"]),
        ({"server": {"port": "7"}}, "server: {port: 9000}", []),
    ],
)  # fmt: skip
def test_what_needs_a_restart_is_said_and_stays(
    flags: dict[str, Any], text: str, lines: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    running = Running(flags=flags)
    Path("c.yaml").write_text(f"{text}\n{_B}")
    running.reloader.reload()
    [settings] = running.served
    assert settings.backends[0].name == "b"
    assert settings.server == running.settings.server
    assert [record.getMessage() for record in caplog.records if record.levelname == "WARNING"] == lines


def test_an_address_that_stays_needs_its_keys(caplog: pytest.LogCaptureFixture) -> None:
    """Bound to every address with a key, and then a file for loopback without one: it would be open to everybody."""
    running = Running(f"server: {{host: 0.0.0.0}}\nauth: {{keys: [k]}}\n{_A}")
    Path("c.yaml").write_text(_A)
    running.reloader.reload()
    assert running.served == []
    [record] = caplog.records
    assert "auth.keys: are missing, and other machines reach the bound address 0.0.0.0" in record.getMessage()


def test_what_cannot_be_served_is_said(caplog: pytest.LogCaptureFixture) -> None:
    running = Running()

    def refuse(_: Settings) -> None:
        raise RuntimeError("no")

    reloader = Reloader(running.source, running.settings, refuse)
    reloader.reload()
    [record] = caplog.records
    assert (record.levelname, record.exc_info is not None) == ("ERROR", True)
    assert record.getMessage() == "the configuration was not reloaded, the one before stays"


# ----------------------------------------------------------------- the thread


class Counting:
    """Stands for a reloader."""

    def __init__(self) -> None:
        self.polled, self.asked = threading.Event(), threading.Semaphore(0)

    def poll(self) -> None:
        self.polled.set()

    def reload(self) -> None:
        self.asked.release()


def test_the_thread_looks_and_does_what_it_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("svir_proxy.cli.reload.INTERVAL", INTERVAL / 1000)
    counting = Counting()
    watch = Watch(counting)  # type: ignore[arg-type]
    watch.ask()  # before it runs
    watch.start()
    assert counting.asked.acquire(timeout=_PATIENCE)
    assert counting.polled.wait(_PATIENCE)
    watch.ask()
    assert counting.asked.acquire(timeout=_PATIENCE)
    watch.stop()
    watch.join(_PATIENCE)
    assert not watch.is_alive()
    assert watch.daemon, "it does not keep the process"


def test_without_a_terminal_none_can_go_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "isatty", lambda _: False)
    assert not Terminal().is_gone
