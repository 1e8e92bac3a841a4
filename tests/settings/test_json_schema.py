"""The schema for editors is what the models say, and says what the models do."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import jsonschema
import pytest
import yaml

from svir_proxy.settings.json_schema import json_schema, main

CONFIG: Final = Path(__file__).parents[2] / "config"


def test_the_file_is_current(capsys: pytest.CaptureFixture[str]) -> None:
    main()
    assert capsys.readouterr().out == (CONFIG / "svir.schema.json").read_text("utf-8"), (
        "write it again: python -m svir_proxy.settings.json_schema > config/svir.schema.json"
    )


@pytest.fixture(scope="module")
def validator() -> Any:
    """Of the schema, once it is known to be one: that takes longer than all the documents."""
    schema = json_schema()
    kind = jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)
    kind.check_schema(schema)
    return kind(schema)


@pytest.mark.parametrize("path", sorted(CONFIG.rglob("*.yaml")), ids=lambda path: path.name)
def test_it_takes_the_files_that_ship(validator: Any, path: Path) -> None:
    validator.validate(yaml.safe_load(path.read_text("utf-8")) or {})


_BACKEND: Final = {"name": "a", "base_url": "http://h"}


@pytest.mark.parametrize(
    ("document", "valid"),
    [
        ({}, True),
        ({"auth": {"keys": ["a", {"name": "x", "key": "y"}]}}, True),
        ({"limits": {"max_event_bytes": "32MiB"}}, True),
        ({"backends": [_BACKEND | {"overrides": {"request": {"images": "kept"}}}]}, True),
        ({"backends": [_BACKEND | {"overrides": {"request": {"imags": "kept"}}}]}, False),
        ({"backends": [_BACKEND | {"api_key_file": "x"}]}, True),
        ({"backends": [{"name": "a"}]}, False),
        ({"backends": [_BACKEND | {"name": "a b"}]}, False),
        ({"sever": {}}, False),
        ({"server": {"port": 70000}}, False),
        ({"auth": {"keys": [1]}}, False),
    ],
)
def test_it_takes_what_the_models_take(validator: Any, document: dict[str, Any], valid: bool) -> None:
    assert validator.is_valid(document) is valid


def test_every_setting_is_described() -> None:
    sections = json_schema()["$defs"]
    mine = [
        "ServerSettings",
        "AuthSettings",
        "AuthKey",
        "StreamingSettings",
        "LoggingSettings",
        "RoutingSettings",
        "LimitSettings",
        "Backend",
        "Timeouts",
    ]
    for name in mine:
        section = next((part for part in sections[name].get("anyOf", []) if "properties" in part), sections[name])
        undescribed = {key for key, value in section["properties"].items() if "description" not in value}
        assert undescribed == set(), name
