"""The classic files: `minifier_launcher.py`, `repro.py`, and `checkpoints/` with a script per graph."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from minifier.engine import Signature
from minifier.graph.ir import Graph
from minifier.graph.oracle import Setting
from minifier.graph.repro import write_launcher, write_repro

LAUNCHER, REPRO = "minifier_launcher.py", "repro.py"


@dataclass(frozen=True)
class Files:
    """Everything lies below `folder`; values of inputs once per content."""

    folder: Path

    @property
    def checkpoints(self) -> Path:
        return self.folder / "checkpoints"

    @property
    def store(self) -> Path:
        return self.checkpoints / "storages"

    def repro(self, graph: Graph, setting: Setting, signature: Signature) -> Path:
        """The graph as it is, as a script that shows its failure: by its size in `checkpoints`, and the last one as `repro.py`."""
        write_repro(graph, setting, signature, self.checkpoints, f"{len(graph.nodes)}.py")
        return write_repro(graph, setting, signature, self.folder, REPRO).path

    def launcher(self, name: str, graph: Graph, setting: Setting, keeps: bool = False) -> Path:
        """A script that runs the minifier on the graph. With `keeps` there is one for every graph, not only for the last."""
        if keeps:
            plain = name.replace("/", "_").replace(".", "_") or "graph"
            write_launcher(graph, setting, name, self.checkpoints, f"graph_{plain}_{len(graph.nodes)}_nodes.py")
        return write_launcher(graph, setting, name, self.folder, LAUNCHER)

    def say(self, line: str) -> None:
        print(f"dynamo: {line}", file=sys.stderr, flush=True)
