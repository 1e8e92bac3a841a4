"""Every page: links lead somewhere, configurations load, code can be read; and what single pages promise."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import pytest
import yaml

from svir_proxy.settings import load_settings
from tests.docs.pages import EVERY, ROOT, Page, page


@pytest.mark.parametrize("name", EVERY)
def test_links_lead_somewhere(name: str) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", page(name).prose):
        path, _, anchor = target.partition("#")
        if "://" in target:
            continue
        linked = (ROOT / name).parent / path if path else ROOT / name
        assert linked.exists(), f"{name} links to {target}"
        if anchor:
            assert anchor in Page(target, linked.read_text("utf-8")).anchors, f"{name} links to {target}"


@pytest.mark.parametrize("name", [name for name in EVERY if name == "README.md" or name.startswith("docs/")])
def test_what_is_to_be_copied_can_be_read(name: str) -> None:
    shown = page(name)
    for text in shown.blocks("python"):
        compile(text, name, "exec")
    for text in shown.blocks("json"):
        json.loads(text)
    for text in shown.blocks("toml"):
        tomllib.loads(text)
    for text in shown.blocks("yaml"):
        yaml.safe_load(text)


def _configurations() -> list[tuple[str, str]]:
    """Each block of YAML that is a configuration of the proxy, with its page."""
    found = []
    for name in EVERY:
        for text in page(name).blocks("yaml"):
            document = yaml.safe_load(text)
            if isinstance(document, dict) and isinstance(document.get("backends"), list):
                found.append((name, text))
    return found


@pytest.mark.parametrize(("name", "text"), _configurations())
def test_configurations_load(name: str, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in re.findall(r"\$\{(\w+)\}", text):
        monkeypatch.setenv(variable, f"sk-{variable}")
    for profile in re.findall(r"profile: (\S+\.yaml)", text):
        (tmp_path / profile).write_text("{name: mine, extends: generic, server: Mine, observed: [{source: run}]}")
    (tmp_path / "key").write_text("sk-one")
    config = tmp_path / "svir.yaml"
    config.write_text(re.sub(r"/run/secrets/[\w-]+", str(tmp_path / "key"), text))
    assert load_settings(config).backends


def test_the_map_leads_to_each_page() -> None:
    """By itself, or to the page that is the index of its folder."""
    links = re.findall(r"\]\(([^)#\s]+)", page("docs/README.md").prose)
    listed = set(links)
    assert len(links) == len(listed), "a page that is listed twice"
    folders = tuple(name.removesuffix("README.md") for name in listed if re.fullmatch(r"\w+/README\.md", name))
    below = [name.removeprefix("docs/") for name in EVERY if name.startswith("docs/")]
    assert [name for name in below if name not in {"README.md", *listed} and not name.startswith(folders)] == []


def test_each_decision_is_in_the_index() -> None:
    folder = ROOT / "docs/decisions"
    index = (folder / "README.md").read_text("utf-8")
    for path in sorted(folder.glob("[0-9]*.md")):
        title = path.read_text("utf-8").splitlines()[0]
        assert title.startswith(f"# {path.name[:4]} ")
        assert f"| [{path.name[:4]}]({path.name}) |" in index


def test_the_tree_is_as_the_architecture_shows_it() -> None:
    text = page("docs/architecture.md").text
    package = ROOT / "svir_proxy"
    rows = re.findall(r"^\| ((?:`[\w/]+`(?:, )?)+) \| (.+) \|$", text, re.MULTILINE)
    assert rows
    for where, holds in rows:
        places = [package / name for name in re.findall(r"`([\w/]+)`", where)]
        assert all(place.is_dir() or place.with_suffix(".py").is_file() for place in places), where
        for name in re.findall(r"`([a-z_/]+)`", holds):
            place = places[0] / name
            assert place.is_dir() or place.with_suffix(".py").is_file(), f"{where} holds no {name}"
