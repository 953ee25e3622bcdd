"""The first screen of `explain` on a script of a user: what of it is the same on every machine, how large it is and what it says."""

from __future__ import annotations

import re
from pathlib import Path

from tests.scripts.script import Script
from tui.views.page import HEIGHT, WIDTH

GOLDEN = Path(__file__).parent / "golden"
# What differs between runs of one script, and between versions of torch: times, which stage was the slowest, process ids; lines of torch's
# own files, what its shape errors begin with.
_VARYING = (
    (re.compile(r"^  [\d.]+ s compiling, slowest stage .*", re.MULTILINE), "  T compiling, slowest stage S"),
    (re.compile(r" +\d+\.\d\d s\b"), "  T"),
    (re.compile(r"\bpid \d+"), "pid P"),
    (re.compile(r"<eval_with_key>\.\d+"), "<eval_with_key>.N"),
    (re.compile(r"\b0x[0-9a-f]{6,}"), "0xA"),
    (re.compile(r"\b((?:container|module)\.py):\d+"), r"\1:L"),
    (re.compile(r"\bmm: (?=mat1 and mat2 )"), ""),
)


def golden_file(script: Script) -> Path:
    return GOLDEN / f"{script.key}.txt"


def normalised(text: str) -> str:
    for pattern, plain in _VARYING:
        text = pattern.sub(plain, text)
    return text


def unfit(text: str) -> list[str]:
    """Why the text is not the first screen it should be."""
    lines = text.splitlines()
    found = [f"{len(lines)} lines, {HEIGHT} fit"] if len(lines) > HEIGHT else []
    found += [f"{len(line)} columns, {WIDTH} fit: {line!r}" for line in lines if len(line) > WIDTH]
    return found


def unsaid(script: Script, text: str) -> list[str]:
    """What the script's author wants to know and the screen does not say, line ends aside."""
    flat = " ".join(text.split())
    return [f"does not say {words!r}" for words in script.says if " ".join(words.split()) not in flat]
