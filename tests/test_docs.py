"""The generated blocks of the documents are what the code says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def test_generated_documents_are_current() -> None:
    done = subprocess.run([sys.executable, str(ROOT / "docs" / "generate.py"), "--check"], capture_output=True, text=True, check=False)

    assert (done.returncode, done.stderr) == (0, "")


def test_every_command_and_option_is_documented() -> None:
    from tui.main import COMMANDS

    text = (ROOT / "docs" / "cli.md").read_text()

    assert [c.name for c in COMMANDS if f"dynamo-debug {c.name}" not in text] == []
