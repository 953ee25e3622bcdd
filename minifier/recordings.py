"""Graphs that were recorded from a script: a JSON file each, and the values of their inputs in a folder beside them."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from minifier.graph.ir import Graph, GraphError, load
from minifier.graph.oracle import Setting
from minifier.state import State

VALUES = "values"
WITHOUT = "; looked at without that"  # the end of a problem with a graph that is there
SAME_DRAWS = "torch._inductor.config.fallback_random"  # without it torch's compiler draws other numbers than eager


@dataclass(frozen=True)
class Recorded:
    """A graph of a script, and why it could not be kept, or not whole (`problem`).

    `name` is the id of its compile, of an ATen graph with `.fw` or `.bw` behind it. `arguments` were given to the compiler with it,
    `options` of the compiler were set, and `state` held when it was first called.
    """

    number: int
    backend: str
    is_backward: bool
    graph: Graph | None
    problem: str = ""
    name: str = ""
    arguments: dict[str, Any] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)
    state: State = field(default_factory=State)

    def answers_to(self, wanted: str) -> bool:
        """Whether somebody who asks for a graph of that name means this one: `3/1` means forward and backward."""
        return wanted in ("", self.name, self.name.rpartition(".")[0])

    def setting(self, engine: str, after: str, accuracy: bool, store: str) -> Setting:
        """How it is judged. Where numbers are compared, torch's compiler has to draw the same ones as eager."""
        options = {**self.options, SAME_DRAWS: True} if engine == "torch" and accuracy else self.options
        return Setting(
            self.backend,
            after,
            accuracy,
            seed=self.state.seed,
            threads=self.state.threads,
            store=store,
            engine=engine,
            is_backward=self.is_backward,
            arguments=self.arguments,
            options=options,
            state=self.state,
        )


def recorded(folder: Path) -> list[Recorded]:
    """All graphs in a folder, in the order in which they were made. Raises GraphError for files that are not ours."""
    found = []
    for path in sorted(folder.glob("*.json")):
        try:
            data = json.loads(path.read_text())
            graph = None if data["graph"] is None else load(json.dumps(data["graph"]).encode())
            found.append(
                Recorded(
                    int(path.stem),
                    str(data["backend"]),
                    bool(data["is_backward"]),
                    graph,
                    str(data["problem"]),
                    str(data["id"]),
                    dict(data["arguments"]),
                    dict(data["options"]),
                    State.from_json(data["state"]),
                )
            )
        except (ValueError, KeyError, TypeError) as e:
            raise GraphError(f"{path}: not a recorded graph: {e}") from e
    return found
