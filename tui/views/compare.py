"""Two runs side by side: what differs in graphs, breaks, recompiles, kernels and times."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from dynamo.trace.model import Run, plural, short
from tui.views import breaks, kernels, names, recompiles
from tui.views.page import Page, columns


@dataclass(frozen=True)
class Count:
    """One number of both runs."""

    what: str
    a: float
    b: float


@dataclass(frozen=True)
class Difference:
    """Something that only one run has, or has more often. `where` is what it belongs to."""

    kind: str
    what: str
    where: str
    a: int
    b: int


@dataclass(frozen=True)
class Comparison:
    """`same`: nothing but times differs."""

    a: str
    b: str
    same: bool
    counts: tuple[Count, ...]
    stages: tuple[Count, ...]
    differences: tuple[Difference, ...]


Things = Counter[tuple[str, str, str]]


def view(a: Run, b: Run, name_a: str = "a", name_b: str = "b") -> Comparison:
    left, right = _things(a), _things(b)
    keys = dict.fromkeys([*left, *right])
    differences = tuple(Difference(*key, left[key], right[key]) for key in keys if left[key] != right[key])
    return Comparison(name_a, name_b, not differences, _counts(a, b), _stages(a, b), differences)


def _counts(a: Run, b: Run) -> tuple[Count, ...]:
    return tuple(Count(what, float(of(a)), float(of(b))) for what, of in _COUNTED.items())


_COUNTED: dict[str, Callable[[Run], float]] = {
    "compiles": lambda r: len(r.compiles),
    "graphs": lambda r: len(r.graphs),
    "ops": lambda r: sum(g.ops for g in r.graphs),
    "breaks": lambda r: len(r.breaks),
    "recompiles": lambda r: len(r.recompiles),
    "guards": lambda r: len(r.guards),
    "kernels": lambda r: kernels.view(r).kernels,
    "compile seconds": lambda r: round(r.compile_seconds(), 4),
}


def _stages(a: Run, b: Run) -> tuple[Count, ...]:
    left = {t.stage: t.seconds for t in a.times()}
    right = {t.stage: t.seconds for t in b.times()}
    return tuple(Count(stage, left.get(stage, 0.0), right.get(stage, 0.0)) for stage in dict.fromkeys([*left, *right]))


def _things(run: Run) -> Things:
    """Everything that has a name which is the same in every run."""
    found: Things = Counter()
    for p in breaks.places(run):
        found["break", f"{p.id} {p.reason}", f"{short(p.file)}:{p.line}"] += p.count
    for g in recompiles.view(run).groups:
        found["recompiles", g.what, g.function] += g.count
    for item in run.compiles.values():
        function = names.function_of(run, item).title
        for graph in item.graphs:
            found["graph", " ".join(n.target for n in graph.nodes if n.op.startswith("call_")), f"{function} ({graph.stage})"] += 1
        for s in item.steps:
            found[s.what, " ".join(s.ops), function] += 1
    return found


def lines(found: Comparison, page: Page) -> list[str]:
    """Numbers beside each other, then what only one has."""
    rows = [("", found.a, found.b)] + [(c.what, f"{c.a:g}", f"{c.b:g}") for c in found.counts]
    out = [page.clip(row) for row in columns(rows, right=(1, 2))]
    out += ["", page.paint("seconds per stage", "bold")]
    out += [page.clip(f"  {row}") for row in columns([(c.what, f"{c.a:.4f}", f"{c.b:.4f}", _ratio(c)) for c in found.stages], right=(1, 2))]
    title = "the same graphs, breaks, recompiles and kernels" if found.same else plural(len(found.differences), "difference")
    out += ["", page.paint(title, "bold")]
    for d in found.differences:
        sign = "-" if not d.b else "+" if not d.a else "~"
        times = f"  {d.a} -> {d.b}" if d.a and d.b else f"  {d.a or d.b}x" if max(d.a, d.b) > 1 else ""
        out.append(page.clip(f"  {sign} {d.kind} {d.where}{times}: {d.what}"))
    return out


def _ratio(c: Count) -> str:
    return f"{c.b / c.a:.2f}x" if c.a else ""
