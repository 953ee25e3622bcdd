"""Who compiles the graphs of a captured program, and who keeps what was compiled."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from torch.fx import GraphModule

from dynamo.aot.facts import Facts

if TYPE_CHECKING:  # not needed where the cache has the graph
    from dynamo.aot.joint import Joint
    from dynamo.aot.trace import Decompositions

Compiled = Callable[[list[Any]], Sequence[Any]]


class GraphCompiler(Protocol):
    """Compiles one functional ATen graph. The result takes its inputs as one list and returns a tuple.

    A result that is still being built has a method `settle`, which waits for it and returns what is called from then on.
    """

    def __call__(self, gm: GraphModule, example_inputs: Sequence[Any], *, is_backward: bool) -> Compiled: ...


class Lookup(Protocol):
    """One question to a cache: `found` is the answer; `keep` gives it what was compiled because there was none."""

    found: tuple[Facts, Compiled, Compiled | None] | None

    def keep(self, facts: Facts, forward: Compiled, backward: Compiled | None) -> None: ...


class GraphCache(Protocol):
    """Keeps compiled programs between processes."""

    def look_up(self, gm: GraphModule, inputs: Sequence[Any], compile_id: str) -> Lookup: ...


@dataclass(frozen=True)
class Compilers:
    """Who compiles which graph, how the joint graph is split, and where results are kept."""

    forward: GraphCompiler
    backward: GraphCompiler
    inference: GraphCompiler
    partition: str
    decompositions: Decompositions | None
    cache: GraphCache | None
    prepare: Callable[[GraphModule], GraphModule] | None
    arrange: Callable[[Joint], None] | None
