"""Functions and constants of torch by name, and back."""

from __future__ import annotations

import importlib
import types
from collections.abc import Callable
from typing import Any

import torch

from dynamo.ops.rows import words
from minifier.graph.ir import Named


class Unsupported(ValueError):
    """A graph has something in it that can't be written down; the message names the node and what."""


# Namespaces of operators that any process with torch and this package has; `dynamo_regions` calls graphs by a number of its process.
OF_ALL = words(
    "_c10d_functional _c10d_functional_autograd _dtensor _native _quantized aten c10d c10d_functional debugprims dynamo_debug export "
    "flex_lib fsdp inductor inductor_prims mkl mkldnn mkldnn_prepacked onednn prims profiler quantization quantized quantized_decomposed "
    "rngprims sparse static_runtime streams symm_mem"
)
_CONSTANTS: tuple[tuple[str, type], ...] = (
    ("dtype", torch.dtype),
    ("device", torch.device),
    ("layout", torch.layout),
    ("memory_format", torch.memory_format),
)


def name_of(function: Callable[..., Any]) -> str:
    """The name under which `resolve` finds a function. Raises Unsupported for what has none: closures, lambdas, functions of a script,
    and for operators that are this process's."""
    if isinstance(function, torch._ops.OpOverload) and function.namespace not in OF_ALL:
        raise Unsupported(f"{function} is an operator that other processes don't have")
    for name in _names(function):
        try:
            if resolve(name) is function:
                return name
        except Unsupported:
            continue
    raise Unsupported(f"{getattr(function, '__qualname__', function)!s} can't be found by its name")


def _names(function: Any) -> list[str]:
    if isinstance(function, (torch._ops.OpOverload, torch._ops.OpOverloadPacket)):
        return [f"torch.ops.{str(function).replace('::', '.')}"]
    name = getattr(function, "__qualname__", "") or getattr(function, "__name__", "")
    homes = [getattr(function, "__module__", None) or "builtins", "torch", "torch.nn.functional", "torch._C._nn", "operator"]
    return [f"{home}.{n}" for home in dict.fromkeys(homes) for n in dict.fromkeys((name, name.rpartition(".")[2]))]


def resolve(name: str) -> Callable[..., Any]:
    """The function of that name; its module is imported. Raises Unsupported."""
    parts = name.split(".")
    try:
        found: Any = importlib.import_module(parts[0])
        for depth, part in enumerate(parts[1:], 2):
            if not hasattr(found, part) and isinstance(found, types.ModuleType):
                importlib.import_module(".".join(parts[:depth]))
            found = getattr(found, part)
    except (ImportError, AttributeError, ValueError) as e:
        raise Unsupported(f"there is no function {name}: {e}") from e
    if not callable(found):
        raise Unsupported(f"{name} is no function")
    return found


def constant_out(value: Any) -> Named | None:
    """A constant of torch as a name; None for anything else."""
    for kind, cls in _CONSTANTS:
        if isinstance(value, cls):
            return Named(kind, str(value))
    return None


def constant_in(value: Named) -> Any:
    """The inverse of `constant_out`. Raises Unsupported."""
    if value.kind == "device":
        return torch.device(value.text)
    found = getattr(torch, value.text.removeprefix("torch."), None)
    if not isinstance(found, dict(_CONSTANTS).get(value.kind, ())):
        raise Unsupported(f"torch has no {value.kind} {value.text}")
    return found
