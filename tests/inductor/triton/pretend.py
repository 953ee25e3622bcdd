"""Programs compiled for a GPU that isn't there: tensors of the processor are taken for a GPU's from capture on, and nothing is computed."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import dynamo
from dynamo import config
from dynamo.fake import convert
from dynamo.symbolic.torch import optimizers
from inductor import backend, uncached
from inductor import compile as compiler
from inductor.ir.nest import View
from inductor.runtime import devices
from inductor.runtime.recipe import Recipe
from inductor.schedule.plan import Plan
from inductor.targets.triton.bundle import parted
from inductor.targets.triton.runtime import TritonRuntime

CUDA = torch.device("cuda", 0)
aten = torch.ops.aten


@dataclass
class Compiled:
    """What was compiled, in order: a plan for each graph, and the files of all kernels."""

    plans: list[Plan] = field(default_factory=list)
    files: list[str] = field(default_factory=list)


class NothingComputed(TritonRuntime):
    """Compiled graphs give tensors of ones in the layout that they promise."""

    def __init__(self, made: Compiled) -> None:
        super().__init__()
        self.made = made

    def start(self, source: str) -> list[Any]:
        self.made.files += parted(source)
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


# What torch chooses by the device of the tensors, which its C++ does not see here: as on an H100 with cuDNN 9.19.


def attention(
    query: Any, key: Any, value: Any, attn_mask: Any = None, dropout_p: float = 0.0, is_causal: bool = False, **more: Any
) -> torch.Tensor:
    wants_grad, scale = query.requires_grad, more.get("scale")
    if attn_mask is not None:
        attn_mask = attn_mask.expand(*query.shape[:3], key.shape[2])
    fused = aten._scaled_dot_product_efficient_attention if query.dtype is torch.float32 else aten._scaled_dot_product_cudnn_attention
    result: torch.Tensor = fused(query, key, value, attn_mask, wants_grad, dropout_p, is_causal, scale=scale)[0]
    return result


def batch_norm(
    input: Any,
    running_mean: Any,
    running_var: Any,
    weight: Any = None,
    bias: Any = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> torch.Tensor:
    if weight is None or bias is None or input.dim() < 3:
        return F.batch_norm(input, running_mean, running_var, weight, bias, training, momentum, eps)
    found: torch.Tensor = aten.cudnn_batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps)[0]
    return found


CHOICES: dict[Any, Any] = {F.scaled_dot_product_attention: attention, F.batch_norm: batch_norm, torch.batch_norm: batch_norm}


def prepared(gm: torch.fx.GraphModule) -> torch.fx.GraphModule:
    made = uncached.prepare(gm)
    for node in made.graph.nodes:
        node.target = CHOICES.get(node.target, node.target)
    return torch.fx.GraphModule(made, made.graph)


@contextlib.contextmanager
def on_cuda() -> Iterator[Compiled]:
    """What is compiled inside is compiled for a GPU."""
    made = Compiled()
    schedule, runtime = compiler.schedule, NothingComputed(made)

    def scheduled(*args: Any) -> Plan:
        made.plans.append(schedule(*args))
        return made.plans[-1]

    with pytest.MonkeyPatch.context() as patch, config.patch(graph_cache=False, suppress_errors=False):
        patch.setattr(convert, "device_of", lambda t: CUDA if t.device.type == "cpu" else t.device)
        patch.setattr(torch.cuda, "_lazy_init", lambda: None)
        patch.setattr(optimizers, "is_on_gpu", lambda parameter: True)
        patch.setattr(devices, "runtime", lambda device: runtime)
        patch.setattr(compiler, "schedule", scheduled)
        patch.setattr(backend, "prepare", prepared)
        yield made


def kernel_files(call: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> list[str]:
    """The files of all kernels that a call is compiled to, its backward's too where gradients are wanted. Each text once."""
    dynamo.reset()
    with on_cuda() as made:
        dynamo.compile(call, backend="inductor", fullgraph=True)(*args, **kwargs)
    return list(dict.fromkeys(made.files))
