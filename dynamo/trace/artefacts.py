"""What the stages of a run left to look at: graphs, loop IR, code, guards, decisions, each as a text with a title.

The debug tree, `explain --stage`, the logs and the TUI show these and nothing else, so that they agree. A view of the model: works
for a live run and for a stored record alike.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from dynamo.trace import codec
from dynamo.trace import events as ev
from dynamo.trace.model import Compile, Place, Run, short
from dynamo.trace.readable import layout
from dynamo.trace.rows import lines_of
from dynamo.trace.stages import BY_NAME, STAGES

# Stages that decisions name, where the pipeline does several things in one step.
STEPS_OF = {"inline": "schedule", "fuse": "schedule", "split": "schedule", "interior": "schedule", "reuse": "schedule"}
GRAPH_TITLES = {"": "captured graph", "aot": "joint graph", "fw": "forward graph", "bw": "backward graph", "passes": "after graph passes"}
CODE_TITLES = {
    "bytecode": "bytecode",
    "entry": "entry function",
    "lowered": "loop IR before fusion",
    "scheduled": "loop IR after inlining and splitting",
    "fused": "loop IR after fusion",
    "c": "C kernels",
    "py": "host program as Python",
    "sh": "build command",
}
KERNEL_TITLES = {"py": "Triton kernel", "ttir": "Triton IR", "ttgir": "Triton IR for the GPU", "ptx": "PTX"}
_KERNEL = re.compile(r"(?<=\.)k\d+(_\d+)?$")
_PLACE = re.compile(r"(?P<file>[^\s;|/]+|/[^;|]*?):(?P<line>\d+)(?=[\s;,|]|$)")


@dataclass(frozen=True)
class Artefact:
    """One text. `key` is unique in the run; `language` is python, c, ir, shell, mlir, ptx or text."""

    key: str
    stage: str
    compile_id: str
    graph_id: str
    title: str
    language: str
    text: str


def artefacts(run: Run, stage: str = "", graph: str = "") -> list[Artefact]:
    """All texts in the order of the pipeline, or those of one stage, of one compile (`0/0`) or of one graph (`0/0.fw`)."""
    found = [a for item in run.compiles.values() for a in _of_compile(run, item)]
    return [a for a in found if stage in ("", a.stage) and belongs(a.compile_id, a.graph_id, graph)]


def belongs(compile_id: str, graph_id: str, wanted: str) -> bool:
    """Whether something of this compile and graph is meant by `--graph WANTED`."""
    return wanted in ("", compile_id, graph_id) or graph_id.startswith(f"{wanted}.")


def decisions(run: Run, stage: str = "", graph: str = "") -> list[ev.Decided]:
    """Decisions in the order they were taken."""
    every = [d for item in run.compiles.values() for d in item.decisions]
    return [d for d in every if stage in ("", d.stage, step_of(d.stage)) and belongs(d.compile_id, d.graph_id, graph)]


def step_of(stage: str) -> str:
    """The stage of the pipeline in which decisions of this name are taken."""
    return STEPS_OF.get(stage, stage)


def decision_lines(found: Iterable[ev.Decided]) -> Iterator[str]:
    """One line per decision; steps that were refused before fuel was asked have no number."""
    found = list(found)
    rows = [(f"#{d.number}" if d.number else "-", d.graph_id or d.compile_id, d.stage, "taken" if d.taken else "refused") for d in found]
    widths = [max((len(row[i]) for row in rows), default=0) for i in range(4)]
    for cells, d in zip(rows, found, strict=True):
        head = "  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True))
        yield f"{head}  {d.what}" + (f": {d.reason}" if d.reason else "")


def as_json(artefact: Artefact) -> dict[str, Any]:
    return {
        "stage": artefact.stage,
        "compile_id": artefact.compile_id,
        "graph_id": artefact.graph_id,
        "title": artefact.title,
        "language": artefact.language,
        "text": artefact.text,
    }


def stage_text(run: Run, stage: str, graph: str = "") -> str:
    """Everything one stage left, as text: its artefacts, its decisions, its times."""
    parts = [f"==== {a.graph_id or a.compile_id}  {a.title}\n\n{a.text.rstrip()}\n" for a in artefacts(run, stage, graph)]
    taken = list(decision_lines(decisions(run, stage, graph)))
    if taken:
        parts.append("==== decisions\n\n" + "\n".join(taken) + "\n")
    times = [f"{t.compile_id}  {t.seconds:.4f} s" for t in timed(run, stage, graph)]
    if times:
        parts.append("==== times\n\n" + "\n".join(times) + "\n")
    return "\n".join(parts) or f"nothing was recorded at stage {stage}\n"


def timed(run: Run, stage: str, graph: str = "") -> list[ev.StageTimed]:
    every = [t for item in run.compiles.values() for t in item.stages]
    return [t for t in every if t.stage == stage and belongs(t.compile_id, "", graph.split(".")[0])]


def stage_json(run: Run, stage: str, graph: str = "") -> dict[str, Any]:
    """The same as JSON values."""
    return {
        "stage": stage,
        "about": BY_NAME[stage].doc,
        "artefacts": [as_json(a) for a in artefacts(run, stage, graph)],
        "decisions": [codec.fields(d) for d in decisions(run, stage, graph)],
        "times": [codec.fields(t) for t in timed(run, stage, graph)],
    }


# ---- the texts of one compile --------------------------------------------------------------------------------


def _of_compile(run: Run, item: Compile) -> list[Artefact]:
    order = {s.name: i for i, s in enumerate(STAGES)}
    found = [_graph(g) for g in item.graphs] + [_code(c) for c in item.code] + [_lowering(e) for e in item.lowered]
    found += [_cache(c) for c in item.cache]
    found += [_steps(item, graph_id) for graph_id in dict.fromkeys(s.graph_id for s in item.steps)]
    found += [_loaded(item, graph_id) for graph_id in dict.fromkeys(k.graph_id for k in item.loaded)]
    if item.guards:
        found.append(Artefact(f"{item.id} guards", "guards", item.id, "", "guards", "text", _guards(run, item)))
    found.sort(key=lambda a: order.get(a.stage, len(order)))
    return [_numbered(a, i) for i, a in enumerate(found)]


def _numbered(a: Artefact, index: int) -> Artefact:
    """Programs that are compiled again under one id have artefacts of the same name."""
    return Artefact(f"{a.key} {index}", a.stage, a.compile_id, a.graph_id, a.title, a.language, a.text)


def _graph(graph: ev.GraphCaptured) -> Artefact:
    ending = graph.graph_id.removeprefix(graph.compile_id).rpartition(".")[2]
    title = GRAPH_TITLES.get(ending, "graph")
    text = graph.code.rstrip("\n") + "\n"
    if graph.stage == "capture":
        text += "\n" + "".join(f"# {line}\n" for line in node_facts(graph))
    return Artefact(f"{graph.stage} {graph.graph_id}", graph.stage, graph.compile_id, graph.graph_id, title, "python", text)


def node_facts(graph: ev.GraphCaptured) -> Iterator[str]:
    """Name, value and user line of every node: what a captured graph's own code does not say."""
    width = max((len(n.name) for n in graph.nodes), default=0)
    for n in graph.nodes:
        place = f"{n.file}:{n.line}" if n.file else ""
        yield f"{n.name:<{width}}  {layout(n) or n.shape or '-'}  {place}".rstrip()


def _code(code: ev.CodeGenerated) -> Artefact:
    title = title_of(code.name)
    return Artefact(f"{code.stage} {code.name}", code.stage, code.compile_id, code.graph_id, title, code.language, code.code)


def title_of(name: str) -> str:
    """What a text is, by the end of its name; of a kernel's own (`0/0.k3.ptx`) which kernel."""
    stem, _, ending = name.rpartition(".")
    kernel = _KERNEL.search(stem)
    if kernel is not None and ending in KERNEL_TITLES:
        return f"{kernel[0]}: {KERNEL_TITLES[ending]}"
    return CODE_TITLES.get(ending, name)


def _lowering(e: ev.GraphLowered) -> Artefact:
    width = max((len(op) for op in e.how), default=0)
    text = "".join(f"{op:<{width}}  {how}\n" for op, how in e.how.items())
    graph_id = e.graph_id if e.graph_id.endswith(".bw") else f"{e.graph_id}.fw"
    return Artefact(f"lower {e.graph_id} how", "lower", e.compile_id, graph_id, "how operators are lowered", "text", text)


def _cache(e: ev.CacheLooked) -> Artefact:
    text = f"{e.outcome}: {e.reason}\n" if e.reason else f"{e.outcome}\n"
    text += f"key {e.key}\n" if e.key else ""
    return Artefact(f"cache {e.compile_id}", "cache", e.compile_id, "", f"cache on disk: {e.outcome}", "text", text)


def _loaded(item: Compile, graph_id: str) -> Artefact:
    text = "".join(f"{line.removeprefix('kernels: ')}\n" for k in item.loaded if k.graph_id == graph_id for line in lines_of(k))
    return Artefact(f"kernels {graph_id} loaded", "kernels", item.id, graph_id, "what kernels need of the device", "text", text)


def _steps(item: Compile, graph_id: str) -> Artefact:
    text = "".join(f"{line.removeprefix('schedule: ')}\n" for s in item.steps if s.graph_id == graph_id for line in lines_of(s))
    return Artefact(f"schedule {graph_id} steps", "schedule", item.id, graph_id, "steps in order", "text", text)


def _guards(run: Run, item: Compile) -> str:
    lines = []
    for g in item.guards:
        read = f"  {g.file}:{g.line}  {run.source_line((g.file, g.line)).strip()}" if g.file else ""
        lines.append(f"{g.guard_id:>3}  {g.source}  {g.check}{read}".rstrip())
    return "\n".join(lines) + "\n"


# ---- from lines of a text to user lines ----------------------------------------------------------------------


def line_places(run: Run, artefact: Artefact) -> list[frozenset[Place]]:
    """For every line of the text the user lines it came from: those its comment names, or the last comment above it."""
    known = {short(n.file): n.file for g in run.compile_of(artefact.compile_id).graphs for n in g.nodes if n.file}
    out: list[frozenset[Place]] = []
    last: frozenset[Place] = frozenset()
    for line in artefact.text.splitlines():
        comment = _comment_of(line)
        if comment:
            found = {(known.get(short(m["file"]), m["file"]), int(m["line"])) for m in _PLACE.finditer(comment)}
            found = {place for place in found if place[0] in known.values()}
            last = frozenset(found) if found else last
        elif not line.strip() or (line and not line[0].isspace()):
            last = frozenset()
        out.append(last)
    return out


def _comment_of(line: str) -> str:
    """The part of a line that may name places: a C or Python comment, or what follows the `;` of the IR."""
    for mark in ("/* ", "# ", " ; "):
        _, found, comment = line.partition(mark)
        if found:
            return comment.removesuffix("*/").replace("File: ", "")
    return ""
