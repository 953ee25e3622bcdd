"""Every option is read by something, or its row says why it is only accepted."""

from __future__ import annotations

import ast
from pathlib import Path

from dynamo.config import OPTIONS

ROOT = Path(__file__).parents[1]
PACKAGES = ("dynamo", "inductor", "minifier", "tui")


def options_read() -> set[str]:
    """Attributes that product code reads of `config`."""
    return {
        found.attr
        for package in PACKAGES
        for path in (ROOT / package).rglob("*.py")
        for found in ast.walk(ast.parse(path.read_text()))
        if isinstance(found, ast.Attribute) and isinstance(found.ctx, ast.Load)
        if isinstance(found.value, ast.Name) and found.value.id == "config"
    }


def test_every_option_is_read_or_says_why_not() -> None:
    read = options_read()

    assert {o.name for o in OPTIONS if o.name not in read} == {o.name for o in OPTIONS if o.ignored}
