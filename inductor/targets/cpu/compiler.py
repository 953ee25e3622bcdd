"""Which C compiler builds kernels: asked by the build, `doctor` and `verify`."""

from __future__ import annotations

import os
import shutil

NAMES = ("gcc", "cc", "clang")


def compiler() -> str | None:
    """The path of the C compiler: `CC`, or the first of `NAMES` on the path. None: there is none."""
    chosen = os.environ.get("CC")
    return next((path for path in map(shutil.which, [chosen] if chosen else NAMES) if path), None)
