"""Programs compiled for a GPU that isn't there: tensors of the processor are taken for a GPU's from capture on, and nothing is computed."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
import torch

from dynamo import config
from dynamo.fake import convert
from dynamo.symbolic.torch import optimizers
from inductor import backend, uncached
from inductor import compile as compiler
from inductor.ir.nest import View
from inductor.runtime import devices
from inductor.runtime.recipe import Recipe
from inductor.schedule.plan import Plan
from inductor.targets.triton.runtime import TritonRuntime

CUDA = torch.device("cuda", 0)


class NothingComputed(TritonRuntime):
    """Compiled graphs give tensors of ones in the layout that they promise."""

    def start(self, source: str) -> list[Any]:
        return []

    def program(self, recipe: Recipe, library: Any) -> Callable[[Sequence[Any]], tuple[Any, ...]]:
        def run(inputs: Sequence[Any]) -> tuple[Any, ...]:
            made = dict(zip(recipe.inputs, inputs, strict=True))
            results = tuple(result(o, recipe, made) for o in recipe.outputs)
            if recipe.owns_inputs and isinstance(inputs, list):
                inputs.clear()
            return results

        return run


def result(output: Any, recipe: Recipe, made: dict[str, Any]) -> Any:
    if not isinstance(output, View):
        return output
    buffer = recipe.buffers[output.buffer]
    if output.buffer not in made:
        made[output.buffer] = torch.empty_strided(buffer.shape, buffer.strides, dtype=buffer.dtype).fill_(1)
    base = made[output.buffer]
    return base.as_strided(output.shape, output.strides, base.storage_offset() + output.offset)


def attention(q: Any, k: Any, v: Any, mask: Any = None, p: float = 0.0, causal: bool = False, **more: Any) -> torch.Tensor:
    """What torch chooses for a GPU by the device of the tensors, which its C++ does not see here."""
    scale = more.get("scale")
    if mask is not None:
        mask = mask.expand(*q.shape[:3], k.shape[2])
        return torch.ops.aten._scaled_dot_product_efficient_attention(q, k, v, mask, q.requires_grad, p, causal, scale=scale)[0]
    return torch.ops.aten._scaled_dot_product_flash_attention(q, k, v, p, causal, scale=scale)[0]


def prepared(gm: torch.fx.GraphModule) -> torch.fx.GraphModule:
    made = uncached.prepare(gm)
    for node in made.graph.nodes:
        if node.target is torch.nn.functional.scaled_dot_product_attention:
            named = {"attn_mask": "mask", "dropout_p": "p", "is_causal": "causal"}
            node.kwargs = {named.get(k, k): v for k, v in node.kwargs.items()}
            node.target = attention
    return torch.fx.GraphModule(made, made.graph)


@contextlib.contextmanager
def on_cuda() -> Iterator[list[Plan]]:
    """What is compiled inside is compiled for a GPU. Yields the plans of all graphs in the order of compiling."""
    plans: list[Plan] = []
    schedule, runtime = compiler.schedule, NothingComputed()

    def scheduled(*args: Any) -> Plan:
        plans.append(schedule(*args))
        return plans[-1]

    with pytest.MonkeyPatch.context() as patch, config.patch(graph_cache=False, suppress_errors=False):
        patch.setattr(convert, "device_of", lambda t: CUDA if t.device.type == "cpu" else t.device)
        patch.setattr(torch.cuda, "_lazy_init", lambda: None)
        patch.setattr(optimizers, "is_on_gpu", lambda parameter: True)
        patch.setattr(devices, "runtime", lambda device: runtime)
        patch.setattr(compiler, "schedule", scheduled)
        patch.setattr(backend, "prepare", prepared)
        yield plans
