"""What stands between capture and backends where `repro_after` is set: it writes down graphs that fail, and changes nothing else.

| level | what is written, and when |
|---|---|
| 1 | the graph that failed, as a script |
| 2 | a launcher of the minifier for the graph that failed |
| 3 | such a launcher for every graph, before it is compiled, and again with its real inputs before it first runs |
| 4 | a launcher for the graph that failed, or whose results are not eager's, which also ends the program |
"""

from __future__ import annotations

import copy
import functools
import getpass
import os
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import torch
from torch import fx

from dynamo import config
from dynamo.decisions import current_compile
from inductor.compile import compile_graph
from minifier import script_backends
from minifier.classic.files import Files
from minifier.engine import Signature, Verdict
from minifier.graph.fx import from_fx
from minifier.graph.ir import Graph
from minifier.graph.names import Unsupported
from minifier.graph.oracle import Setting, judge
from minifier.isolation.child import failure
from minifier.recorder import ahead_of_time, backend_name, plain_options, set_options
from minifier.state import captured

Run = Callable[..., Any]
T = TypeVar("T")
DUMP, LAUNCH, ALWAYS, ACCURACY = 1, 2, 3, 4


class AccuracyError(RuntimeError):
    """A compiled graph does not compute what eager does (level 4)."""

    is_final = True  # see dynamo/graph/rescue.py: it ends the program, whatever the program catches on its way in eager


def between(name: str, backend: Run) -> Run:
    """What is used in the place of a backend, by the options `repro_after`, `repro_level` and `repro_dir`."""
    asked, wanted, level = str(config.repro_after) or "dynamo", backend_name(name, backend), int(config.repro_level)
    files = Files(Path(config.repro_dir) if config.repro_dir else default_folder())
    if asked == "aot":
        if wanted != "inductor":
            return backend  # makes no ATen graphs, or none that anybody else sees
        return _ahead_of_time(files, level)

    def watched(gm: Any, inputs: Sequence[Any], **options: Any) -> Run:
        case = _Case(files, level, "dynamo", wanted, current_compile(), gm, False, plain_options(options), backend)
        if case.level == ACCURACY:
            case.bisect(functools.partial(backend, **options), inputs)
        return case.watch(lambda: backend(gm, inputs, **options), inputs)

    return watched


def default_folder() -> Path:
    """A folder of this user's for temporary files; nothing is put into the current one unless somebody asks."""
    folder = Path(tempfile.gettempdir()) / f"minifier_{getpass.getuser()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.is_symlink() or folder.stat().st_uid != os.getuid():
        raise PermissionError(f"{folder} belongs to somebody else; set REPRO_DIR")
    return folder


def _ahead_of_time(files: Files, level: int) -> Run:
    def take(gm: Any, inputs: Sequence[Any], is_backward: bool) -> Run:
        name = f"{current_compile()}.{'bw' if is_backward else 'fw'}"
        case = _Case(files, level, "aot", "inductor", name, gm, is_backward, {})
        return case.watch(lambda: compile_graph(gm, inputs, is_backward=is_backward), [_like(i) for i in inputs])

    return ahead_of_time(take)


def _like(value: Any) -> Any:
    """A value as an example says: the graph has not been called yet, so there are no real ones."""
    if not isinstance(value, torch.Tensor):
        return value
    made = torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device=value.device)
    return made.normal_() if made.is_floating_point() or made.is_complex() else made.zero_()


class _Case:
    """One graph on its way through a backend."""

    def __init__(
        self,
        files: Files,
        level: int,
        after: str,
        backend: str,
        name: str,
        gm: Any,
        is_backward: bool,
        arguments: dict[str, Any],
        function: Run | None = None,
    ) -> None:
        self.function = function
        self.files, self.level, self.after, self.backend, self.name = files, level, after, backend, name
        self.gm = fx.GraphModule(gm, copy.deepcopy(gm.graph))  # a backend may write into the one it gets
        self.is_backward, self.arguments = is_backward, arguments

    def watch(self, compile: Callable[[], Run], examples: Sequence[Any]) -> Run:
        """Compile, and give what runs in the place of the result."""
        if self.level == ALWAYS:
            self._written(examples, None)
        try:
            call = compile()
        except Exception as e:
            self._failed(examples, e, "compile")
            raise
        is_first = [True]

        def run(*args: Any) -> Any:
            values = args[0] if self.after == "aot" else args
            if is_first:
                is_first.clear()
                if self.level == ALWAYS and self.after == "aot":
                    self._written(values, None)
                if self.level == ACCURACY and self.after == "aot":
                    self._compare(values)
            kept = list(values)  # a backward graph empties the list it is given
            try:
                return call(*args)
            except Exception as e:
                self._failed(kept, e, "run")
                raise

        return run

    def _failed(self, values: Sequence[Any], error: Exception, doing: str) -> None:
        if self.level != ALWAYS:
            place = self._written(values, failure(error, doing))
            if place is not None:
                error.add_note(_MESSAGE[DUMP if self.level == DUMP else LAUNCH].format(path=place))

    def bisect(self, backend: Run, values: Sequence[Any]) -> None:
        """The verdict of `dynamo-debug bisect` on a captured graph, told with stage, node and decision. Raises AccuracyError."""
        from minifier.bisect import bisecting, report  # noqa: PLC0415  # only at this level: they load the whole compiler of graphs

        try:
            with torch.random.fork_rng(), config.patch(repro_after="", suppress_errors=False):
                found = bisecting.bisect_graph(self.gm, values, self.backend, backend, graph=self.name)
        except (RuntimeError, ValueError, TypeError, IndexError, NotImplementedError, AttributeError) as e:
            self.files.say(f"graph {self.name} can't be compared with eager: {type(e).__name__}: {e}")
            return
        if not found.is_finding or found.verdict in (report.FAILED, report.GONE):
            return  # what a backend raises, it raises again below
        self.files.say(report.as_text(found).rstrip())
        graph = self._graph(values)
        if graph is None:
            raise AccuracyError(f"Bad accuracy detected. graph {self.name}: {found.text}.")
        self._raise(graph, replace(self._setting(), backward=self._has_gradients(graph)), found.text)

    def _compare(self, values: Sequence[Any]) -> None:
        """An ATen graph beside eager. Raises AccuracyError."""
        graph = self._graph(values)
        if graph is None:
            return
        setting = self._setting()
        with torch.random.fork_rng(), config.patch(repro_after=""):
            outcome = judge(graph, setting)
        if outcome.verdict is Verdict.INVALID:
            self.files.say(f"graph {self.name} can't be compared with eager: {outcome.detail.strip()}")
        elif outcome.verdict is Verdict.INTERESTING:
            self._raise(graph, setting, outcome.detail)

    def _raise(self, graph: Graph, setting: Setting, text: str) -> NoReturn:
        place = self._on_disk(lambda: self.files.launcher(self.name, graph, setting))
        config.suppress_errors = False  # else a graph that raises when it is called would be run in eager
        where = f" {_MESSAGE[LAUNCH].format(path=place)}" if place is not None else ""
        raise AccuracyError(f"Bad accuracy detected. graph {self.name}: {text}.{where}")

    def _has_gradients(self, graph: Graph) -> bool:
        return self.after == "dynamo" and torch.is_grad_enabled() and any(i.requires_grad for i in graph.inputs)

    def _written(self, values: Sequence[Any], signature: Signature | None) -> Path | None:
        """Where the graph was written; None where it can't be."""
        graph = self._graph(values)
        if graph is None:
            return None

        def write() -> Path:
            setting = replace(self._setting(), backward=self._has_gradients(graph))
            if self.level == DUMP and signature is not None:
                return self.files.repro(graph, setting, signature)
            return self.files.launcher(self.name, graph, setting, keeps=self.level == ALWAYS)

        place = self._on_disk(write)
        if place is not None:
            self.files.say(_MESSAGE[LAUNCH if self.level == ACCURACY else self.level].format(path=place, graph=self.name))
        return place

    def _on_disk(self, write: Callable[[], T]) -> T | None:
        """What `write` gives; None where the folder can't be written to: the program goes on as it would without us."""
        try:
            return write()
        except OSError as e:
            self.files.say(f"graph {self.name} can't be written to {self.files.folder}: {e.strerror}; set REPRO_DIR to a folder that can")
            return None

    def _graph(self, values: Sequence[Any]) -> Graph | None:
        try:
            with torch.random.fork_rng():
                return self._on_disk(lambda: from_fx(self.gm, values, self.files.store))
        except (RuntimeError, TypeError, ValueError, LookupError, AttributeError) as e:
            hint = "; REPRO_AFTER=aot looks at its ATen graphs" if self.after == "dynamo" and isinstance(e, Unsupported) else ""
            self.files.say(f"graph {self.name} can't be written down{hint}: {type(e).__name__}: {e}")
            return None

    def _setting(self) -> Setting:
        state = captured()
        self.files.checkpoints.mkdir(parents=True, exist_ok=True)
        return Setting(
            script_backends.kept(self.backend, self.files.checkpoints, self.function),
            self.after,
            self.level == ACCURACY,
            seed=state.seed,
            threads=state.threads,
            store=str(self.files.store.absolute()),
            is_backward=self.is_backward,
            arguments=self.arguments,
            options=set_options(),
            state=state,
        )


_MESSAGE = {
    DUMP: "The graph was written to {path}.",
    ALWAYS: "Graph {graph} written to {path} and kept in checkpoints. Should the program crash in it, run this script.",
    LAUNCH: "Minifier script written to {path}. Run this script to find the smallest traced graph which reproduces this error.",
}
