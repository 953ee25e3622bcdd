"""Recompiles of a run that have one cause: the same fact of the same value in the same frame."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field, replace

from dynamo.trace.events import Change
from dynamo.trace.model import Run
from dynamo.trace.names import beginning
from minifier.recompiles.causes import CAUSES, Cause
from minifier.recompiles.edits import Sources

Place = tuple[str, int]


@dataclass
class Cluster:
    """One cause. `frame` is the function (`name`, `file`, `line` of its definition), `at` the value as a user writes it.

    `seconds` is what the compiles took; `alone` how many recompiles had no other cause besides, `besides` how many had which,
    and `others` are the facts that differed then.
    """

    name: str
    file: str
    line: int
    cause: Cause
    at: str
    changes: list[Change] = field(default_factory=list)
    callers: list[Place] = field(default_factory=list)
    seconds: float = 0.0
    alone: int = 0
    besides: Counter[str] = field(default_factory=Counter)
    others: list[Change] = field(default_factory=list)

    @property
    def count(self) -> int:
        return len(self.changes)

    @property
    def first(self) -> Change:
        return self.changes[0]

    @property
    def read_at(self) -> Place:
        """The user line that read the value; where no line did (a global mode), the call that met the change."""
        return (self.first.file, self.first.line) if self.first.file else self.callers[0]

    @property
    def values(self) -> list[str]:
        """What the value was, in order, each once."""
        return list(dict.fromkeys(text for c in self.changes for text in (_plain(c.expected), c.seen)))

    @property
    def name_of_root(self) -> str:
        """The argument, variable or global at which the place begins."""
        return self.at.partition(".")[0].partition("[")[0]


# How guards begin to say what they expect (dynamo/guards/kinds.py).
_WORDS = ("== ", "keys are ", "length ", "type is ", "type ", "is ")


def _plain(expected: str) -> str:
    """What was expected, as `seen` is written."""
    return next((expected.removeprefix(words) for words in _WORDS if expected.startswith(words)), expected)


def clusters(run: Run, sources: Sources) -> list[Cluster]:
    """All recompiles of the run by cause; those that cost most come first. A recompile belongs to the first fact that differed."""
    found: dict[tuple[str, str, int, str, str], Cluster] = {}
    for event in run.recompiles:
        if not event.changes:
            continue
        compile = run.compile_of(event.compile_id)
        of_module = event.frame.partition(" ")[0].endswith(".__call__")
        names = sources.parameters(compile.file, compile.line) if of_module else []
        changes = [replace(c, at=_named(c.at, names)) for c in event.changes]
        change = _leading(changes)
        cause = _cause(change)
        at = cause.place(change)
        key = (beginning(event.frame), compile.file, compile.line, cause.name, at)
        cluster = found.get(key)
        if cluster is None:
            cluster = found[key] = Cluster(beginning(event.frame), compile.file, compile.line, cause, at)
        cluster.changes.append(change)
        cluster.callers.append((event.caller, event.caller_line))
        cluster.seconds += compile.seconds
        facts = {_fact(x) for x in changes}
        others = sorted(facts - {_fact(change)}) if change.kind != "gone" else ()
        cluster.alone += not others
        cluster.besides.update(f"{name}: {place}" for name, place in others)
        cluster.others += [x for x in changes if _fact(x) in others]
    return sorted(found.values(), key=lambda c: (-c.count, -c.seconds))


def _named(at: str, parameters: list[str]) -> str:
    """`x.scale` of `args[0].scale`: a module's call has all that `forward` is given in two parameters."""
    found = re.match(r"args\[(\d+)\]|kwargs\['(\w+)'\]", at)
    if found is None or (found[1] and int(found[1]) >= len(parameters)):
        return at
    return (found[2] or parameters[int(found[1])]) + at[found.end() :] if parameters else at


def _cause(change: Change) -> Cause:
    return next(c for c in CAUSES if c.matches(change))


def _fact(change: Change) -> tuple[str, str]:
    cause = _cause(change)
    return cause.name, cause.place(change)


def _leading(changes: list[Change]) -> Change:
    """Global modes before values: a mode changes what is found in tensors, too."""
    return min(changes, key=lambda c: c.root != "mode")
