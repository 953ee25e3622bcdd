"""Graph breaks by the source line they are at."""

from __future__ import annotations

from dataclasses import dataclass

from dynamo.trace import events as ev
from dynamo.trace.model import Run, short
from dynamo.trace.report import excerpt
from tui.views import names, peer_says
from tui.views.page import Page, cleaned


@dataclass(frozen=True)
class BreakPlace:
    """One break of the program, however often it was met. `excerpt` is its line with the span marked, `peer` what torch does there."""

    id: str
    file: str
    line: int
    reason: str
    count: int
    functions: tuple[str, ...]
    compiles: tuple[str, ...]
    excerpt: tuple[str, ...]
    explanation: str
    hint: str
    stack: tuple[str, ...]
    peer: str

    @property
    def at(self) -> str:
        return f"{short(self.file)}:{self.line}"


@dataclass(frozen=True)
class Breaks:
    """`count` breaks at `places`, in the order they were met first."""

    count: int
    places: tuple[BreakPlace, ...]
    not_captured: tuple[NotCaptured, ...]


@dataclass(frozen=True)
class NotCaptured:
    """A function that runs uncompiled as a whole, and why."""

    name: str
    file: str
    line: int
    id: str
    reason: str
    count: int


def view(run: Run) -> Breaks:
    found = places(run)
    return Breaks(sum(place.count for place in found), found, not_captured(run))


def places(run: Run) -> tuple[BreakPlace, ...]:
    """Distinct breaks: those of one id at one line with one reason are one. What the call of a module meets in `forward` is one with
    what `forward` meets.
    """
    groups: dict[tuple[str, int, str, str], list[ev.GraphBroke]] = {}
    for b in run.breaks:
        groups.setdefault((b.file, b.line, b.id, b.reason), []).append(b)
    return tuple(_place(run, found) for found in groups.values())


def _place(run: Run, found: list[ev.GraphBroke]) -> BreakPlace:
    found = [b for b in found if not names.passes_on(run, run.compiles[b.compile_id])] or found
    first = found[0]
    items = [run.compiles[b.compile_id] for b in found]
    functions = dict.fromkeys(names.function_of(run, item).title for item in items)
    return BreakPlace(
        first.id,
        first.file,
        first.line,
        names.value(first.reason, items[0]),
        len(found),
        tuple(functions),
        tuple(b.compile_id for b in found),
        tuple(cleaned(line) for line in excerpt(run, first)),
        first.explanation,
        first.hint,
        tuple(_stack_line(entry) for entry in first.stack),
        peer_says.about_break(first.id, first.reason) if run.engine == "dynamo" else "",
    )


def _stack_line(entry: str) -> str:
    place, _, name = entry.rpartition(" ")
    return f"{short(place)} {names.beginning(name).replace('<locals>.', '')}" if place else entry


def not_captured(run: Run) -> tuple[NotCaptured, ...]:
    """Functions with the reason that was met first."""
    groups: dict[tuple[str, str, int, str], list[str]] = {}
    for s in run.skipped:
        name = names.beginning(s.name).rpartition("<locals>.")[2].strip("<>")
        groups.setdefault((name, s.file, s.line, s.id), []).append(s.reason)
    return tuple(NotCaptured(*key, reasons[0], len(reasons)) for key, reasons in groups.items())


def short_lines(place: BreakPlace, page: Page) -> list[str]:
    """A break in a few lines: what, where, its line marked, what to write instead."""
    times = f"  {place.count}x" if place.count > 1 else ""
    out = [page.clip(f"{page.paint(place.at, 'yellow')}{times}  {place.id} {place.reason}", 2)]
    out += [page.clip(f"  {line}", 2) for line in place.excerpt]
    if place.hint:
        out += Page(page.width - 2, full=page.full).wrap(f"instead: {place.hint}", "  ", most=2)
    if place.peer:
        out.append(page.clip(f"  torch.compile {place.peer}", 2))
    return out


def lines(found: Breaks, page: Page) -> list[str]:
    """Every break with all that is known of it."""
    out = [page.paint(f"{counted(found)}", "bold")]
    for number, place in enumerate(found.places, 1):
        times = f"  {place.count}x" if place.count > 1 else ""
        out += [
            "",
            page.clip(f"{number}. {page.paint(place.id, 'yellow')}  {place.reason}{times}"),
            page.clip(f"   {place.file}:{place.line}"),
        ]
        out += [page.clip(f"   {line}") for line in place.excerpt]
        facts = [("why", place.explanation), ("instead", place.hint), ("torch.compile", place.peer), ("in", "; ".join(place.functions))]
        if len(place.stack) > 1:
            facts.append(("called by", " > ".join(place.stack[:-1])))
        for label, text in facts:
            out += page.wrap(f"{label}: {text}", "   ") if text else []
        if place.id.startswith("DD"):
            out.append(f"   more: dynamo-debug explain --code {place.id}")
    if found.not_captured:
        out += ["", page.paint("functions that are not captured", "bold")]
        out += [page.clip(f"  {left_line(s)}") for s in found.not_captured]
    return out


def left_line(left: NotCaptured) -> str:
    """A function that runs uncompiled, in a line."""
    times = f"  {left.count}x" if left.count > 1 else ""
    return f"{left.name}  {short(left.file)}:{left.line}{times}  {left.id} {left.reason}".rstrip()


def counted(found: Breaks) -> str:
    if not found.count:
        return "no graph breaks"
    at = len({(p.file, p.line) for p in found.places})
    return f"{found.count} graph break{'s' * (found.count != 1)} at {at} line{'s' * (at != 1)}"
