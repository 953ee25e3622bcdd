"""From wrong numbers to the single decision of the compiler that makes them.

Decisions are numbered in the order in which they are asked (`dynamo.decisions`). With the first k taken and the rest refused numbers are
right for small k and wrong for large ones; the smallest k that is wrong is the culprit. It is verified: refused alone, numbers are right.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from dynamo import decisions
from dynamo.trace.events import CodeGenerated, Decided
from dynamo.trace.store import session

MOST = 8  # decisions that make wrong numbers each on its own
# Stages of decisions, and those whose texts show what they change, best first.
_SHOWN = {"inline": ("schedule", "kernels"), "fuse": ("kernels", "schedule"), "split": ("schedule", "kernels"), "reuse": ("kernels",)}
_EARLY = ("lower", "schedule", "kernels")


@dataclass(frozen=True)
class Attempt:
    """One compile with limited fuel: whether numbers were wrong, and what was decided."""

    is_wrong: bool
    asked: tuple[Decided, ...]
    texts: tuple[CodeGenerated, ...]


@dataclass(frozen=True)
class Culprit:
    """`names` are decisions, `switch` is the fuel that refuses exactly them. `verified`: off is right, on again is wrong."""

    stage: str
    names: tuple[str, ...]
    switch: str
    verified: bool
    difference: str = ""
    compiles: int = 0


@dataclass
class Search:
    """`is_wrong()` compiles anew and compares. Attempts are kept, so that none is made twice."""

    is_wrong: Callable[[], bool]
    made: dict[str, Attempt] = field(default_factory=dict)

    def attempt(self, fuel: str) -> Attempt:
        if fuel not in self.made:
            self.made[fuel] = self.again(fuel)
        return self.made[fuel]

    def again(self, fuel: str) -> Attempt:
        """`is_wrong` compiles the graph itself: what has been compiled would be found again whatever the fuel is."""
        with session() as store, decisions.limited(fuel):
            wrong = self.is_wrong()
        asked = tuple(e for e in store.of(Decided) if e.number)
        return Attempt(wrong, asked, tuple(store.of(CodeGenerated)))

    def run(self) -> Culprit | None:
        """The culprit, or None where numbers are wrong whatever is decided."""
        start = self.attempt("all")
        if not start.is_wrong or self.attempt("0").is_wrong:
            return None
        found: list[int] = []
        while len(found) < MOST and self.attempt(_fuel(None, found)).is_wrong:
            number = self.first_wrong(found)
            if number is None:
                break
            found.append(number)
        switch = _fuel(None, found)
        verified = bool(found) and not self.again(switch).is_wrong and self.again("all").is_wrong
        named = [e for n in found for e in start.asked if e.number == n]
        names = tuple(f"{e.stage} {e.number}: {e.what}" for e in named)
        if not named:
            return None
        off = self.made.get(switch)
        shown = difference(named[0].stage, off.texts if off else (), start.texts)
        return Culprit(named[0].stage, names, switch, verified, shown, len(self.made) + 2)

    def first_wrong(self, refused: Sequence[int]) -> int | None:
        """The decision with which numbers go wrong, of those that are not refused already."""
        right, wrong = 0, len(self.attempt(_fuel(None, refused)).asked)
        while wrong - right > 1:
            middle = (right + wrong) // 2
            if self.attempt(_fuel(middle, refused)).is_wrong:
                wrong = middle
            else:
                right = middle
        return wrong if wrong not in refused and self.attempt(_fuel(wrong, refused)).is_wrong else None


def _fuel(total: int | None, refused: Sequence[int]) -> str:
    parts = ([] if total is None else [str(total)]) + [f"#{n}" for n in sorted(refused)]
    return ",".join(parts) or "all"


def difference(stage: str, before: Sequence[CodeGenerated], after: Sequence[CodeGenerated], most: int = 60) -> str:
    """What a decision changes: the texts of the last stage that differ, as a unified diff."""
    for shown in _SHOWN.get(stage, _EARLY):
        one, two = ([t.code for t in texts if t.stage == shown and t.language != "python"] for texts in (before, after))
        lines = list(difflib.unified_diff("\n".join(one).splitlines(), "\n".join(two).splitlines(), "refused", "taken", lineterm="", n=2))
        if lines:
            left = len(lines) - most
            return "\n".join(lines[:most] + ([f"... {left} more lines"] if left > 0 else []))
    return ""
