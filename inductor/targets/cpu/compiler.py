"""Which C compiler builds kernels: asked by the build, `doctor` and `verify`."""

from __future__ import annotations

import os
import shlex
import shutil

NAMES = ("gcc", "cc", "clang")


def compiler() -> tuple[str, ...] | None:
    """What calls the C compiler: `CC`, perhaps with arguments (`ccache gcc`), or the first of `NAMES` on the path. None: there is none."""
    chosen = os.environ.get("CC", "").strip()
    for words in [[chosen], split(chosen)] if chosen else [[name] for name in NAMES]:
        path = shutil.which(words[0])
        if path is not None:
            return (path, *words[1:])
    return None


def split(command: str) -> list[str]:
    """Its words, as a shell has them; the whole where a quotation has no end."""
    try:
        return shlex.split(command) or [command]
    except ValueError:
        return [command]
