"""The steps of the profiler, from a run to a report with fixes that were tried."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from dynamo.trace.model import Compile, Run
from minifier.recompiles.clusters import Cluster, clusters
from minifier.recompiles.edits import Edit, Overlap, Sources, applied, diff
from minifier.recompiles.remedies import Fix, fixes
from minifier.recompiles.writers import changed_at

TRIES = 4  # fixes of one cluster that are run at most


@dataclass(frozen=True)
class Ran:
    """One run of the program: its record, exit code and what it wrote on stdout."""

    run: Run
    code: int
    output: bytes


# Runs the program again, with other texts in the place of some of its files.
Rerun = Callable[[Mapping[str, bytes]], Ran]


@dataclass(frozen=True)
class GuardCost:
    """What one guard costs at each call, in nanoseconds."""

    frame: str
    compile_id: str
    guard: str
    file: str
    line: int
    ns: float


@dataclass(frozen=True)
class Finding:
    """One cause of recompiles. `file`, `line` read the value; `changed_*` gave it its new state. `seconds` is what the compiles took, and
    `saved` how many of them the fix should make unnecessary; `verified`: the program was run with `edit` in it, printed the same, and
    compiled less (`compiles_after`, of `compiles_before`). `rejected` are edits that were tried and did not hold. `besides` are causes that
    came with this one, so that mending it alone leaves their recompiles.
    """

    frame: str
    cause: str
    at: str
    values: tuple[str, ...]
    file: str
    line: int
    changed_file: str
    changed_line: int
    count: int
    seconds: float
    saved: int
    fix: str
    edit: str = ""
    verified: bool = False
    compiles_before: int = 0
    compiles_after: int | None = None
    rejected: tuple[str, ...] = ()
    besides: tuple[str, ...] = ()


@dataclass(frozen=True)
class Broke:
    """A graph break and how often it was met."""

    id: str
    reason: str
    file: str
    line: int
    count: int


@dataclass
class Profile:
    """The whole of it. `together`: compiles with all verified fixes in the program at once. `failures` of the compiler ran in eager."""

    compiles: int
    seconds: float
    breaks: list[Broke]
    recompiles: list[Finding]
    guard_costs: list[GuardCost]
    unexplained: int = 0
    limits: list[str] = field(default_factory=list)
    together: int | None = None
    failures: list[str] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """The object that `profile --json` prints."""
        return {
            "compiles": self.compiles,
            "compile_seconds": round(self.seconds, 4),
            "breaks": sum(b.count for b in self.breaks),
            "break_places": [asdict(b) for b in self.breaks],
            "recompiles": [asdict(f) for f in self.recompiles],
            "unexplained": self.unexplained,
            "compiles_with_fixes": self.together,
            "limits": self.limits,
            "failures": self.failures,
            "guard_cost_ns": [asdict(g) for g in self.guard_costs],
        }


def profile(first: Ran, again: Rerun | None, tell: Callable[[str], None]) -> Profile:
    """What made the program compile again, and what to do. `again` runs it with edits; None: fixes stay unverified."""
    run, sources = first.run, Sources()
    findings: list[Finding] = []
    taken: list[tuple[Edit, ...]] = []
    for cluster in clusters(run, sources):
        finding, edits = examine(cluster, first, again, sources, tell)
        findings.append(finding)
        if finding.verified:
            taken.append(edits)
    out = Profile(compile_count(run), run.compile_seconds(), _breaks(run), findings, _guard_costs(run))
    out.unexplained = sum(not r.changes for r in run.recompiles)
    out.limits = [f"{x.frame}: recompile_limit {x.limit} reached" for x in run.limits]
    out.failures = [f"[{e.id}] {e.where}: {e.error}: {e.message}".partition("\n")[0] for e in run.internal_errors]
    if again is not None and len(taken) > 1:
        out.together = _tried(tuple(e for edits in taken for e in edits), first, again, sources)
    return out


def compile_count(run: Run) -> int:
    """Compiles that were begun."""
    return sum(c.announced for c in run.compiles.values())


def examine(
    cluster: Cluster, first: Ran, again: Rerun | None, sources: Sources, tell: Callable[[str], None]
) -> tuple[Finding, tuple[Edit, ...]]:
    """One cause: who read, who changed, and the first fix that holds; else the likeliest one, or advice."""
    candidates = fixes(cluster, sources)[:TRIES]
    if again is None:
        return _described(cluster, first.run, sources, candidates[0] if candidates else None), ()
    rejected: list[str] = []
    for fix in candidates:
        tell(f"trying: {fix.words}")
        after = _tried(fix.edits, first, again, sources)
        if after is not None:
            found = _described(cluster, first.run, sources, fix)
            return replace(found, verified=True, compiles_after=after, rejected=tuple(rejected)), fix.edits
        rejected.append(fix.words)
    return replace(_described(cluster, first.run, sources, None), rejected=tuple(rejected)), ()


def _described(cluster: Cluster, run: Run, sources: Sources, fix: Fix | None) -> Finding:
    files = dict.fromkeys((cluster.callers[-1][0], cluster.first.file, cluster.file))
    read, wrote = cluster.read_at, changed_at(cluster, sources, files)
    change = cluster.first
    advice = cluster.cause.advice.format(at=cluster.at, aspect=change.aspect, dim=change.dim)
    return Finding(
        frame=cluster.name,
        cause=cluster.cause.name,
        at=cluster.at or change.aspect,
        values=tuple(cluster.values),
        file=read[0],
        line=read[1],
        changed_file=wrote[0],
        changed_line=wrote[1],
        count=cluster.count,
        seconds=round(cluster.seconds, 4),
        saved=0 if fix is None else cluster.count if fix.takes_all else cluster.alone,
        fix=fix.words if fix is not None else advice,
        edit=_diff(fix.edits, sources) if fix is not None else "",
        compiles_before=compile_count(run),
        besides=tuple(f"{what} ({count}x)" for what, count in cluster.besides.most_common()),
    )


def _diff(edits: tuple[Edit, ...], sources: Sources) -> str:
    texts = []
    for file, data in applied(edits, sources).items():
        module = sources.module(file)
        assert module is not None
        texts.append(diff(file, module.data, data))
    return "".join(texts)


def _tried(edits: tuple[Edit, ...], first: Ran, again: Rerun, sources: Sources) -> int | None:
    """Compiles of the edited program if it does what it did and compiles less, without more breaks; else None."""
    try:
        files = applied(edits, sources)
    except (Overlap, SyntaxError):
        return None
    after = again(files)
    if (after.code, after.output) != (first.code, first.output) or len(after.run.breaks) > len(first.run.breaks):
        return None
    count = compile_count(after.run)
    return count if count < compile_count(first.run) else None


def _breaks(run: Run) -> list[Broke]:
    found = Counter((b.id, b.reason, b.file, b.line) for b in run.breaks)
    return [Broke(*what, count) for what, count in found.most_common()]


def _guard_costs(run: Run) -> list[GuardCost]:
    """Each guard of the last compile of each frame, the dearest first; -1 ns was not measured."""
    found = []
    for frame in run.frames:
        last: Compile | None = frame.compiles[-1] if frame.compiles else None
        for g in last.guards if last is not None else ():
            if g.ns >= 0:
                found.append(GuardCost(frame.name, g.compile_id, f"{g.source} {g.check}", g.file, g.line, g.ns))
    return sorted(found, key=lambda g: -g.ns)
