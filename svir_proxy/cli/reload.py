"""The configuration, read again while the proxy runs: when one of its files has changed, and when SIGHUP asks for it.

Files are looked at once a second, since that works everywhere: with editors that replace a file, with mounted volumes,
with Kubernetes, which swaps a link. A change counts once two looks see the same, so that nothing half-written is read.
What is read is checked as a whole, and where anything is wrong what runs goes on as it is.
"""

from __future__ import annotations

import logging
import os
import queue
import threading
from typing import TYPE_CHECKING, Any, Final

from svir_proxy.cli.configuration import caution
from svir_proxy.settings import SettingsError, configuration_files, find_config, load_settings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from pathlib import Path

    from svir_proxy.settings import Settings

FIXED: Final = {"server": ("host", "port", "workers"), "metrics": ("host", "port")}
"""Settings that stay as they are while it runs, by their section."""
INTERVAL: Final = 1.0
"""Seconds between two looks at the files."""

_LOGGER: Final = logging.getLogger("svir_proxy")
_KEPT: Final = "the configuration was not reloaded, the one before stays"

_Look = dict["Path", tuple[int, ...] | None]
"""What files look like: each one's time, size and place; None where there is none."""


class Source:
    """Where the settings come from. *find* looks for backends where none is configured."""

    def __init__(self, config: Path | None, flags: Mapping[str, Any], find: Callable[[Settings], Settings]) -> None:
        # A file that was found once does not count as absent later.
        self._config = find_config(config)
        self._flags = flags
        self._find = find
        self._read = _look_at(configuration_files(self._config))
        self._last: _Look | None = None

    def read(self, running: Settings | None = None) -> Settings:
        """Read everything anew; raises SettingsError.

        What cannot change stays as it is in *running*, the settings that are served now; the log tells.
        """
        known = _look_at(self._read)  # before they are read: what changes meanwhile has changed afterwards
        files = configuration_files(self._config)
        self._read = {path: known[path] for path in files & known.keys()} | _look_at(files - known.keys())
        settings = load_settings(self._config, self._flags)
        if running is not None:
            settings = self._as_it_can_be_served(settings, running)
        for backend in settings.backends:
            backend.loaded_profile  # noqa: B018 - now, from the files as they were checked
        return settings if settings.backends else self._find(settings)

    def has_changed(self) -> bool:
        """Whether the files differ from those that were read, and have not changed since the last look."""
        now = _look_at(self._read)
        last, self._last = self._last, now
        return now == last and now != self._read

    def _as_it_can_be_served(self, settings: Settings, running: Settings) -> Settings:
        changes = list(_unchangeable(settings, running))
        if not changes:
            return settings
        # Checked as a whole once more: an address that stays may need keys that a file without them does not.
        kept = {section: dict(self._flags.get(section, {})) for section in FIXED}
        for section, name, _, value in changes:
            kept[section][name] = value
        settings = load_settings(self._config, {**self._flags, **kept})
        for section, name, said, value in changes:
            _LOGGER.warning("%s.%s: %s needs a restart; until then it is %s", section, name, _word(said), _word(value))
        return settings


class Reloader:
    """Takes what *source* has in the place of *settings*, which are served now. *apply* serves others."""

    def __init__(self, source: Source, settings: Settings, apply: Callable[[Settings], None]) -> None:
        self._source = source
        self._settings = settings
        self._apply = apply

    def poll(self) -> None:
        """Reload if a file has changed. To be called again and again, about every `INTERVAL`."""
        if self._settings.server.reload and self._source.has_changed():
            self.reload()

    def reload(self) -> None:
        """Reload. The log has what came of it, one line for each problem; nothing is raised."""
        try:
            settings = self._source.read(self._settings)
            self._apply(settings)
        except SettingsError as exc:
            for line in exc.lines():
                _LOGGER.error("%s: %s", _KEPT, line)  # noqa: TRY400 - the line says where
        except Exception:
            _LOGGER.exception(_KEPT)
        else:
            self._settings = settings
            _LOGGER.info("the configuration was reloaded")
            caution(settings)


class Watch(threading.Thread):
    """Calls *reloader* from a thread of its own: reading takes longer than a stream's next event may wait."""

    def __init__(self, reloader: Reloader) -> None:
        super().__init__(name="reload", daemon=True)
        self._reloader = reloader
        self._asked: queue.SimpleQueue[bool] = queue.SimpleQueue()

    def ask(self) -> None:
        """Reload now. Safe in a signal handler."""
        self._asked.put(True)

    def stop(self) -> None:
        """Look no more."""
        self._asked.put(False)

    def run(self) -> None:
        """Until it is stopped."""
        while True:
            try:
                if not self._asked.get(timeout=INTERVAL):
                    return
                self._reloader.reload()
            except queue.Empty:
                self._reloader.poll()


class Terminal:
    """The terminal that the process was started in, if any. When it goes away the system sends SIGHUP, too."""

    def __init__(self) -> None:
        self._was_there = os.isatty(2)

    @property
    def is_gone(self) -> bool:
        """Whether there was one, and is none any more."""
        return self._was_there and not os.isatty(2)


def _unchangeable(settings: Settings, running: Settings) -> Iterator[tuple[str, str, Any, Any]]:
    """Section and name of each setting that cannot change, and did: as it is in *settings*, and as it stays."""
    for section, names in FIXED.items():
        said, kept = getattr(settings, section), getattr(running, section)
        if section == "metrics" and kept.port is not None:
            names = (*names, "enabled")  # noqa: PLW2901 - their listener is there or not
        for name in names:
            if getattr(said, name) != getattr(kept, name):
                yield section, name, getattr(said, name), getattr(kept, name)


def _word(value: Any) -> Any:
    return "not set" if value is None else value


def _look_at(paths: Iterable[Path]) -> _Look:
    return {path: _stamp(path) for path in paths}


def _stamp(path: Path) -> tuple[int, ...] | None:
    try:
        found = path.stat()
    except (OSError, ValueError):  # ValueError: a path that holds NUL
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino, found.st_dev
