"""The backends `inductor`, ahead-of-time graphs compiled to kernels, and `cudagraphs`, such graphs captured from eager's kernels."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any

import torch
from torch.fx import GraphModule

from dynamo import config
from dynamo.aot import aot_module, interpret
from dynamo.surroundings.locks import cached_property
from inductor.runtime.graph_cache import DiskCache

if TYPE_CHECKING:
    from dynamo.aot.joint import Joint
    from inductor.compile import Compiled
    from inductor.runtime.pending import Pending


def inductor(gm: GraphModule, example_inputs: Sequence[torch.Tensor], *, options: dict[str, Any] | None = None) -> Callable[..., Any]:
    """Compile a captured graph, with its backward where gradients are needed. `options` (modes of the GPU) change nothing on CPUs."""
    cache = DiskCache(dict(options or {}))
    compiler = functools.partial(compile_one, captures=wants_graphs(options or {}), tunes=wants_tuning(options or {}))
    return aot_module(
        gm,
        example_inputs,
        decompositions=SPLITS,
        fw_compiler=compiler,
        bw_compiler=compiler,
        cache=cache,
        prepare=prepare,
        arrange=arrange,
    )


inductor.reads_graphs_only = True  # type: ignore[attr-defined]  # see dynamo/graph/lazy.py


def wants_graphs(options: Mapping[str, Any]) -> bool:
    """Whether CUDA graphs are asked for: by the option, else by the mode, else by the configuration."""
    asked = options.get("triton.cudagraphs")
    if asked is None and "mode" in options:
        return options["mode"] in ("reduce-overhead", "max-autotune")
    return bool(config.cudagraphs if asked is None else asked)


def wants_tuning(options: Mapping[str, Any]) -> bool:
    """Whether shapes of kernels are to be measured: by the option, else by the mode, else by the configuration."""
    asked = options.get("max_autotune")
    if asked is None and "mode" in options:
        return str(options["mode"]).startswith("max-autotune")
    return bool(config.max_autotune if asked is None else asked)


def cudagraphs(gm: GraphModule, example_inputs: Sequence[torch.Tensor], *, options: dict[str, Any] | None = None) -> Callable[..., Any]:
    """Backend: ahead-of-time graphs run by eager's kernels, captured as CUDA graphs."""
    return aot_module(gm, example_inputs, fw_compiler=captured, bw_compiler=captured)


def captured(gm: GraphModule, example_inputs: Sequence[Any], *, is_backward: bool) -> Compiled:
    interpreted = interpret(gm, example_inputs, is_backward=is_backward)
    run: Compiled = _uncached().operators(gm, lambda inputs: tuple(interpreted(list(inputs))), is_backward)
    return run


def _uncached() -> ModuleType:
    from inductor import uncached  # noqa: PLC0415  # lowering and its tables: not needed where the cache has the graph

    return uncached


class Splits(Mapping[Any, Callable[..., Any]]):
    """`uncached.splits()`, filled when first asked."""

    @cached_property
    def table(self) -> Mapping[Any, Callable[..., Any]]:
        table: Mapping[Any, Callable[..., Any]] = _uncached().splits()
        return table

    def __getitem__(self, op: Any) -> Callable[..., Any]:
        return self.table[op]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.table)

    def __len__(self) -> int:
        return len(self.table)


SPLITS = Splits()


def prepare(gm: GraphModule) -> GraphModule:
    prepared: GraphModule = _uncached().prepare(gm)
    return prepared


def arrange(joint: Joint) -> None:
    """Layouts that forward and backward have to agree on."""
    _uncached().arrange(joint)


def compile_one(
    gm: GraphModule, example_inputs: Sequence[Any], *, is_backward: bool, captures: bool = False, tunes: bool = False
) -> Compiled | Pending:
    """One ATen graph. The C compiler may still be at work when this returns."""
    started: Compiled | Pending = _uncached().start_graph(gm, example_inputs, is_backward=is_backward, captures=captures, tunes=tunes)
    return started
