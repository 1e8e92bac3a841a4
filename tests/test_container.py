"""The image and what runs it: the lock files hold what the package needs, and the promises of the Dockerfile hold."""

from __future__ import annotations

import os
import re
import tomllib
from importlib.metadata import requires
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from svir_proxy.settings import load_settings

ROOT: Final = Path(__file__).parents[1]
PROJECT: Final = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
DOCKERFILE: Final = (ROOT / "Dockerfile").read_text("utf-8").replace("\\\n", "")
COMPOSE: Final[dict[str, Any]] = yaml.safe_load((ROOT / "docker-compose.yml").read_text("utf-8"))

_PIN: Final = re.compile(
    r"^(?P<name>[a-z0-9-]+)==(?P<version>[^ ]+).*\\\n(?: +--hash=sha256:[0-9a-f]{64}.*\n)+", re.MULTILINE
)


def _instructions(stage: int) -> list[tuple[str, str]]:
    """Instruction and arguments of each line of the *stage*, from 0; -1 is the one that becomes the image."""
    stages = re.split(r"^(?=FROM )", DOCKERFILE, flags=re.MULTILINE)[1:]
    lines = (line.strip() for line in stages[stage].splitlines())
    return [(name, rest.strip()) for line in lines if line[:1].isupper() for name, _, rest in [line.partition(" ")]]


def _arguments(stage: int, name: str) -> list[str]:
    return [rest for instruction, rest in _instructions(stage) if instruction == name]


# ----------------------------------------------------------------- the lock files


_PYTHON: Final = re.findall(r"^FROM python:([0-9.]+)-", (ROOT / "Dockerfile").read_text("utf-8"), re.MULTILINE)[-1]
_IMAGE: Final = {"extra": "", "python_version": _PYTHON, "python_full_version": f"{_PYTHON}.0"}


def _needed(requirements: list[str]) -> dict[str, Requirement]:
    """*requirements* and all that they need on the image's Python, by canonical name; all of it is installed here."""
    found: dict[str, Requirement] = {}
    waiting = [Requirement(text) for text in requirements]
    while waiting:
        requirement = waiting.pop()
        name = canonicalize_name(requirement.name)
        if name not in found and (requirement.marker is None or requirement.marker.evaluate(_IMAGE)):
            found[name] = requirement
            waiting += map(Requirement, requires(name) or [])
    return found


@pytest.mark.parametrize(
    ("lock", "requirements"),
    [
        ("requirements.lock", PROJECT["project"]["dependencies"]),
        ("requirements-build.lock", PROJECT["build-system"]["requires"]),
    ],
)
def test_a_lock_pins_what_is_asked_for(lock: str, requirements: list[str]) -> None:
    pins = {pin["name"]: pin["version"] for pin in _PIN.finditer((ROOT / lock).read_text("utf-8"))}
    for text in requirements:
        requirement = Requirement(text)
        name = canonicalize_name(requirement.name)
        assert name in pins, f"{lock} does not hold {name}; renew it as CONTRIBUTING.md says"
        assert requirement.specifier.contains(pins[name]), f"{lock} has {name} {pins[name]}, but {text} is asked for"


def test_the_lock_holds_all_that_the_package_needs() -> None:
    pins = {pin["name"] for pin in _PIN.finditer((ROOT / "requirements.lock").read_text("utf-8"))}
    assert set(_needed(PROJECT["project"]["dependencies"])) - pins == set()


@pytest.mark.parametrize("extra", ["otel", "redis", "rules"])
def test_the_lock_holds_what_a_gateway_needs(extra: str) -> None:
    """Traces, a store for limits and rules need no image of one's own."""
    pins = {pin["name"] for pin in _PIN.finditer((ROOT / "requirements.lock").read_text("utf-8"))}
    assert set(_needed(PROJECT["project"]["optional-dependencies"][extra])) - pins == set()


@pytest.mark.parametrize("lock", ["requirements.lock", "requirements-build.lock"])
def test_a_lock_has_a_hash_for_each_pin_and_names_no_index(lock: str) -> None:
    text = (ROOT / lock).read_text("utf-8")
    assert len(_PIN.findall(text)) == len(re.findall(r"^[a-z0-9-]+==", text, re.MULTILINE)) > 0
    assert "://" not in text
    assert not re.search(r"^\s*-(i|f|-index-url|-extra-index-url|-find-links)\b", text, re.MULTILINE)


# ----------------------------------------------------------------- the image


def test_stages_begin_with_one_pinned_minor_version() -> None:
    bases = re.findall(r"^FROM (\S+)", DOCKERFILE, re.MULTILINE)
    assert len(bases) == 2
    assert len(set(bases)) == 1
    minor = re.fullmatch(r"python:(3\.\d+)-slim", bases[0])
    assert minor
    assert f"Programming Language :: Python :: {minor[1]}" in PROJECT["project"]["classifiers"]


def test_what_is_installed_is_checked_by_hash_or_built_here() -> None:
    installs = [part for run in _arguments(0, "RUN") for part in run.split("&&") if " install " in part]
    assert installs
    assert all("--require-hashes" in part or "--no-index" in part for part in installs)


def test_the_image_runs_nothing_and_nobody_is_root() -> None:
    assert not _arguments(-1, "RUN")
    (user,) = _arguments(-1, "USER")
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", user)


def test_the_image_says_where_it_listens_and_how_it_is() -> None:
    environment = dict(re.findall(r"(\w+)=(\S+)", " ".join(_arguments(-1, "ENV"))))
    assert _arguments(-1, "EXPOSE") == [environment["SVIR_SERVER__PORT"]]
    (check,) = _arguments(-1, "HEALTHCHECK")
    assert "/healthz" in check
    assert "os.environ['SVIR_SERVER__PORT']" in check
    (code,) = re.findall(r'"-c", "([^"]+)"', check)
    compile(code, "HEALTHCHECK", "exec")


def test_the_image_starts_with_a_key_and_not_without(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in re.findall(r"(SVIR_\w+)=(\S+)", " ".join(_arguments(-1, "ENV"))):
        monkeypatch.setenv(name, value)
    (config,) = (text.split()[0] for text in _arguments(-1, "COPY") if text.endswith(os.environ["SVIR_CONFIG"]))
    with pytest.raises(ValueError, match=r"auth\.keys"):
        load_settings(ROOT / config)
    monkeypatch.setenv("SVIR_AUTH__KEYS", '["sk-one"]')
    assert load_settings(ROOT / config).server.host == "0.0.0.0"


def test_the_builder_sees_all_that_is_copied_and_no_more() -> None:
    ignored = (ROOT / ".dockerignore").read_text("utf-8").splitlines()
    allowed = {line[1:] for line in ignored if line.startswith("!")}
    copied = {
        name
        for stage in (0, -1)
        for text in _arguments(stage, "COPY")
        if not text.startswith("--from")
        for name in text.split()[:-1]
    }
    assert "*" in ignored
    assert allowed == copied
    assert all((ROOT / name).exists() for name in copied)


# ----------------------------------------------------------------- compose


def test_the_proxy_is_locked_up() -> None:
    proxy = COMPOSE["services"]["svir-proxy"]
    assert proxy["read_only"] is True
    assert proxy["cap_drop"] == ["ALL"]
    assert "no-new-privileges:true" in proxy["security_opt"]
    assert "ports" not in proxy
    assert "privileged" not in proxy


def test_mounted_files_exist() -> None:
    mounts = [mount for service in COMPOSE["services"].values() for mount in service.get("volumes", [])]
    assert mounts
    for mount in mounts:
        source, _, mode = mount.split(":")
        assert (ROOT / source).is_file()
        assert mode == "ro"


def test_secrets_are_defined_and_never_committed() -> None:
    defined = COMPOSE["secrets"]
    used = {name for service in COMPOSE["services"].values() for name in service.get("secrets", [])}
    assert used == set(defined)
    folders = {f"{Path(secret['file']).parent.as_posix()}/" for secret in defined.values()}
    assert folders <= set((ROOT / ".gitignore").read_text("utf-8").splitlines())


def test_the_composed_configuration_is_right(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("SVIR_")]:
        monkeypatch.delenv(name)
    text = (ROOT / "deploy/svir.yaml").read_text("utf-8")
    for name in COMPOSE["services"]["svir-proxy"]["secrets"]:
        assert f"/run/secrets/{name}" in text
        (tmp_path / name).write_text("sk-one\n")
    config = tmp_path / "svir.yaml"
    config.write_text(text.replace("/run/secrets", str(tmp_path)))
    settings = load_settings(config)
    assert [name for name, _ in settings.auth.hashed()] == ["app"]
    (backend,) = settings.backends
    host = backend.base_url.split("://")[1].split(":")[0]
    assert f"{host}:host-gateway" in COMPOSE["services"]["svir-proxy"]["extra_hosts"]


def test_a_drain_ends_before_the_container_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SVIR_AUTH__KEYS", '["sk-one"]')
    drain = load_settings(ROOT / "config/svir.yaml").server.drain_seconds
    grace = int(COMPOSE["services"]["svir-proxy"]["stop_grace_period"].removesuffix("s"))
    assert grace > drain
