"""A backend: its profile with its overrides, its key, its headers."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml
from pydantic import ValidationError

from svir_proxy.addresses import may_be_public
from svir_proxy.profiles import builtin_names, load_profile
from svir_proxy.settings.backend import Backend, repeated_names, unchanged
from svir_proxy.settings.problems import problems_of
from tests.server.transport.raw_server import Certificate


def _backend(**given: Any) -> Backend:
    return Backend.model_validate({"name": "a", "base_url": "http://h:1/v1/"} | given)


def test_defaults() -> None:
    backend = _backend()
    assert backend.root == backend.base_url == "http://h:1"
    assert (backend.profile, backend.loaded_profile.name, backend.key) == ("generic", "generic", None)
    assert (backend.priority, backend.weight) == (0, 1)
    assert _backend(models={"gpt-*": "x", "o/*": "*", "*": "y-*"}, priority=-1, weight=0).priority == -1
    assert (backend.timeouts.connect, backend.timeouts.first_output, backend.timeouts.idle) == (10, 600, 300)


def test_overrides_reach_the_profile_and_only_here() -> None:
    changed = _backend(profile="openai", overrides={"request": {"images": "rejected"}}).loaded_profile
    assert changed.request.images == "rejected"
    assert changed.request.max_tokens_field == "max_completion_tokens"
    assert _backend(profile="openai").loaded_profile.request.images == "kept"


LOCAL, CLOUD = "http://127.0.0.1:8000", "https://api.example.com"


SETTINGS = (None, "inline", "reject", "pass")


@pytest.mark.parametrize(
    ("profile", "base_url", "facts"),
    [
        # what the profile becomes to say of images by URL, by the setting of the backend
        ("openai", CLOUD, ("kept", "kept", "rejected", "kept")),
        ("groq", CLOUD, ("unknown", "unknown", "rejected", "kept")),
        ("deepseek", CLOUD, ("rejected", "rejected", "rejected", "kept")),
        # no provider's service, whatever the profile says
        ("openai", LOCAL, ("withheld", "withheld", "rejected", "kept")),
        ("openai", "http://10.0.0.5/v1", ("withheld", "withheld", "rejected", "kept")),
        ("azure", "https://gateway.corp.internal", ("withheld", "withheld", "rejected", "kept")),
        # a server that anybody can run, wherever it is
        ("vllm", LOCAL, ("withheld", "withheld", "rejected", "kept")),
        ("vllm", CLOUD, ("withheld", "withheld", "rejected", "kept")),
        ("mlx-vlm", LOCAL, ("withheld", "withheld", "rejected", "kept")),
        ("generic", "https://8.8.8.8", ("withheld", "withheld", "rejected", "kept")),
        ("ai-server", "http://ai-server", ("withheld", "withheld", "rejected", "kept")),
        ("lm-studio", LOCAL, ("rejected", "rejected", "rejected", "kept")),
    ],
)
def test_who_gets_urls_to_fetch(profile: str, base_url: str, facts: tuple[str, ...]) -> None:
    backends = [_backend(profile=profile, base_url=base_url, remote_images=setting) for setting in SETTINGS]
    assert tuple(backend.loaded_profile.request.remote_images for backend in backends) == facts


@pytest.mark.parametrize("fact", ["kept", "unknown"])
def test_what_a_server_can_do_is_no_leave_to_do_it(fact: str) -> None:
    overrides = {"request": {"remote_images": fact}}
    assert _backend(overrides=overrides).loaded_profile.request.remote_images == "withheld"
    assert _backend(overrides=overrides, remote_images="pass").loaded_profile.request.remote_images == fact
    assert (
        _backend(
            overrides=overrides | {"endpoint": {"cloud": True}}, base_url=CLOUD
        ).loaded_profile.request.remote_images
        == fact
    )


@pytest.mark.parametrize("name", builtin_names())
def test_every_profile_of_a_service_says_so(name: str) -> None:
    """The ready configurations name a public host exactly for those."""
    ready = Path(__file__).parents[2] / "config" / "backends" / f"{name}.yaml"
    [backend] = yaml.safe_load(re.sub(r"\$\{\w+\}", "sk-x", ready.read_text("utf-8")))["backends"]
    host = urlsplit(backend["base_url"]).hostname or ""
    assert load_profile(name).endpoint.cloud == may_be_public(host)


def test_a_profile_is_loaded_once() -> None:
    backend = _backend()
    assert backend.loaded_profile is backend.loaded_profile


def test_the_key_wherever_it_was_written(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("sk-file\n")
    direct, in_file = _backend(api_key="sk-direct"), _backend(api_key_file=str(tmp_path / "key"))
    assert direct.key is not None
    assert in_file.key is not None
    assert (direct.key.get_secret_value(), in_file.key.get_secret_value()) == ("sk-direct", "sk-file")
    assert _backend(api_key="").key is None
    headers = _backend(headers={"X-Key": "sk-header"})
    assert headers.headers["X-Key"].get_secret_value() == "sk-header"
    assert "sk-" not in f"{direct!r}{in_file!r}{headers!r}"


@pytest.mark.parametrize(
    ("change", "same"),
    [
        ({}, {"a", "b"}),
        ({"api_key": "sk-other"}, {"b"}),
        ({"timeouts": {"idle": 1}}, {"b"}),
        ({"name": "new"}, {"b"}),
        ({"profile": "mine.yaml"}, {"b"}),
    ],
)
def test_backends_that_have_not_changed(tmp_path: Path, change: dict[str, Any], same: set[str]) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(_PROFILE)
    before = [_backend(profile=str(path)), _backend(name="b")]
    assert [backend.loaded_profile.name for backend in before] == ["mine", "generic"]
    if "profile" in change:
        path.write_text(f"{_PROFILE}request: {{images: rejected}}\n")
        change = {}
    assert unchanged(before, [_backend(**{"profile": str(path)} | change), _backend(name="b")]) == same


_PROFILE = "name: mine\nserver: Mine\nobserved: [{source: run}]\n"


@pytest.mark.parametrize(
    ("given", "lines"),
    [
        ({"name": "a b"}, ["name: must be of letters, digits, dots, dashes and underscores"]),
        ({"base_ur": "x"}, ["base_ur: is unknown; did you mean base_url?"]),
        ({"strict": "sometimes"}, ["strict: must be true or false"]),
        ({"timeouts": {"idle": 0}}, ["timeouts.idle: must be greater than 0"]),
        ({"timeouts": {"idle": float("inf")}}, ["timeouts.idle: must be a finite number"]),
        ({"models": {"fast": ""}}, ["models.fast: must not be empty"]),
        ({"models": {"a*b*": "x"}}, ["models.a*b*: has more than one * in the name; write one name for each"]),
        (
            {"models": {"a": "x*", "a*": "x**"}},
            [
                "models.a: has a * in the id for which the name has no text; name one model",
                "models.a*: has a * in the id for which the name has no text; name one model",
            ],
        ),
        ({"weight": -1}, ["weight: must be greater than or equal to 0"]),
        ({"weight": float("nan")}, ["weight: must be a finite number"]),
        ({"priority": 1.5}, ["priority: must be a whole number"]),
        ({"remote_images": "fetch"}, ["remote_images: must be 'reject', 'inline' or 'pass'"]),
        ({"api_key": "k", "api_key_file": "key"}, ["api_key_file: stands beside api_key; keep one"]),
        (
            {"ca_file": "ca.pem", "verify_tls": False},
            ["ca_file: has no effect with verify_tls: false; leave one out"],
        ),
        (
            {"headers": {"a b": "", "Host": "x", "X": "hidden\r\nY: z"}},
            [
                "headers.a b: is no name of a header",
                "headers.Host: is set by the proxy; leave it out",
                "headers.X: holds a line break or a character that no header can carry; leave it out",
            ],
        ),
        ({"overrides": {"request": {"imags": "kept"}}}, ["overrides.request.imags: is unknown; did you mean images?"]),
        (
            {"overrides": {"request": {"images": "yes"}}},
            ["overrides.request.images: must be 'kept', 'ignored', 'rejected' or 'unknown'"],
        ),
        (
            {"overrides": {"errors": [{"when": {}, "then": "teapot"}]}, "timeouts": {"idle": "x"}},
            ["overrides.errors[0].then: names no error; known are ...", "timeouts.idle: must be a number"],
        ),
        (
            {"overrides": {"models": {"hidden": ["("]}}},
            ["overrides.models.hidden[0]: is no regular expression: missing ), unterminated subpattern at position 0"],
        ),
        (
            {"overrides": {"extends": "openai"}},
            ["overrides.extends: has no effect here; name the profile under profile"],
        ),
        ({"profile": "no.yaml"}, ["profile: no.yaml cannot be read: No such file or directory"]),
        ({"profile": "bad.yaml"}, ["profile: bad.yaml: request.imags: is unknown; did you mean images?"]),
        ({"profile": "half.yaml"}, ["profile: half.yaml: server: is missing; set it"]),
        ({"profile": 3}, ["profile: must be text; put it in quotes"]),
    ],
)
def test_problems(tmp_path: Path, given: dict[str, Any], lines: list[str]) -> None:
    (tmp_path / "key").write_text("k")
    if "ca_file" in given:
        Certificate(tmp_path).pem.rename(tmp_path / "ca.pem")
    (tmp_path / "bad.yaml").write_text(f"{_PROFILE}request: {{imags: kept}}\n")
    (tmp_path / "half.yaml").write_text("name: mine\nobserved: [{source: run}]\n")
    with pytest.raises(ValidationError) as refused:
        _backend(**given)
    told = [f"{path}: {text}" for path, text in problems_of(refused.value, Backend)]
    assert [line.partition("known are")[0] for line in told] == [line.partition("known are")[0] for line in lines]
    assert "hidden" not in "".join(told).replace("models.hidden", "")


@pytest.mark.parametrize(
    ("profile", "told"), [("opnai", "did you mean openai?"), ("zzz", "known are "), ("", "known are")]
)
def test_a_misspelt_profile(profile: str, told: str) -> None:
    with pytest.raises(ValidationError) as refused:
        _backend(profile=profile)
    [(path, text)] = problems_of(refused.value, Backend)
    assert path == "profile"
    assert told in text
    assert text.endswith("(or the path of a .yaml file)")


def test_a_mistake_in_the_profile_is_not_blamed_on_the_overrides(tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text(f"{_PROFILE}request: {{images: yes, audio: no}}\n")
    with pytest.raises(ValidationError) as refused:
        _backend(profile="bad.yaml", overrides={"request": {"images": "maybe"}})
    assert [path for path, _ in problems_of(refused.value, Backend)] == ["overrides.request.images", "profile"]


def test_repeated_names() -> None:
    assert repeated_names([{"name": "a"}, {"name": "b"}, {"name": "a"}, {}, 3, _backend(name="b")]) == [
        ("[2].name", "is the name of backends[0] too; give it another"),
        ("[5].name", "is the name of backends[1] too; give it another"),
    ]
