"""The JSON schema of the configuration file, for editors: ``python -m svir_proxy.settings.json_schema``.

Prints the schema; ``config/svir.schema.json`` is what it printed.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from svir_proxy.profiles import Profile
from svir_proxy.settings.model import Settings


def json_schema() -> dict[str, Any]:
    """The schema of `Settings`. ``overrides`` is a profile in which nothing is required."""
    schema = Settings.model_json_schema()
    profile = Profile.model_json_schema()
    definitions = schema["$defs"] | profile.pop("$defs")
    del profile["required"]
    definitions["Overrides"] = profile | {"title": "Overrides"}
    overrides = definitions["Backend"]["properties"]["overrides"]
    definitions["Backend"]["properties"]["overrides"] = {
        "$ref": "#/$defs/Overrides",
        "description": overrides["description"],
    }
    # A key may be a text alone.
    definitions["AuthKey"] = {"anyOf": [{"type": "string"}, definitions["AuthKey"]]}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **schema,
        "title": "svir-proxy configuration",
        "$defs": dict(sorted(definitions.items())),
    }


def main() -> None:
    """Print the schema."""
    sys.stdout.write(json.dumps(json_schema(), indent=2, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
