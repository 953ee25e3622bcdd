"""Holding JSON to the schema that is published for it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "schemas"


def validate(name: str, value: Any) -> None:
    """Raises ValidationError where `value` is not what docs/schemas/NAME.json says."""
    schema = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(value, schema, cls=jsonschema.Draft202012Validator)
