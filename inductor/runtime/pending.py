"""A compiled graph: its recipe, its C source, and the program they become as soon as the library is there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from dynamo.decisions import compiling
from dynamo.surroundings.locks import Lock
from dynamo.trace import current
from dynamo.trace.events import StageTimed
from inductor.errors import BuildError
from inductor.runtime import devices
from inductor.runtime.pool import Job
from inductor.runtime.recipe import Recipe

Compiled = Callable[[Sequence[Any]], tuple[Any, ...]]


class Pending:
    """Callable like the program; the first call waits for the library. `settle` waits without calling.

    `fallback` gets the error of a failed build, and returns what runs instead or raises.
    """

    def __init__(
        self,
        recipe: Recipe,
        source: str,
        library: Any | Job[Any] | None,
        graph_id: str,
        fallback: Callable[[BuildError], Compiled],
    ) -> None:
        self.recipe, self.source = recipe, source
        self._library, self._graph_id = library, graph_id
        self._fallback: Callable[[BuildError], Compiled] | None = fallback
        self._lock = Lock()
        self._program: Compiled | None = None

    def __call__(self, inputs: Sequence[Any]) -> tuple[Any, ...]:
        return (self._program or self.settle())(inputs)

    def settle(self) -> Compiled:
        """The program. Raises BuildError where `fallback` does."""
        with self._lock:
            if self._program is None:
                self._program = self._make()
                self._library = self._fallback = None  # the fallback holds the graph
            return self._program

    def _make(self) -> Compiled:
        with compiling(self._graph_id, f"{self._graph_id}.{'bw' if self.recipe.owns_inputs else 'fw'}"):
            return self._built()

    def _built(self) -> Compiled:
        library = self._library
        if not isinstance(library, Job):
            return devices.runtime(self.recipe.device).program(self.recipe, library)
        try:
            loaded = library.result()
        except BuildError as error:
            assert self._fallback is not None
            return self._fallback(error)
        finally:
            store = current()
            store.add(StageTimed(self._graph_id, "build", library.began - store.began, library.ended - library.began))
        return devices.runtime(self.recipe.device).program(self.recipe, loaded)
