"""The wheel has the recorded cases, packed, and stays small; the archive is the same whoever makes it."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import hatch_build

ROOT = Path(__file__).parents[1]
SMALL = 1_000_000
"""Bytes of a wheel that nobody minds."""


def test_the_archive_depends_on_the_files_alone(tmp_path: Path) -> None:
    for number, name in enumerate(("one", "two")):
        (tmp_path / name / "deep").mkdir(parents=True)
        for path in ("b.body", "a.case.json", "deep/c.body"):
            (tmp_path / name / path).write_bytes(path.encode())
            os.utime(tmp_path / name / path, (number, number))
    first, second = (hatch_build.packed(tmp_path / name) for name in ("one", "two"))
    assert first == second
    with tarfile.open(fileobj=io.BytesIO(first)) as archive:
        assert archive.getnames() == ["a.case.json", "b.body", "deep/c.body"]


def test_the_wheel_has_the_corpus(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as opened:
        names = set(opened.namelist())
        assert opened.read(hatch_build.ARCHIVE) == hatch_build.packed(ROOT / hatch_build.CASES)
    assert {"svir_proxy/conform/canonical.schema.json", "svir_proxy/profiles/generic.yaml"} <= names
    assert wheel.stat().st_size < SMALL
