"""Compiling for a GPU that isn't there: captured graphs are traced as if their tensors were on one, and kernels are collected."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn

import pytest
import torch

import dynamo
from dynamo import config
from dynamo.aot import pipeline
from dynamo.fake import tensor as fake_tensor
from inductor.runtime import devices
from inductor.runtime.recipe import Recipe
from inductor.targets.triton.bundle import parted
from inductor.targets.triton.runtime import TritonRuntime

GPU = torch.device("cuda", 0)


class Collected(BaseException):
    """The graph is compiled, forward and backward, and would run now. No Exception: of those an uncompiled run is asked what it says."""


class Collector(TritonRuntime):
    """Keeps the kernels' files of every graph, in the order of compiling."""

    def __init__(self) -> None:
        super().__init__()
        self.files: list[str] = []

    def start(self, source: str) -> list[Any]:
        self.files += parted(source)
        return []

    def program(self, recipe: Recipe, library: list[Any] | None) -> Callable[[Sequence[Any]], tuple[Any, ...]]:
        def stop(inputs: Sequence[Any]) -> NoReturn:
            raise Collected

        return stop


@contextlib.contextmanager
def absent_gpu() -> Iterator[Collector]:
    """From tracing on every tensor of the processor claims to be on a GPU; graphs are compiled for it and stop when they are called."""
    collector, new, make = Collector(), fake_tensor.FakeTensor.__new__, pipeline.make

    def moved(cls: Any, meta: torch.Tensor, device: torch.device, requires_grad: bool = False) -> Any:
        return new(cls, meta, GPU if device.type == "cpu" else device, requires_grad)

    def make_on_gpu(*args: Any) -> Any:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(fake_tensor.FakeTensor, "__new__", staticmethod(moved))
            return make(*args)

    fake_tensor.is_phantom(GPU)
    with pytest.MonkeyPatch.context() as patch, config.patch(graph_cache=False, suppress_errors=False):
        patch.setattr(pipeline, "make", make_on_gpu)
        patch.setattr(devices, "runtime", lambda device: collector)
        yield collector


def kernel_files(call: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> list[str]:
    """The files of all kernels that a call is compiled to, its backward's too where gradients are wanted. Each text once."""
    dynamo.reset()
    with absent_gpu() as collector:
        try:
            dynamo.compile(call, backend="inductor", fullgraph=True)(*args, **kwargs)
        except Collected:
            pass
        else:
            raise AssertionError("the call went past its graph")
    return list(dict.fromkeys(collector.files))
