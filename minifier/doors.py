"""The doors of the environment, shut: tools run programs of which nothing more should be written down."""

from __future__ import annotations

import os

from dynamo import config


def is_door(name: str) -> bool:
    """Whether an environment variable opens one."""
    return name.removeprefix("TORCHDYNAMO_").startswith("REPRO_")


def close() -> None:
    """Have this process and those it starts write nothing, whatever the environment says."""
    for name in [n for n in os.environ if is_door(n)]:
        del os.environ[name]
    config.repro_after = ""
