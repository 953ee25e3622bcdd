"""The stages of the pipeline, each declared once.

The timer, the record, the command line, the TUI and the bisector all use these names.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Stage:
    """One named step. `package` is the package that runs it; `doc` is one line for help texts; `also` are other names people use."""

    name: str
    package: str
    doc: str
    also: tuple[str, ...] = ()


STAGES: tuple[Stage, ...] = (
    Stage("bytecode", "dynamo", "decode and analyse the code object"),
    Stage("capture", "dynamo", "run the bytecode symbolically; build the FX graph and collect guards"),
    Stage("backend", "dynamo", "hand the graph to the backend and get a callable"),
    Stage("guards", "dynamo", "compile guard records into a C guard tree"),
    Stage("codegen", "dynamo", "write the function that calls the graph and replays side effects"),
    Stage("install", "dynamo", "put the entry into the cache of its code object"),
    Stage("cache", "inductor", "look the graph up in the cache on disk; a hit replaces the stages below"),
    Stage("aot", "dynamo", "trace the joint forward and backward ATen graph", ("joint",)),
    Stage("partition", "dynamo", "split the joint graph, decide what to save and what to recompute"),
    Stage("passes", "inductor", "rewrite graph and loop IR"),
    Stage("lower", "inductor", "turn ATen nodes into loop IR"),
    Stage("schedule", "inductor", "fuse, order and plan memory"),
    Stage("kernels", "inductor", "print the kernels and the host program"),
    Stage("build", "inductor", "run the C compiler or Triton, load the result"),
)

BY_NAME: dict[str, Stage] = {s.name: s for s in STAGES}
ALIASES: dict[str, str] = {other: s.name for s in STAGES for other in s.also}
