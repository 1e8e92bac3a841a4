"""Puts the recorded cases into the wheel, as one archive: what ``svir-proxy conform --corpus`` replays."""

from __future__ import annotations

import gzip
import io
import tarfile
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

CASES = "tests/cases"
ARCHIVE = "svir_proxy/conform/corpus.tar.gz"


class CorpusHook(BuildHookInterface):  # type: ignore[type-arg] # hatchling's own configuration, which this does not read
    """Adds the archive to a wheel; an editable installation reads the folder itself."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Called before the wheel is put together."""
        folder = Path(self.root) / CASES
        if version == "editable":
            return
        if not folder.is_dir():
            self.app.display_warning(f"no {CASES}: the wheel will have no recorded cases")
            return
        self._temporary = tempfile.TemporaryDirectory()
        archive = Path(self._temporary.name) / "corpus.tar.gz"
        archive.write_bytes(packed(folder))
        build_data["force_include"][str(archive)] = ARCHIVE

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:  # noqa: ARG002 - the interface
        """Called when it is there."""
        if hasattr(self, "_temporary"):
            self._temporary.cleanup()


def packed(folder: Path) -> bytes:
    """The files of *folder* as a ``.tar.gz``: the same bytes for the same files, whatever their times and owners."""
    data = io.BytesIO()
    with (
        gzip.GzipFile(fileobj=data, mode="wb", compresslevel=9, mtime=0) as squeezed,
        tarfile.open(fileobj=squeezed, mode="w", format=tarfile.USTAR_FORMAT) as archive,
    ):
        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            member = tarfile.TarInfo(path.relative_to(folder).as_posix())
            member.size = path.stat().st_size
            archive.addfile(member, io.BytesIO(path.read_bytes()))
    return data.getvalue()
