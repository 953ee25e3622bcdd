"""Where output goes: data to stdout, narration to stderr."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

PROGRAM = "dynamo-debug"


def say(line: str) -> None:
    """One line of narration."""
    print(f"{PROGRAM}: {line}", file=sys.stderr, flush=True)


def put(text: str) -> None:
    """Data. A reader that stopped listening (`| head`) is no error."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def put_json(value: Any) -> None:
    put(json.dumps(value, indent=2) + "\n")
