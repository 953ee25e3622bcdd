"""What compiled code relies on: its guards, by the user line that read the value."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from dynamo.trace.model import Compile, Place, Run, plural, short
from tui.views import names
from tui.views.page import Page

_SHOWN = 8  # guards of one line
_LAYER = re.compile(r"\.\d+(?=\.)")


@dataclass(frozen=True)
class Guard:
    """`value` as the program writes it, `source` as the record has it; `count` equal ones."""

    value: str
    check: str
    source: str
    count: int


@dataclass(frozen=True)
class GuardLine:
    """Guards of values that one line of the program read. `text` is the line; file '' for what no line read."""

    file: str
    line: int
    text: str
    guards: tuple[Guard, ...]


@dataclass(frozen=True)
class GuardSet:
    """Guards of one compile. `failed` is the guard of an older compile that led to this one."""

    compile_id: str
    function: str
    count: int
    failed: str
    lines: tuple[GuardLine, ...]


@dataclass(frozen=True)
class Guards:
    """Guards of every compile, or of those that were asked for."""

    count: int
    compiles: tuple[GuardSet, ...]


def view(run: Run, graph: str = "") -> Guards:
    wanted = graph.split(".")[0]
    found = tuple(_set(run, c) for c in run.compiles.values() if wanted in ("", c.id) and (c.guards or c.recompile))
    return Guards(sum(s.count for s in found), found)


def _set(run: Run, item: Compile) -> GuardSet:
    by_place: dict[Place, Counter[tuple[str, str]]] = {}
    for g in item.guards:
        by_place.setdefault((g.file, g.line), Counter())[g.source, g.check] += 1
    ordered = sorted(by_place.items(), key=lambda pair: not pair[0][0])
    found = tuple(
        GuardLine(*place, run.source_line(place).strip(), tuple(_guard(item, *key, count) for key, count in counts.items()))
        for place, counts in ordered
    )
    failed = names.value(item.recompile.reason, item) if item.recompile is not None else ""
    return GuardSet(item.id, names.function_of(run, item).title, len(item.guards), failed, found)


def _guard(item: Compile, source: str, check: str, count: int) -> Guard:
    return Guard(names.value(source, item), names.value(check, item), source, count)


def lines(found: Guards, page: Page) -> list[str]:
    """By compile and line; of a function compiled again only what differs from its first compile. Guards that differ only in the number of
    the layer are one row."""
    out = [page.paint(plural(found.count, "guard"), "bold")]
    firsts: dict[str, GuardSet] = {}
    for s in found.compiles:
        first = firsts.setdefault(s.function, s)
        out += ["", page.paint(page.clip(f"compile {s.compile_id}  {s.function}  {plural(s.count, 'guard')}"), "bold")]
        out += page.wrap(f"compiled again because {s.failed}", "  ", most=2) if s.failed else []
        known = {(g.source, g.check) for line in first.lines for g in line.guards} if s is not first and not page.full else set()
        if known:
            out.append(f"  as compile {first.compile_id}, except:")
        for line in s.lines:
            rows = _rows([g for g in line.guards if (g.source, g.check) not in known])
            if not rows:
                continue
            at = f"{short(line.file)}:{line.line}  {line.text}" if line.file else "whole function"
            out.append(page.clip(f"  {at}"))
            out += [page.clip(f"    {row}") for row in (rows if page.full else rows[:_SHOWN])]
            if len(rows) > _SHOWN and not page.full:
                out.append(f"    ... {len(rows) - _SHOWN} more: --full")
    return out


def _rows(guards: Iterable[Guard]) -> list[str]:
    counts: Counter[str] = Counter()
    for g in guards:
        counts[_LAYER.sub(".*", f"{g.value}  {g.check}")] += g.count
    return [row if count == 1 else f"{row}  x {count}" for row, count in counts.items()]
