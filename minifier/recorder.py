"""What stands between capture and backends while a script is recorded: graphs run in eager and are kept with their first values."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from dynamo import config
from dynamo.aot import aot_module
from dynamo.backends import registry
from dynamo.decisions import current_compile
from dynamo.graph.lazy import forward_of
from dynamo.peer import patient
from inductor.backend import SPLITS, arrange, prepare
from minifier import children, script_backends
from minifier.graph.fx import from_fx
from minifier.graph.ir import dump
from minifier.recordings import VALUES, WITHOUT
from minifier.state import captured

_NOT_OF_THE_GRAPH = frozenset({"repro_after", "repro_level", "repro_dir", "cache_dir", "suppress_errors"})

Run = Callable[..., Any]


class Recorder:
    """Stands between capture and backends; graphs run in eager."""

    def __init__(self, folder: Path, engine: str, after: str, backend: str) -> None:
        self.folder, self.engine, self.after, self.backend = folder, engine, after, backend
        self.count = 0

    def between(self, name: str, backend: Callable[..., Any]) -> Callable[..., Any]:
        """What runs in the place of a backend of ours."""
        wanted = self.backend or backend_name(name, backend)
        if self.after == "aot":
            return ahead_of_time(lambda gm, inputs, is_backward: self._taken(current_compile(), wanted, backend, {}, gm, is_backward))
        return lambda gm, inputs, **options: self._taken(current_compile(), wanted, backend, options, gm, False)

    def taken(self, graph_id: str, backend: str | Run, options: dict[str, Any], gm: Any, is_backward: bool) -> Run:
        """The graph in eager, which is kept when it is first called."""
        name, function = (backend, None) if isinstance(backend, str) else (backend_name("", backend), backend)
        return self._taken(graph_id, name, function, options, gm, is_backward)

    def _taken(self, graph_id: str, backend: str, function: Run | None, options: dict[str, Any], gm: Any, is_backward: bool) -> Run:
        number = self._number()
        run, left = forward_of(gm), [gm]
        name = children.key() + (graph_id if self.after == "dynamo" else f"{graph_id}.{'bw' if is_backward else 'fw'}")

        def call(*args: Any) -> Any:
            values = args[0] if len(args) == 1 and isinstance(args[0], list) else args
            if left:
                own = script_backends.kept(backend, self.folder, function)
                self._keep(left.pop(), values, number, name, own, plain_options(options), is_backward)
            return run(*values)

        return call

    def _number(self) -> int:
        """The next that no graph has, also none of another process of the script, as all record in the same folder."""
        while True:
            number, self.count = self.count, self.count + 1
            own = self.folder / f"{number:04d}.partial"
            try:
                own.touch(exist_ok=False)
            except FileExistsError:
                continue
            if not own.with_suffix(".json").exists():
                return number
            own.unlink()

    def _keep(
        self, gm: Any, values: Sequence[Any], number: int, name: str, backend: str, arguments: dict[str, Any], is_backward: bool
    ) -> None:
        graph, problem, left_out = None, "", list[str]()
        try:
            with torch.random.fork_rng():
                graph = json.loads(dump(from_fx(gm, values, self.folder / VALUES, left_out)))
            problem = "".join(lost + WITHOUT for lost in left_out[:1])
        except (RuntimeError, TypeError, ValueError, LookupError, AttributeError) as e:
            problem = f"{type(e).__name__}: {e}"
        data = {
            "id": name,
            "backend": backend,
            "arguments": arguments,
            "options": self._options(),
            "is_backward": is_backward,
            "state": asdict(captured()),
            "graph": graph,
            "problem": problem,
        }
        partial = self.folder / f"{number:04d}.partial"
        partial.write_text(json.dumps(data))
        partial.rename(partial.with_suffix(".json"))

    def _options(self) -> dict[str, Any]:
        return patient.changed_options() if self.engine == "torch" else set_options()


def set_options() -> dict[str, Any]:
    """Options of our compiler that the program has set and that a graph may depend on."""
    rows = config.rows()
    return {r.name: r.value for r in rows if r.source == "set" and r.value != r.default and r.name not in _NOT_OF_THE_GRAPH}


def plain_options(options: dict[str, Any]) -> dict[str, Any]:
    """Options of a call of the compiler that can be written down."""
    return {k: v for k, v in options.items() if isinstance(v, (bool, int, float, str, dict)) and _is_json(v)}


def _is_json(value: Any) -> bool:
    try:
        json.dumps(value)
    except (TypeError, ValueError):
        return False
    return True


def backend_name(name: str, backend: Callable[..., Any]) -> str:
    """The name under which another process finds a backend. One that the script registers is registered nowhere else; one that no module
    has (an object or a method, made where it is given) has a name that nobody finds."""
    own = getattr(backend, "__module__", type(backend).__module__)
    if name in registry.list_backends(exclude_tags=()) and own != "__main__":
        return name
    qualname = str(getattr(backend, "__qualname__", ""))
    if qualname and "<" not in qualname and not hasattr(backend, "__self__"):
        return f"{own}:{qualname}"
    for module in dict.fromkeys((own, "__main__", *sys.modules)):
        found = [n for n, value in vars(sys.modules[module]).items() if value is backend] if module in sys.modules else []
        if found:
            return f"{module}:{found[0]}"
    return f"{own}:{qualname if '<' in qualname else f'<{qualname or name}>'}"


Take = Callable[[Any, Sequence[Any], bool], Run]


def ahead_of_time(take: Take) -> Callable[..., Any]:
    """A backend that hands every ATen graph to a function, as our compiler makes them; what that gives is called with one list."""

    def one(gm: Any, example_inputs: Sequence[Any], *, is_backward: bool) -> Run:
        return take(gm, example_inputs, is_backward)

    def backend(gm: Any, inputs: Sequence[Any], **options: Any) -> Run:
        return aot_module(gm, inputs, decompositions=SPLITS, fw_compiler=one, bw_compiler=one, prepare=prepare, arrange=arrange)

    return backend
