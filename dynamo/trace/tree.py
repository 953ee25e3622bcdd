"""The debug tree of `TORCH_COMPILE_DEBUG=1`: folders and files people know from torch, made from the events of a run.

    torch_compile_debug/run_<date>_<time>-pid_<pid>/
        torchdynamo/debug.log                      every event, as it happened
        torchinductor/aot_model___<n>_debug.log    ahead-of-time tracing of the n-th captured graph
        torchinductor/model__<n>_<kind>_<m>.<k>/   one ATen graph: `kind` is forward, backward or inference

and of the older `TORCHINDUCTOR_TRACE=1`: `<cache>/<xx>/<hash>.debug/` per graph. A writer takes events one by one, so files of the
stages before a crash are there after it; fed from a stored record it writes the same tree.
"""

from __future__ import annotations

import hashlib
import os
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from dynamo.trace import events as ev
from dynamo.trace.artefacts import decision_lines
from dynamo.trace.dot import steps_to_dot, to_dot, to_svg
from dynamo.trace.events import Event
from dynamo.trace.rows import id_of, lines_of
from dynamo.trace.runnable import runnable

Say = Callable[[str], None]
ATEN_STAGES = frozenset({"aot", "partition"})

# What a text of the record is called in the tree; the suffix is that of `CodeGenerated.name`.
FILES = {"lowered": "ir_pre_fusion.txt", "fused": "ir_post_fusion.txt", "c": "output_code.c", "py": "output_code.py"}
READABLE, RUNNABLE, TRANSFORMED = "fx_graph_readable.py", "fx_graph_runnable.py", "fx_graph_transformed.py"
OLD_NAMES = {READABLE: "fx_graph.py"}
LARGE = 400  # nodes from which drawing takes minutes


def run_name() -> str:
    """The name of the folder of this process."""
    now = time.time()
    return f"run_{time.strftime('%Y_%m_%d_%H_%M_%S', time.localtime(now))}_{int(now % 1 * 1e6):06d}-pid_{os.getpid()}"


@dataclass
class Folder:
    """The files of one ATen graph."""

    path: Path
    title: str
    graph_id: str
    names: dict[str, str] = field(default_factory=dict)
    steps: list[ev.StepScheduled] = field(default_factory=list)
    decisions: list[ev.Decided] = field(default_factory=list)

    def write(self, name: str, text: str) -> None:
        self.path.mkdir(parents=True, exist_ok=True)
        (self.path / self.names.get(name, name)).write_text(text, encoding="utf-8", errors="surrogateescape")


class TreeWriter:
    """A listener of the event store. `say` gets one line per graph folder, and one where something can't be written.

    With `cache` the folders of graphs lie there by content, as they did before there were runs.
    """

    def __init__(self, root: Path | None, say: Say, cache: Path | None = None) -> None:
        self.root, self.cache = root, cache
        self.say = say
        self.folders: dict[str, list[Folder]] = {}
        self._models: dict[str, int] = {}
        self._compiled = 0
        self._joint: set[str] = set()
        self._pid = os.getpid()
        self._lock = threading.RLock()
        self._drawing = ""  # why no pictures are drawn, once that is known

    def __call__(self, event: Event) -> None:
        """Take one event. Forked children of the writing process stay silent, and a full disk stops the tree, not the program."""
        if os.getpid() != self._pid:
            return
        with self._lock:
            try:
                self._take(event)
            except OSError as e:
                self._pid = -1
                self.say(f"debug tree {self.root or self.cache}: cannot be written: {e.strerror}; it ends here")

    def _take(self, event: Event) -> None:
        self._log(event)
        match event:
            case ev.GraphCaptured(stage="capture"):
                self._models.setdefault(event.compile_id, len(self._models))
            case ev.GraphCaptured(stage=stage) if stage in ATEN_STAGES:
                self._aten_graph(event)
            case ev.GraphCaptured(stage="passes"):
                for folder in self._folders(event.graph_id.removesuffix(".passes"), event):
                    folder.write(TRANSFORMED, _module_text(event))
            case ev.CodeGenerated(graph_id=graph_id) if graph_id:
                self._code(event)
            case ev.StepScheduled():
                for folder in self.folders.get(event.graph_id, ()):
                    folder.steps.append(event)
            case ev.Decided(graph_id=graph_id) if graph_id:
                for folder in self.folders.get(graph_id, ()):
                    folder.decisions.append(event)

    # ---- graphs ----

    def _aten_graph(self, graph: ev.GraphCaptured) -> None:
        if graph.graph_id.endswith(".aot"):
            self._joint.add(graph.compile_id)
            self._compiled += 1
            return
        for folder in self._new_folders(graph):
            folder.write(READABLE, _module_text(graph))
            folder.write(RUNNABLE, runnable(graph.nodes, graph.graph_id))
            self._draw(folder, "orig_fx_graph_diagram", to_dot(graph), len(graph.nodes))

    def _folders(self, graph_id: str, event: ev.GraphCaptured) -> list[Folder]:
        """Those of a graph; of one that was compiled without ahead-of-time tracing they begin here."""
        if graph_id not in self.folders:
            self._aten_graph(ev.GraphCaptured(graph_id, event.compile_id, "aot", event.ops, event.code, event.nodes, t=event.t))
        return self.folders[graph_id]

    def _new_folders(self, graph: ev.GraphCaptured) -> list[Folder]:
        model = self._models.setdefault(graph.compile_id, len(self._models))
        trained = graph.compile_id in self._joint
        kind = "backward" if graph.graph_id.endswith(".bw") else "forward" if trained else "inference"
        title = f"model__{model}_{kind}_{self._compiled}"
        found = []
        if self.root is not None:
            number = sum(map(len, self.folders.values()))
            found.append(Folder(self.root / "torchinductor" / f"{title}.{number}", title, graph.graph_id))
        if self.cache is not None:
            sha = hashlib.sha256(f"{kind}\n{graph.code}".encode("utf-8", "surrogatepass")).hexdigest()
            found.append(Folder(self.cache / sha[:2] / f"{sha}.debug", title, graph.graph_id, OLD_NAMES))
        self._compiled += 1
        self.folders[graph.graph_id] = found
        for folder in found:
            self.say(f"{title} debug trace: {folder.path}")
        return found

    def _code(self, code: ev.CodeGenerated) -> None:
        suffix = code.name.rpartition(".")[2]
        for folder in self.folders.get(code.graph_id, ()):
            if suffix in FILES:
                folder.write(FILES[suffix], code.code)
            if suffix == "c":  # by now every step and every decision is known
                folder.write("decisions.txt", "".join(f"{line}\n" for line in decision_lines(folder.decisions)))
                self._draw(folder, "graph_diagram", steps_to_dot(folder.graph_id, folder.steps), len(folder.steps))

    # ---- logs ----

    def _log(self, event: Event) -> None:
        lines = lines_of(event)
        if not lines:
            return
        head = f"{event.t:10.4f} [{id_of(event)}] "
        text = "".join(f"{head if i == 0 else '    '}{line}\n" for i, line in enumerate(lines))
        model = self._models.get(getattr(event, "compile_id", ""))
        if self.root is not None:
            self._append(self.root / "torchdynamo" / "debug.log", text)
            if model is not None and getattr(event, "stage", "") in ATEN_STAGES:
                self._append(self.root / "torchinductor" / f"aot_model___{model}_debug.log", text)
        elif id_of(event) in self.folders:
            for folder in self.folders[id_of(event)]:
                self._append(folder.path / "debug.log", text)

    def _append(self, path: Path, text: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(path, "a", encoding="utf-8", errors="surrogateescape") as file:
            file.write(text)

    # ---- pictures ----

    def _draw(self, folder: Folder, name: str, dot: str, nodes: int) -> None:
        folder.write(f"{name}.dot", dot)
        if nodes > LARGE:
            self._no_picture(f"{folder.path.name}: {name} has {nodes} nodes, too many to draw; see {name}.dot")
            return
        if self._drawing:
            return
        svg = to_svg(dot)
        if svg is None:
            self._drawing = "graph diagrams are written as .dot only: the program `dot` of graphviz is not on the path"
            self._no_picture(self._drawing)
        else:
            folder.write(f"{name}.svg", svg)

    def _no_picture(self, why: str) -> None:
        if self.root is not None:
            self._append(self.root / "torchdynamo" / "debug.log", f"{why}\n")
        else:
            self.say(why)


def _module_text(graph: ev.GraphCaptured) -> str:
    return f"# {graph.graph_id}, {graph.ops} ops, after stage {graph.stage}\nimport torch\n\naten = torch.ops.aten\n\n\n{graph.code}"


def write_tree(events: Iterable[Event], folder: Path, say: Say) -> Path:
    """The tree of a whole run under `folder`; returns the folder of the run."""
    root = folder / "torch_compile_debug" / run_name()
    writer = TreeWriter(root, say)
    for event in events:
        writer(event)
    return root
