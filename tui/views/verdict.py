"""The verdict on a run: what somebody who ran a script wants to know first, as plain data and as one screen of text."""

from __future__ import annotations

from dataclasses import dataclass

from dynamo.trace.model import Frame, Run, plural, process_key, short
from tui.views import advice, breaks, failures, kernels, names, recompiles, timeline
from tui.views.advice import Step
from tui.views.breaks import BreakPlace, NotCaptured
from tui.views.failures import Failure
from tui.views.page import HEIGHT, Page, Section, columns, continued, fitted, length
from tui.views.recompiles import Group, Limit


@dataclass(frozen=True)
class Compiled:
    """One function of the program, its parts after breaks counted in. `status` is the worst of its compiles; `processes` are those that
    the script started and that compiled it.
    """

    name: str
    file: str
    line: int
    status: str
    compiles: int
    parts: int
    graphs: int
    ops: int
    cached: int
    seconds: float
    processes: tuple[str, ...]


@dataclass(frozen=True)
class Slowest:
    """What took longest: the stage with its own time, and the step that moves most bytes (kernels are not timed)."""

    stage: str
    seconds: float
    share: float
    kernel: str
    kernel_graph: str
    kernel_bytes: int
    kernel_lines: tuple[str, ...]


@dataclass(frozen=True)
class Verdict:
    """state: finished, failed, interrupted, running or cut off. `headline` is the one thing to know first."""

    script: str
    argv: tuple[str, ...]
    engine: str
    state: str
    exit: int | None
    headline: str
    compiled: tuple[Compiled, ...]
    graphs: int
    ops: int
    compile_seconds: float
    breaks: tuple[BreakPlace, ...]
    recompiles: tuple[Group, ...]
    limits: tuple[Limit, ...]
    failures: tuple[Failure, ...]
    uncompiled: tuple[NotCaptured, ...]
    slowest: Slowest | None
    notes: tuple[str, ...]
    problems: tuple[str, ...]
    next: tuple[Step, ...]


def verdict(run: Run, target: str = "") -> Verdict:
    """Of a live run or a stored one. `target` is what commands to paste name: the script with its arguments, or a record."""
    found_breaks = breaks.places(run)
    found_recompiles = recompiles.view(run)
    found_failures = failures.failures(run)
    compiled = functions(run)
    return Verdict(
        run.title,
        run.argv,
        run.engine,
        state(run),
        run.exit,
        _headline(run, compiled, found_breaks, found_recompiles, found_failures),
        compiled,
        len(run.graphs),
        sum(g.ops for g in run.graphs),
        run.compile_seconds(),
        found_breaks,
        found_recompiles.groups,
        found_recompiles.limits,
        found_failures,
        breaks.not_captured(run),
        _slowest(run),
        tuple(dict.fromkeys(f"{n.id}: {n.message}" for n in run.notes if not run.limits or n.id != "DD026")),
        tuple(run.problems),
        advice.steps(target or run.script, found_breaks, found_recompiles.groups, found_failures, bool(run.compiles), run.engine),
    )


def state(run: Run) -> str:
    if run.exit is None:
        return "cut off" if run.problems else "running"
    if run.error == "interrupted":
        return "interrupted"
    return "finished" if run.exit == 0 else "failed"


def functions(run: Run) -> tuple[Compiled, ...]:
    """Functions in the order they were compiled first; the rest of a function after a break counts with it."""
    groups: dict[tuple[str, str, int], list[Frame]] = {}
    for frame in run.frames:
        f = names.function_of(run, frame)
        groups.setdefault((f.name, f.file, f.line), []).append(frame)
    return tuple(_compiled(run, key, found) for key, found in groups.items())


def _compiled(run: Run, key: tuple[str, str, int], frames: list[Frame]) -> Compiled:
    seconds = sum(c.seconds for f in frames for c in f.compiles)
    own = [f for f in frames if not names.passes_on(run, f)] or frames
    whole = [c for f in frames for c in f.compiles if f in own or (c.graphs and not c.breaks)]  # what a call met, its forward met
    heads = [c for c in whole if not c.is_resume]
    captured = [g for c in whole for g in c.graphs if g.stage == "capture"]
    worst = max((run.status(f) for f in own), key=lambda s: s.severity)
    return Compiled(
        *key,
        worst.word,
        len(heads) or len(whole),
        sum(all(c.is_resume for c in f.compiles) for f in own),
        len(captured),
        sum(g.ops for g in captured),
        sum(c.is_cached for c in whole),
        seconds,
        _processes(run, frames),
    )


def _processes(run: Run, frames: list[Frame]) -> tuple[str, ...]:
    keys = {process_key(f.id) for f in frames}
    return tuple(f"rank {p.rank}" if p.rank >= 0 else f"pid {p.pid}" for p in run.processes if p.key in keys)


def _slowest(run: Run) -> Slowest | None:
    stages = timeline.stages(run)
    top = timeline.slowest(stages)
    if top is None:
        return None
    whole = run.compile_seconds()
    kernel = kernels.largest(kernels.view(run))
    step = (kernel.name, kernel.graph_id, kernel.bytes or 0, kernel.lines) if kernel is not None else ("", "", 0, ())
    return Slowest(top.stage, top.own, top.own / whole if whole > 0 else 0.0, *step)


def _headline(
    run: Run, compiled: tuple[Compiled, ...], broke: tuple[BreakPlace, ...], again: recompiles.Recompiles, failed: tuple[Failure, ...]
) -> str:
    """The worst first: a failure, a limit, a break, a recompile; otherwise that all is well. First, an exit code that nothing explains."""
    said = _finding(run, compiled, broke, again, failed)
    silent = run.exit not in (None, 0) and not run.error
    at = f" at {short(run.error_file)}:{run.error_line}" if run.error_file and "site-packages" not in run.error_file else ""
    return f"the script ended itself with exit code {run.exit}{at}; {said}" if silent else said


def _finding(
    run: Run, compiled: tuple[Compiled, ...], broke: tuple[BreakPlace, ...], again: recompiles.Recompiles, failed: tuple[Failure, ...]
) -> str:
    serious = [f for f in failed if f.kind != "step"]
    if serious:
        return f"{_WHO[serious[0].kind]}: {serious[0].error}" + (f" at {serious[0].at}" if serious[0].at else "")
    if not run.compiles:
        left = breaks.not_captured(run)
        return f"nothing was compiled: {left[0].name} runs in eager, {left[0].reason}" if left else "nothing was compiled"
    limited = next((g for g in again.groups if g.limit), None)
    if limited is not None:
        then = "other calls raise" if limited.beyond == "raise" else "it now runs in eager"
        return f"{limited.function} reached its recompile limit of {limited.limit} because {limited.what} changes: {then}"
    if broke:
        most = max(broke, key=lambda b: b.count)
        places = len({(b.file, b.line) for b in broke})
        where = f"graph breaks at {plural(places, 'line')}, most at {most.at}" if places > 1 else f"a graph break at {most.at}"
        return f"{where}: {most.reason}"
    if again.groups:
        most_again = max(again.groups, key=lambda g: g.count)
        others = f", {most_again.count} of them" if most_again.compiles > most_again.count + 1 else ""
        return f"{most_again.function} is compiled {plural(most_again.compiles, 'time')}{others} because {most_again.what} changes"
    if failed:
        return f"a step of {failed[0].where} raised: {failed[0].error}"
    where = f" ({_where(tuple(dict.fromkeys(p for c in compiled for p in c.processes)))})" if any(c.processes for c in compiled) else ""
    return f"compiled whole: {plural(len(compiled), 'function')}, {plural(len(run.graphs), 'graph')}, no breaks, no recompiles{where}"


def _where(processes: tuple[str, ...]) -> str:
    """`in ranks 0, 1` or `in 2 child processes`."""
    ranks = [p.removeprefix("rank ") for p in processes if p.startswith("rank ")]
    if ranks:
        return f"in rank{'s' * (len(ranks) != 1)} {', '.join(ranks)}"
    return f"in {len(processes)} child process{'es' * (len(processes) != 1)}"


_WHO = {
    "compiler": "the compiler itself failed",
    "memory": "a kernel touches memory that it must not",
    "script": "the script failed",
    "compile": "a compile failed",
}


# ---- as text -------------------------------------------------------------------------------------------------


def lines(found: Verdict, page: Page, height: int = HEIGHT) -> list[str]:
    """One screen. What does not fit is counted, with the command that shows it."""
    head = [_head(found, page), *page.wrap(found.headline, most=2)]
    head[1:] = [page.paint(line, "bold") for line in head[1:]]
    most_first = sorted(found.breaks, key=lambda b: -b.count)
    sections = [
        Section("failures", [failures.lines(f, page) for f in found.failures]),
        Section("problems", [[p] for p in found.problems], "--json"),
        Section(_compiled_title(found), _compiled_rows(found, page), "--full"),
        Section("uncompiled", [[page.clip(f"  {breaks.left_line(s)}")] for s in found.uncompiled], _command(found, "breaks")),
        Section(_breaks_title(found), [breaks.short_lines(b, page) for b in most_first], _command(found, "breaks"), 3.0),
        Section(_recompiles_title(found), [recompiles.short_lines(g, page) for g in found.recompiles], _command(found, "recompiles"), 2.0),
        Section("time", [[line] for line in _time(found)]),
        Section("notes", [[n] for n in found.notes], "--json", 0.5),
        Section("next", _next_rows(found, page), weight=9.0),
    ]
    if not page.full:
        fitted(sections, height - len(head))
    return [*head, *(line for section in sections for line in section.lines(page))]


def _head(found: Verdict, page: Page) -> str:
    ended = found.state if found.exit in (None, 0) else f"{found.state}, exit {found.exit}"
    engine = "" if found.engine == "dynamo" else f"  engine {found.engine}"
    return page.clip(f"{short(found.script) or 'run'}{engine}  {ended}")


def _command(found: Verdict, name: str) -> str:
    return next((s.command for s in found.next if s.command.startswith(f"dynamo-debug {name} ")), f"dynamo-debug {name}")


def _compiled_title(found: Verdict) -> str:
    return f"compiled  {plural(len(found.compiled), 'function')}, {plural(found.graphs, 'graph')}, {plural(found.ops, 'op')}"


_GLYPHS = {"ok": "✓", "empty": "○", "skipped": "−", "running": "…", "recompile": "↻", "break": "✗", "missing": "?", "error": "!"}


def _compiled_rows(found: Verdict, page: Page) -> list[list[str]]:
    rows = []
    for c in found.compiled:
        facts = [plural(c.compiles, "compile")]
        facts += [f"{plural(c.parts, 'part')} after breaks"] if c.parts else []
        facts += [plural(c.graphs, "graph"), plural(c.ops, "op")] if c.graphs else ["no tensor operations"] if c.status == "empty" else []
        facts += [f"{c.cached} cached"] if c.cached else []
        facts += [_where(c.processes)] if c.processes else []
        rows.append((f"{_GLYPHS.get(c.status, ' ')} {c.name}", f"{short(c.file)}:{c.line}", f"{c.seconds:.2f} s", ", ".join(facts)))
    return [[row] for row in columns(rows, right=(2,))]


def _next_rows(found: Verdict, page: Page) -> list[list[str]]:
    """Commands to paste are never cut: one that is too long goes on in the next line, as in a shell, and has no explanation beside it."""
    room = page.width - 2
    padded = max((length(s.command) for s in found.next), default=0)
    if padded + _WHY <= room:
        return [[row] for row in columns([(s.command, s.why) for s in found.next])]
    return [continued(s.command, room) for s in found.next]


_WHY = 24  # columns without which an explanation says nothing


def _breaks_title(found: Verdict) -> str:
    return f"breaks  {breaks.counted(breaks.Breaks(sum(b.count for b in found.breaks), found.breaks, ()))}"


def _recompiles_title(found: Verdict) -> str:
    count = sum(g.count for g in found.recompiles)
    limits = "limit reached" if found.limits else "limit not reached"
    return f"recompiles  {count} with {plural(len(found.recompiles), 'cause')}, {limits}"


def _time(found: Verdict) -> list[str]:
    if found.slowest is None:
        return [f"{found.compile_seconds:.2f} s compiling"] if found.compiled else []
    s = found.slowest
    out = [f"{found.compile_seconds:.2f} s compiling, slowest stage {s.stage}: {s.seconds:.2f} s ({s.share:.0%})"]
    if s.kernel:
        places = f"  ({' '.join(short(line) for line in s.kernel_lines[:2])})" if s.kernel_lines else ""
        out.append(f"largest step {s.kernel} of graph {s.kernel_graph}: {kernels.size(s.kernel_bytes)} read and written{places}")
    return out
