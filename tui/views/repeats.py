"""Rows that come again: a network of equal layers is read once."""

from __future__ import annotations

from collections.abc import Sequence

_LONGEST = 400  # rows of one layer


def repeated(rows: Sequence[str], keys: Sequence[str]) -> list[str]:
    """Blocks of rows that follow each other with equal keys: the first of them, and a line that says how often it comes."""
    out: list[str] = []
    at = 0
    while at < len(rows):
        length, times = _block(keys, at)
        out += rows[at : at + length]
        if times > 1:
            out.append(f"    x {times}" if length == 1 else f"    x {times}: the {length} rows above come {times} times")
        at += length * times
    return out


def _block(keys: Sequence[str], at: int) -> tuple[int, int]:
    """Length and count of the repetition that begins here and saves most rows; (1, 1) where nothing repeats."""
    best = (1, 1)
    for length in range(1, min(_LONGEST, (len(keys) - at) // 2) + 1):
        if keys[at] != keys[at + length]:
            continue
        times = 1
        while keys[at : at + length] == keys[at + length * times : at + length * (times + 1)]:
            times += 1
        if times > 1 and length * (times - 1) > best[0] * (best[1] - 1):
            best = (length, times)
    return best
