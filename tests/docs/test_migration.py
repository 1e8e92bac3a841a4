"""What the page on migration says of this side is so; that its configurations load is tested with those of all pages."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from svir_proxy.client_request import ClientRequest
from svir_proxy.profiles import load_profile
from svir_proxy.request.pipeline import rewrite_request
from svir_proxy.settings import Settings, load_settings
from tests.docs.pages import page

PAGE: Final = page("docs/migration.md")
OURS: Final = [text for text in PAGE.blocks("yaml") if "backends:" in text]
THEIRS: Final = [yaml.safe_load(text) for text in PAGE.blocks("yaml") if "backends:" not in text]


def _load(text: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    for name in re.findall(r"\$\{(\w+)\}", text):
        monkeypatch.setenv(name, "sk-test")
    (folder / "svir.yaml").write_text(text)
    return load_settings(folder / "svir.yaml")


def test_each_name_of_theirs_is_a_name_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    litellm, swap = THEIRS
    first, second, third = (_load(text, tmp_path, monkeypatch) for text in OURS)

    def names(settings: Settings) -> set[str]:
        return {alias for backend in settings.backends for alias in backend.models}

    assert {entry["model_name"] for entry in litellm["model_list"]} == names(first)
    assert set(swap["models"]) == {model for backend in second.backends for model in backend.models.values()}
    assert set(swap["models"]) <= names(third)
    (local, cloud) = first.backends
    assert local.priority < cloud.priority


def _overrides(setting: str) -> dict[str, Any]:
    (text,) = re.findall(rf"`overrides: (\{{.*{setting}.*?\}})`", PAGE.text)
    found: dict[str, Any] = yaml.safe_load(text)
    return found


@pytest.mark.parametrize(
    ("setting", "sent", "goes"),
    [
        ("optional_fields", {"temperature": 0.1}, {}),
        ("always_send", {}, {"top_k": 20}),
        ("always_send", {"top_k": 5}, {"top_k": 5}),
    ],
)
def test_filters_do_what_the_table_says(setting: str, sent: dict[str, Any], goes: dict[str, Any]) -> None:
    profile = load_profile("llama-cpp", _overrides(setting))
    body = {"model": "m", "messages": [{"role": "user", "content": "Hello"}], **sent}
    request = ClientRequest.from_body(body, id="migration", received=1)
    upstream = rewrite_request(request, profile, "m").body
    assert {key: upstream[key] for key in ("temperature", "top_k") if key in upstream} == goes


def test_each_setting_in_the_tables_is_one() -> None:
    text = " ".join(row[1] for header in ("| LiteLLM |", "| llama-swap |") for row in PAGE.rows(header))
    example = page("config/svir.example.yaml").text
    for name in re.findall(r"`(?:\w+\.)?(\w+)`", text):
        assert re.search(rf"\b{name}\b", example), f"no setting {name}"
