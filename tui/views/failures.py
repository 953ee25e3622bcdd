"""What failed: the script, the compiler, and steps that raised where a compile ended."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, replace

from dynamo.breaks import PROGRAM_RAISES
from dynamo.trace.model import Run, short
from tui.views import names
from tui.views.page import Page, cleaned


@dataclass(frozen=True)
class Failure:
    """kind: script, compiler, memory (what the sanitizer found), compile (one that ended in an error) or step (what raised at the end of a
    graph). `error` is the exception, `where` the function it belongs to, `file` and `line` its place, `source` that line."""

    kind: str
    error: str
    where: str
    file: str = ""
    line: int = 0
    count: int = 1
    id: str = ""
    source: str = ""

    @property
    def at(self) -> str:
        return f"{short(self.file)}:{self.line}" if self.file else ""


def failures(run: Run) -> tuple[Failure, ...]:
    """The compiler's own first: what they hit ran uncompiled. The step in which the script's own failure was raised is not told again."""
    found: Counter[Failure] = Counter()
    for e in run.internal_errors:
        raised = _RAISED.fullmatch(e.raised_at)
        place = (raised["file"], int(raised["line"])) if raised else ("", 0)
        found[Failure("compiler", f"{e.error}: {e.message}".split("\n", 1)[0], e.where, *place, id=e.id)] += 1
    for f in run.memory_faults:
        file, _, line = "".join(f.lines[:1]).partition(" ")[0].rpartition(":")
        at = (file, int(line)) if line.isdigit() else ("", 0)
        found[Failure("memory", f"{f.found}: {f.access}", f"kernel {f.kernel} of graph {f.graph_id}", *at, id=FOUND)] += 1
    if run.error and run.error != "interrupted":
        found[Failure("script", run.error, run.title, run.error_file, run.error_line)] += 1
    for item in run.compiles.values():
        function = names.function_of(run, item)
        if item.outcome == "error":
            place = (item.broke_file, item.broke_line) if item.broke_file else (function.file, function.line)
            error = (item.detail or "the compile failed").split("\n", 1)[0].removesuffix(f" [{item.broke_id}]")
            found[Failure("compile", error, function.title, *place, id=item.broke_id)] += 1
        elif item.outcome == "break" and not item.breaks and (not item.broke_id or item.broke_id in PROGRAM_RAISES):
            place = (item.broke_file, item.broke_line) if item.broke_file else (function.file, function.resumes or function.line)
            if place == (run.error_file, run.error_line):
                continue
            found[Failure("step", names.value(item.detail, item) or "the program raised", function.title, *place, id=item.broke_id)] += 1
    return tuple(replace(f, count=count, source=cleaned(run.source_line((f.file, f.line)).strip())) for f, count in found.items())


_RAISED = re.compile(r"(?P<file>.+):(?P<line>\d+)(?: .*)?", re.DOTALL)
FOUND = "DI024"  # the id under which the sanitizer tells of faults
_PATH = re.compile(r"\([^()]*/")
_TITLES = {
    "memory": "a kernel touches memory that it must not",
    "compiler": "the compiler failed, eager ran",
    "script": "the script failed",
    "compile": "a compile failed",
    "step": "a step raised, so its graph ends there",
}


def lines(failure: Failure, page: Page) -> list[str]:
    times = f"  {failure.count}x" if failure.count > 1 else ""
    head = f"{page.paint(failure.error, 'red')}{times}"
    tag = f"[{failure.id}] " if failure.id else ""
    at = f"{', raised' if failure.kind == 'compiler' else ''} at {failure.at}" if failure.at else ""
    where = "" if failure.at.startswith(f"{short(failure.where)}:") else f": {_PATH.sub('(', failure.where)}"
    out = [page.clip(f"{tag}{head}", 2), page.clip(f"  {_TITLES[failure.kind]}{where}{at}", 2)]
    return [*out, page.clip(f"  {failure.line:>7} | {failure.source}", 2)] if failure.source else out
