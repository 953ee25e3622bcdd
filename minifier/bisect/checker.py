"""What stands between capture and backends while a script is bisected."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from dynamo import config
from dynamo.backends import registry
from dynamo.decisions import current_compile
from dynamo.graph.lazy import forward_of
from dynamo.skipped import user_place
from minifier import children
from minifier.bisect.bisecting import bisect_graph
from minifier.bisect.elsewhere import moved


class Checker:
    """Stands between capture and backends: graphs run in eager, and each is checked, on `device` if one is named, at its first call."""

    def __init__(self, tell: Callable[[dict[str, Any]], None], backend: str, draws: int, graph: str, device: str = "") -> None:
        self.tell, self.backend, self.draws, self.graph, self.device = tell, backend, draws, graph, device

    def between(self, name: str, backend: Callable[..., Any]) -> Callable[..., Any]:
        """What runs in the place of a backend."""
        if self.backend and self.backend != name:
            name, backend = registry.looked_up(self.backend)

        def captured(gm: Any, inputs: Sequence[Any], **options: Any) -> Callable[..., Any]:
            graph = children.key() + current_compile()
            run, waiting = forward_of(gm), [graph] if self.graph in ("", graph) else []
            if not waiting:
                self.tell({"other": graph})

            def call(*args: Any) -> Any:
                if waiting:
                    self.check(waiting.pop(), gm, args, name, backend, user_place())
                return run(*args)

            return call

        return captured

    def check(self, graph: str, gm: Any, values: Sequence[Any], name: str, backend: Callable[..., Any], caller: tuple[str, int]) -> None:
        """Of a finding in code of a library alone, the place is that of its caller."""
        self.tell({"started": graph})
        try:
            if self.device:
                gm, values = moved(gm, values, self.device)
            with config.patch(suppress_errors=False):  # else a graph whose kernels can't be built is eager's, and right
                report = bisect_graph(gm, values, name, backend, graph=graph, draws=self.draws)
        except (RuntimeError, ValueError, TypeError, IndexError, NotImplementedError, AttributeError) as e:
            self.tell({"graph": graph, "problem": f"{type(e).__name__}: {e}".splitlines()[0][:300]})
        else:
            if report.node and not report.file:
                report = replace(report, file=caller[0], line=caller[1])
            self.tell({"graph": graph, "report": report.to_json()})


def in_eager(gm: Any, inputs: Sequence[Any], **options: Any) -> Callable[..., Any]:
    """A backend that compiles nothing."""
    return forward_of(gm)
