"""The files of a graph's kernels as one text, which is what the cache keeps."""

from __future__ import annotations

from collections.abc import Sequence

MARK = "# ==== kernel ====\n"


def joined(files: Sequence[str]) -> str:
    return "".join(MARK + text for text in files)


def parted(source: str) -> list[str]:
    return source.split(MARK)[1:]
